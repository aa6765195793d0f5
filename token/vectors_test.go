package token

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

// update writes the vectors anew: go test ./token -run TestVectors -update
var update = flag.Bool("update", false, "write testdata/vectors/token anew")

const vectorFolder = "../testdata/vectors/token"

// vector is one question and its answer, for any implementation in any
// language. Arguments are JSON text, so that digits and faults are kept.
type vector struct {
	Name      string          `json:"name"`
	Anchors   json.RawMessage `json:"anchors"`
	Chain     json.RawMessage `json:"chain"`
	Proof     string          `json:"proof"`
	Operation string          `json:"operation"`
	Arguments string          `json:"arguments"`
	At        int64           `json:"at"`
	Audience  string          `json:"audience"` // identity of the point, which proofs must name
	Issuer    string          `json:"issuer"`
	Point     *Point          `json:"point,omitempty"`
	Draft01   bool            `json:"draft_01,omitempty"`
	Strict    bool            `json:"strict,omitempty"`
	Revoked   []string        `json:"revoked"`
	Decision  string          `json:"decision"`
	Codes     []powerbox.Code `json:"codes"`
}

func (v vector) check() CheckResult {
	r := CheckRequest{
		Anchors: v.Anchors, Chain: v.Chain, Proof: []byte(v.Proof), Operation: v.Operation,
		Arguments: []byte(v.Arguments), At: time.Unix(v.At, 0), Issuer: v.Issuer, Revoked: v.Revoked, Draft01: v.Draft01, Strict: v.Strict,
	}
	if v.Point != nil {
		r.Point = *v.Point
	}
	if v.Audience != "" {
		r.Point.Identity, r.Point.RequireAudience = append(r.Point.Identity, v.Audience), true
	}
	return Check(r)
}

// object is a JSON object that a test may spoil.
type object = map[string]any

// part is a token or proof to be forged: anybody can sign anything.
type part struct {
	header object
	claims object
	raw    string                      // the payload, where claims cannot say it
	signer *PrivateKey                 // nil takes the parent's holder
	holder *PrivateKey                 // whose key stands in cnf
	edit   func(compact string) string // last of all
}

// forgery is a question in the making.
type forgery struct {
	vector
	draft  Draft
	t      testing.TB
	issuer *PrivateKey
	links  []*part
	proof  *part
}

const now = 1_800_000_000

// anyAlg stands for the name of the signer's algorithm.
const anyAlg = "any"

