package token

import (
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func TestProofIsBoundToTheRequest(t *testing.T) {
	f := newFamily(t, 0)
	v := f.verify(t)
	args, op := value(t, `{"path":"/q1"}`), operation(t, "read")
	request := Request{Method: "POST", URL: "https://agent.example/rpc", Digest: DigestOf([]byte("body"))}
	bound, err := v.SignProof(f.holders[0], Proof{ID: "p", IssuedAt: at, Operation: "read", Arguments: args, Audience: "https://agent.example", Request: &request})
	if err != nil {
		t.Fatal(err)
	}
	free, err := v.SignProof(f.holders[0], Proof{ID: "p", IssuedAt: at, Operation: "read", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	want := Expected{Now: at, Operation: op, Arguments: args, Audience: "https://agent.example", Request: &request}
	p, err := v.CheckProof(bound, want)
	if err != nil || p.ID != "p" || !p.IssuedAt.Equal(at) || *p.Request != request {
		t.Error(p, err)
	}
	for name, other := range map[string]Request{
		"method": {"PUT", request.URL, request.Digest},
		"target": {"POST", "https://other.example/rpc", request.Digest},
		"body":   {"POST", request.URL, DigestOf([]byte("Body"))},
	} {
		want.Request = &other
		if _, err := v.CheckProof(bound, want); codeOf(err) != CodeProofRequest {
			t.Errorf("another %s: %v", name, err)
		}
	}
	want.Audience, want.Identity = "", []string{"https://agent.example"}
	if _, err := v.CheckProof(free, want); codeOf(err) != CodeProofRequest {
		t.Errorf("a proof for no request: %v", err)
	}
	if _, err := (Verified{}).CheckProof(free, want); codeOf(err) != CodeEmptyChain {
		t.Errorf("no chain: %v", err)
	}
}

func TestSignProofRefuses(t *testing.T) {
	k := keyOf(t, "holder", Ed25519)
	f := newFamily(t, 0)
	v := f.verify(t)
	good := Proof{ID: "p", IssuedAt: at, Operation: "read", Arguments: value(t, `{"a":1}`)}
	for name, c := range map[string]struct {
		change func(*Proof)
		code   powerbox.Code
	}{
		"nothing wrong":             {func(*Proof) {}, ""},
		"no id":                     {func(p *Proof) { p.ID = "" }, CodeMissingClaim},
		"no operation":              {func(p *Proof) { p.Operation = "" }, CodeMissingClaim},
		"no arguments":              {func(p *Proof) { p.Arguments = powerbox.Value{} }, CodeMissingClaim},
		"ATK-39 a rounded number":   {func(p *Proof) { p.Arguments = value(t, `{"a":9007199254740993}`) }, CodeNotExpressible},
		"ATK-39 in a list":          {func(p *Proof) { p.Arguments = value(t, `{"a":[1,0.1000000000000000000001]}`) }, CodeNotExpressible},
		"arguments of 64 KiB":       {func(p *Proof) { p.Arguments = powerbox.Object(textMember("a", strings.Repeat("x", 1<<16))) }, CodeTooLarge},
		"the largest exact integer": {func(p *Proof) { p.Arguments = value(t, `{"a":[9007199254740992,1e300,-2.5e-9]}`) }, ""},
	} {
		p := good
		c.change(&p)
		if _, err := v.SignProof(k, p); codeOf(err) != c.code {
			t.Errorf("%s: %v; want code %q", name, err, c.code)
		}
	}
}

// TestATK40_ProofPayloadIsCanonical compares with another implementation of RFC
// 8785.
func TestATK40_ProofPayloadIsCanonical(t *testing.T) {
	texts := []string{
		`{}`, `[]`, `null`, `"\u20ac$\u000f\nA'B\"\\\"/"`, `{"\ud83d\ude00":1,"\ufb33":2,"\u20ac":3,"1":4,"\r":5}`,
		`[1e21,1e20,123456789012345680000,1e-6,1e-7,4.5,2e-3,0.000001,1e-27,333333333.3333333,1E30,5e-324,1.7976931348623157e308]`,
	}
	for _, text := range texts {
		mustBeCanonical(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Filter(func(f float64) bool { return f != 0 }).Draw(t, "number")
		key := rapid.String().Draw(t, "name")
		v := powerbox.Object(textMember(key, key))
		mustBeCanonical(t, `[`+powerbox.List(v).String()+`,`+strings.TrimSpace(jsonNumber(f))+`]`)
	})
}

type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func mustBeCanonical(t fataler, text string) {
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	got, err := appendCanonical(nil, v)
	if err != nil {
		t.Fatal(text, err)
	}
	// The oracle takes objects and arrays alone.
	want, err := jcs.Transform([]byte(`[` + text + `]`))
	if err != nil {
		t.Fatal(text, err)
	}
	if "["+string(got)+"]" != string(want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// TestATK9_AProofThatFailsYieldsNoID: a proof is checked to the end before it yields an id
// that a registry could use up.
func TestATK9_AProofThatFailsYieldsNoID(t *testing.T) {
	for _, c := range proofVectors() {
		if len(c.codes) == 0 {
			continue
		}
		v := c.vector(t)
		anchors, _ := ParseKeySet(v.Anchors)
		tokens, _ := ParseChainFile(v.Chain)
		u, err := ParseChain(tokens)
		if err != nil {
			t.Fatal(c.name, err)
		}
		o := quiet(time.Unix(v.At, 0))
		o.Draft01 = v.Draft01
		verified, err := u.Verify(anchors, o)
		if err != nil {
			t.Fatal(c.name, err)
		}
		want := Expected{Audience: v.Audience}
		if v.Point != nil {
			want = v.Point.expected()
		}
		want.Now, want.Operation, want.Arguments = time.Unix(v.At, 0), operation(t, v.Operation), value(t, v.Arguments)
		p, err := verified.CheckProof(v.Proof, want)
		if err == nil || p.ID != "" {
			t.Errorf("%s: %v, id %q", c.name, err, p.ID)
		}
	}
}