func public(t testing.TB, k *PrivateKey) any {
	var v any
	if err := json.Unmarshal(k.Public().JWK().AppendJSON(nil), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func newForgery(t testing.TB, hops int) *forgery {
	f := &forgery{t: t, issuer: keyOf(t, "issuer", Ed25519)}
	f.vector = vector{Operation: "read", Arguments: `{"path":"/q1"}`, At: now, Issuer: "https://agent.example", Revoked: []string{}, Codes: []powerbox.Code{}}
	jwk := public(t, f.issuer).(object)
	jwk["kid"] = "issuer-1"
	f.setAnchors(jwk)
	for i := range hops + 1 {
		algorithm := []Algorithm{ES256, Ed25519}[i%2]
		p := &part{
			header: object{"alg": anyAlg, "typ": typeToken},
			holder: keyOf(t, "vector holder "+string(rune('a'+i)), algorithm),
			claims: object{
				"jti": "token-" + string(rune('a'+i)), "iat": now - 600 + i, "exp": now + 3600 - i,
				"del_depth": i, "del_max_depth": 16,
			},
		}
		p.tools(object{"read": object{"path": object{"constraint_type": "one_of", "values": []any{"/q1", "/q2"}}}, "search": object{}})
		p.claims["cnf"] = object{"jwk": public(t, p.holder)}
		f.links = append(f.links, p)
	}
	f.links[0].claims["iss"] = "https://agent.example"
	f.links[0].header["kid"] = "issuer-1"
	f.proof = &part{header: object{"alg": anyAlg, "typ": typeProof}, claims: object{"jti": "proof-1", "iat": now}}
	return f
}

func (f *forgery) setAnchors(keys ...any) {
	data, err := json.Marshal(object{"keys": keys})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Anchors = data
}

func (p *part) tools(tools object) {
	p.claims["authorization_details"] = []any{object{"type": capabilityType, "tools": tools}}
}

func (f *forgery) leaf() *part { return f.links[len(f.links)-1] }

// set gives a claim a value unless the test has said something about it: a nil
// removes it.
func (p *part) set(name string, value any) {
	if said, ok := p.claims[name]; !ok {
		p.claims[name] = value
	} else if said == nil {
		delete(p.claims, name)
	}
}

func (p *part) compact(t testing.TB, draft Draft, signer *PrivateKey) string {
	if p.signer != nil {
		signer = p.signer
	}
	if p.header["alg"] == anyAlg {
		p.header["alg"] = draft.algorithmName(signer.Public().Algorithm())
	}
	maps.DeleteFunc(p.header, func(_ string, v any) bool { return v == nil })
	maps.DeleteFunc(p.claims, func(_ string, v any) bool { return v == nil })
	header, err := json.Marshal(p.header)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(p.claims)
	if err != nil {
		t.Fatal(err)
	}
	if p.raw != "" {
		payload = []byte(p.raw)
	}
	signed := encodeBase64(header) + "." + encodeBase64(payload)
	signature, err := signer.Sign([]byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	compact := signed + "." + encodeBase64(signature)
	if p.edit != nil {
		compact = p.edit(compact)
	}
	return compact
}

func signingInput(compact string) string {
	if i := strings.LastIndexByte(compact, '.'); i >= 0 {
		return compact[:i]
	}
	return compact
}

// finish signs everything.
func (f *forgery) finish() vector {
	tokens, signer := []string{}, f.issuer
	for i, p := range f.links {
		if i > 0 {
			p.set("iss", signer.Public().URI())
			p.set("par_hash", DigestOf([]byte(signingInput(tokens[i-1]))))
		}
		tokens = append(tokens, p.compact(f.t, f.draft, signer))
		signer = p.holder
	}
	if f.Chain == nil {
		data, err := json.Marshal(tokens)
		if err != nil {
			f.t.Fatal(err)
		}
		f.Chain = data
	}
	if f.proof != nil {
		if len(f.links) > 0 {
			f.proof.set("aat_id", f.leaf().claims["jti"])
			if f.draft == Draft02 {
				f.proof.set("aat_hash", DigestOf([]byte(signingInput(tokens[len(tokens)-1]))))
			}
		}
		f.proof.set("aat_tool", f.Operation)
		f.proof.set("hta", json.RawMessage(f.Arguments))
		f.Proof = f.proof.compact(f.t, f.draft, signer)
	}
	if len(f.Revoked) == 1 && strings.HasPrefix(f.Revoked[0], "hash of ") {
		f.Revoked[0] = DigestOf([]byte(signingInput(tokens[f.Revoked[0][8]-'0'])))
	}
	return f.vector
}

// forged is one line of the catalogue of vectors.
type forged struct {
	name   string
	hops   int
	change func(f *forgery)
	codes  []powerbox.Code // none: allowed
}

func (c forged) vector(t testing.TB) vector {
	f := newForgery(t, c.hops)
	if c.change != nil {
		c.change(f)
	}
	v := f.finish()
	v.Name, v.Decision, v.Codes = c.name, "allow", append(v.Codes, c.codes...)
	if len(c.codes) > 0 {
		v.Decision = "deny"
	}
	return v
}

// catalogue has every vector.
func catalogue() []forged {
	return slices.Concat(stepVectors(), tableVectors(), draftVectors(), mapVectors())
}

func writeVectors(t *testing.T) {
	if err := os.RemoveAll(vectorFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(vectorFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range catalogue() {
		v := c.vector(t)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(v); err != nil {
			t.Fatal(c.name, err)
		}
		if err := os.WriteFile(filepath.Join(vectorFolder, c.name+".json"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVectors asks every question in testdata and compares the answers. A file
// for every line of the catalogue must be there.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	names, err := filepath.Glob(vectorFolder + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(names), len(catalogue()); got != want {
		t.Errorf("%d files, %d in the catalogue; run with -update", got, want)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(name, err)
		}
		t.Run(v.Name, func(t *testing.T) { v.mustAgree(t) })
	}
}

func (v vector) mustAgree(t *testing.T) {
	result := v.check()
	codes := []powerbox.Code{}
	for _, e := range result.Reasons {
		codes = append(codes, e.Code)
	}
	if d := cmp.Diff(v.Codes, codes); d != "" {
		t.Errorf("codes (-want +got):\n%s%v", d, result.Reasons)
	}
	if want := v.Decision == "allow"; result.Allowed != want {
		t.Errorf("allowed is %t, want %t", result.Allowed, want)
	}
}
