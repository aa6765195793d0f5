package token

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

const scopeFolder = "../testdata/vectors/scopes"

// scopeVector is one question and its answer, for any implementation in any
// language. Token and links are texts, so that their faults are kept.
type scopeVector struct {
	Name        string          `json:"name"`
	Keys        json.RawMessage `json:"keys"` // JWK Set, kid is the identifier
	Token       string          `json:"token"`
	Links       *string         `json:"links"` // null where none are presented
	Requested   []string        `json:"requested"`
	Caller      string          `json:"caller"`
	At          string          `json:"at"`
	MaxDepth    int             `json:"max_depth"`
	MaxLifetime int64           `json:"max_lifetime"` // seconds; 0 for 90 days
	Revoked     []string        `json:"revoked"`
	Result      json.RawMessage `json:"result"` // without the sentence
}

func (v scopeVector) ask(t testing.TB) ScopeResult {
	at, err := time.Parse(time.RFC3339Nano, v.At)
	if err != nil {
		t.Fatal(err)
	}
	q := ScopeCheckRequest{
		Keys: v.Keys, Token: []byte(v.Token), Requested: v.Requested, Caller: v.Caller, At: at,
		MaxDepth: v.MaxDepth, MaxLifetime: time.Duration(v.MaxLifetime) * time.Second, Revoked: v.Revoked,
	}
	if v.Links != nil {
		q.Links = []byte(*v.Links)
	}
	return CheckScopes(q)
}

// scopeCase is one line of the catalogue.
type scopeCase struct {
	name   string
	links  int
	change func(f *scopeForgery)
	reason powerbox.Code // "" where it is valid
	at     int
}

func (c scopeCase) vector(t testing.TB) scopeVector {
	f := newScopeForgery(t, c.links)
	if c.change != nil {
		c.change(f)
	}
	v := f.finish()
	v.Name = c.name
	if c.reason != "" {
		v.Result = marshal(t, map[string]any{"valid": false, "failure_point": c.at, "reason": c.reason})
		return v
	}
	last, expires := f.claims.Scopes, f.claims.ExpiresAt
	for _, l := range f.chain {
		last = l.Scopes
		if l.ExpiresAt.Before(expires) {
			expires = l.ExpiresAt
		}
	}
	v.Result = marshal(t, map[string]any{
		"valid": true, "chain_length": len(f.chain), "effective_scopes": last, "effective_expiry": expires.Format(time.RFC3339Nano),
	})
	return v
}

func writeScopeVectors(t *testing.T) {
	if err := os.RemoveAll(scopeFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(scopeFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range scopeCases() {
		var b bytes.Buffer
		if err := json.Indent(&b, marshal(t, c.vector(t)), "", " "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		if err := os.WriteFile(filepath.Join(scopeFolder, c.name+".json"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readScopeVectors(t testing.TB) []scopeVector {
	names, err := filepath.Glob(scopeFolder + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var out []scopeVector
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var v scopeVector
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(name, err)
		}
		out = append(out, v)
	}
	return out
}

// TestEXT9_ScopeVectors asks every question in testdata: the reasons and failure
// points of EXT-9, ours of EXT-10, the results of EXT-11. A file for every line of
// the catalogue must be there.
func TestEXT9_ScopeVectors(t *testing.T) {
	if *update {
		writeScopeVectors(t)
	}
	vectors := readScopeVectors(t)
	if len(vectors) != len(scopeCases()) {
		t.Errorf("%d files, %d in the catalogue; run with -update", len(vectors), len(scopeCases()))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			got := map[string]any{}
			if err := json.Unmarshal(marshal(t, v.ask(t)), &got); err != nil {
				t.Fatal(err)
			}
			sentence, _ := got["message"].(string)
			delete(got, "message")
			var want map[string]any
			if err := json.Unmarshal(v.Result, &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s%s", d, sentence)
			}
		})
	}
}

// scopeCases is the catalogue.
func scopeCases() []scopeCase {
	var all []scopeCase
	for _, some := range [][]scopeCase{validScopes(), textReasons(), ourReasons(), malformedScopes(), orderOfReasons()} {
		all = append(all, some...)
	}
	return all
}

func validScopes() []scopeCase {
	return []scopeCase{
		{name: "valid-token"},
		{name: "valid-one-link", links: 1},
		{name: "valid-two-links-ES256", links: 2},
		{name: "valid-three-links-ML-DSA-87", links: 3, change: func(f *scopeForgery) { f.MaxDepth = 3 }},
		{name: "valid-expires-at-is-now", links: 1, change: func(f *scopeForgery) {
			f.At = f.chain[0].ExpiresAt.Format(time.RFC3339Nano)
		}},
		{name: "valid-token-expires-at-is-now", change: func(f *scopeForgery) { f.At = f.claims.ExpiresAt.Format(time.RFC3339Nano) }},
		{name: "valid-expires-with-its-parent", links: 2, change: func(f *scopeForgery) {
			f.chain[0].ExpiresAt, f.chain[1].ExpiresAt = f.claims.ExpiresAt, f.claims.ExpiresAt
		}},
		{name: "valid-parent-scope", links: 1, change: func(f *scopeForgery) {
			f.claims.Scopes, f.Requested = []string{"trade"}, []string{"trade.execute"}
		}},
		{name: "valid-wildcard", links: 1, change: func(f *scopeForgery) {
			f.claims.Scopes, f.chain[0].Scopes, f.Requested = []string{"trade.*"}, []string{"trade.execute.*"}, []string{"trade.execute.now"}
		}},
		{name: "valid-fraction-of-a-second", change: func(f *scopeForgery) { f.claims.IssuedAt = noon.Add(123456789) }},
		{name: "valid-issued-30s-ahead", change: func(f *scopeForgery) { f.claims.IssuedAt = later.Add(30 * time.Second) }},
		{name: "valid-lifetime-is-the-maximum", change: func(f *scopeForgery) { f.MaxLifetime = 3600 }},
		{name: "valid-other-links-revoked", links: 2, change: func(f *scopeForgery) {
			f.Revoked = []string{
				LinkRevocationID(manager, market, "nonce-a"), LinkRevocationID(router, market, "nonce-a"), LinkRevocationID(manager, router, "nonce-b"),
			}
		}},
		{name: "valid-same-nonce-of-another-delegator", links: 2, change: func(f *scopeForgery) { f.chain[1].Nonce = f.chain[0].Nonce }},
	}
}

// textReasons are the reasons of the extension's section 5.2.
func textReasons() []scopeCase {
	return []scopeCase{
		{name: "exceeds_max_depth", links: 3, reason: CodeExceedsMaxDepth},
		{name: "exceeds_max_depth-no-delegation", links: 1, change: func(f *scopeForgery) { f.MaxDepth = 0 }, reason: CodeExceedsMaxDepth},
		{name: "exceeds_max_depth-of-every-verifier", links: 1, change: func(f *scopeForgery) {
			all := "[" + strings.Repeat(f.chain[0].text(f.t)+",", MaxDepth) + f.chain[0].text(f.t) + "]"
			f.Links, f.MaxDepth = &all, 100
		}, reason: CodeExceedsMaxDepth},
		{name: "invalid_signature-of-a-link", links: 2, change: func(f *scopeForgery) {
			f.chain[1].edit = replaced(f.t, `"nonce":"nonce-b"`, `"nonce":"nonce-c"`)
		}, reason: CodeInvalidSignature, at: 1},
		{name: "invalid_signature-by-another", links: 1, change: func(f *scopeForgery) { f.chain[0].signer = partyOf(f.t, "mallory") }, reason: CodeInvalidSignature},
		{name: "invalid_signature-of-the-token", change: func(f *scopeForgery) { f.edit = replaced(f.t, "portfolio.read", "portfolio.write") }, reason: CodeInvalidSignature, at: OfToken},
		{name: "invalid_signature-by-the-subject", change: func(f *scopeForgery) { f.signer = partyOf(f.t, manager) }, reason: CodeInvalidSignature, at: OfToken},
		{name: "invalid_signature-algorithm-of-another-key", change: func(f *scopeForgery) { f.signer = misnamed{f.signer, partyOf(f.t, router).Party()} }, reason: CodeInvalidSignature, at: OfToken},
		{name: "invalid_signature-link-algorithm-of-another-key", links: 2, change: func(f *scopeForgery) {
			f.chain[1].signer = misnamed{partyOf(f.t, router), partyOf(f.t, market).Party()}
		}, reason: CodeInvalidSignature, at: 1},
		{name: "invalid_signature-algorithm-none", change: func(f *scopeForgery) { f.edit = replaced(f.t, `"Ed25519"`, `"none"`) }, reason: CodeInvalidSignature, at: OfToken},
		{name: "invalid_signature-algorithm-EdDSA", change: func(f *scopeForgery) { f.edit = replaced(f.t, `"Ed25519"`, `"EdDSA"`) }, reason: CodeInvalidSignature, at: OfToken},
		{name: "invalid_signature-link-of-ML-DSA-87", links: 3, change: func(f *scopeForgery) {
			f.MaxDepth = 3
			f.chain[2].edit = replaced(f.t, `"nonce":"nonce-c"`, `"nonce":"nonce-d"`)
		}, reason: CodeInvalidSignature, at: 2},
		{name: "scope_escalation", links: 2, change: func(f *scopeForgery) { f.chain[1].Scopes = []string{"trade.execute", "portfolio.read"} }, reason: CodeScopeEscalation, at: 1},
		{name: "scope_escalation-from-child-to-parent", links: 2, change: func(f *scopeForgery) {
			f.claims.Scopes, f.chain[1].Scopes = []string{"trade"}, []string{"trade"}
		}, reason: CodeScopeEscalation, at: 1},
		{name: "scope_escalation-ATK-2-longer-segment", links: 2, change: func(f *scopeForgery) {
			f.claims.Scopes, f.chain[0].Scopes, f.chain[1].Scopes = []string{"trade", "trade-report"}, []string{"trade.*"}, []string{"trade-report"}
		}, reason: CodeScopeEscalation, at: 1},
		{name: "expired-link", links: 2, change: func(f *scopeForgery) { f.chain[0].ExpiresAt = later.Add(-time.Nanosecond) }, reason: CodeExpired},
		{name: "expired-token", change: func(f *scopeForgery) { f.claims.ExpiresAt = later.Add(-time.Nanosecond) }, reason: CodeExpired, at: OfToken},
		{name: "temporal_exceeds_parent", links: 2, change: func(f *scopeForgery) { f.chain[1].ExpiresAt = f.chain[0].ExpiresAt.Add(time.Nanosecond) }, reason: CodeTemporalExceedsParent, at: 1},
		{name: "chain_discontinuity", links: 2, change: func(f *scopeForgery) { f.chain[1].Delegator = desk }, reason: CodeChainDiscontinuity, at: 1},
		{name: "chain_discontinuity-ATK-6-reordered", links: 2, change: func(f *scopeForgery) {
			f.chain[0], f.chain[1] = f.chain[1], f.chain[0]
			f.chain[0].ExpiresAt, f.Caller = f.chain[1].ExpiresAt, router
		}, reason: CodeChainDiscontinuity, at: 1},
		{name: "revoked-link", links: 2, change: func(f *scopeForgery) { f.Revoked = []string{LinkRevocationID(manager, router, "nonce-a")} }, reason: CodeRevoked},
		{name: "revoked-token", links: 1, change: func(f *scopeForgery) {
			v := f.finish()
			t, err := ParseScopeToken([]byte(v.Token))
			if err != nil {
				f.t.Fatal(err)
			}
			f.Revoked = []string{t.Hash()}
		}, reason: CodeRevoked, at: OfToken},
	}
}

// ourReasons are those of EXT-10, EXT-7 and EXT-39.
func ourReasons() []scopeCase {
	return []scopeCase{
		{name: "first-link-beyond-the-token", links: 1, change: func(f *scopeForgery) { f.chain[0].Scopes = []string{"trade"} }, reason: CodeScopeEscalation},
		{name: "first-link-outlives-the-token", links: 1, change: func(f *scopeForgery) { f.chain[0].ExpiresAt = f.claims.ExpiresAt.Add(time.Second) }, reason: CodeTemporalExceedsParent},
		{name: "first-link-is-not-the-subjects", links: 1, change: func(f *scopeForgery) { f.chain[0].Delegator = desk }, reason: CodeChainDiscontinuity},
		{name: "ATK-6-first-link-left-out", links: 2, change: func(f *scopeForgery) { f.chain = f.chain[1:] }, reason: CodeChainDiscontinuity},
		{name: "not_yet_valid-token", change: func(f *scopeForgery) { f.claims.IssuedAt = later.Add(31 * time.Second) }, reason: CodeNotYetValid, at: OfToken},
		{name: "not_yet_valid-link", links: 2, change: func(f *scopeForgery) { f.chain[1].IssuedAt = later.Add(31 * time.Second) }, reason: CodeNotYetValid, at: 1},
		{name: "missing_nonce", links: 2, change: func(f *scopeForgery) { f.chain[1].edit = replaced(f.t, `,"nonce":"nonce-b"`, "") }, reason: CodeNonceMissing, at: 1},
		{name: "missing_nonce-empty", links: 1, change: func(f *scopeForgery) { f.chain[0].Nonce = "" }, reason: CodeNonceMissing},
		{name: "nonce_reused", links: 2, change: func(f *scopeForgery) {
			f.chain[0].Delegate, f.chain[1].Delegator, f.chain[1].Nonce = manager, manager, "nonce-a"
		}, reason: CodeNonceReused, at: 1},
		{name: "subject_not_caller", change: func(f *scopeForgery) { f.Caller = router }, reason: CodeNotSubject, at: OfToken},
		{name: "subject_not_caller-nobody", change: func(f *scopeForgery) { f.Caller = "" }, reason: CodeNotSubject, at: OfToken},
		{name: "delegate_not_caller", links: 2, change: func(f *scopeForgery) { f.Caller = router }, reason: CodeNotDelegate, at: 1},
		{name: "delegate_not_caller-the-subject", links: 1, change: func(f *scopeForgery) { f.Caller = manager }, reason: CodeNotDelegate},
		{name: "empty_chain", change: func(f *scopeForgery) { none := "[]"; f.Links = &none }, reason: CodeEmptyChain},
		{name: "nothing-requested", change: func(f *scopeForgery) { f.Requested = []string{} }, reason: CodeScope, at: OfToken},
		{name: "insufficient_scope", links: 1, change: func(f *scopeForgery) { f.Requested = []string{"trade.execute", "portfolio.read"} }, reason: CodeScope},
		{name: "insufficient_scope-ATK-2", change: func(f *scopeForgery) {
			f.claims.Scopes, f.Requested = []string{"trade.*"}, []string{"trade-report"}
		}, reason: CodeScope, at: OfToken},
		{name: "insufficient_scope-wildcard-is-not-its-parent", change: func(f *scopeForgery) {
			f.claims.Scopes, f.Requested = []string{"trade.*"}, []string{"trade"}
		}, reason: CodeScope, at: OfToken},
		{name: "insufficient_scope-no-scope", change: func(f *scopeForgery) { f.Requested = []string{"trade execute"} }, reason: CodeScope, at: OfToken},
		{name: "unknown_key-of-the-issuer", change: func(f *scopeForgery) { f.Keys = directory(f.t, manager) }, reason: CodeUnknownKey, at: OfToken},
		{name: "unknown_key-ATK-7-of-a-delegator", links: 2, change: func(f *scopeForgery) { f.Keys = directory(f.t, registry, manager) }, reason: CodeUnknownKey, at: 1},
		{name: "unknown_key-no-keys", change: func(f *scopeForgery) { f.Keys = json.RawMessage(`{}`) }, reason: CodeUnknownKey, at: OfToken},
		{name: "unknown_key-other-spelling-of-a-key", links: 1, change: func(f *scopeForgery) {
			jwk := append([]byte(" "), partyOf(f.t, "did").Party().JWK().AppendJSON(nil)...)
			f.claims.Subject = didPrefix + encodeBase64(jwk)
			f.chain[0].Delegator, f.chain[0].signer = f.claims.Subject, partyOf(f.t, "did")
		}, reason: CodeUnknownKey},
		{name: "lifetime-token", change: func(f *scopeForgery) { f.MaxLifetime = 3599 }, reason: CodeLifetime, at: OfToken},
		{name: "lifetime-link", links: 1, change: func(f *scopeForgery) {
			f.claims.IssuedAt, f.claims.ExpiresAt = later, later.Add(time.Minute)
			f.chain[0].ExpiresAt, f.MaxLifetime = later.Add(time.Minute), 600
		}, reason: CodeLifetime},
		{name: "lifetime-of-every-verifier", change: func(f *scopeForgery) { f.claims.ExpiresAt = noon.Add(MaxLifetime + time.Second) }, reason: CodeLifetime, at: OfToken},
	}
}

// orderOfReasons have several faults: which is told is the first of the text.
func orderOfReasons() []scopeCase {
	spoil := func(f *scopeForgery, from int) {
		l := f.chain[1]
		faults := []func(){
			func() { l.edit = replaced(f.t, `"nonce":"nonce-b"`, `"nonce":"nonce-z"`) },
			func() { l.Scopes = []string{"portfolio.read"} },
			func() { l.ExpiresAt = later.Add(-time.Second) },
			func() { l.ExpiresAt = f.chain[0].ExpiresAt.Add(time.Second) },
			func() { l.Delegator = desk },
			func() {
				f.Revoked = []string{LinkRevocationID(router, market, "nonce-b"), LinkRevocationID(desk, market, "nonce-b"), LinkRevocationID(desk, market, "nonce-z")}
			},
		}
		for n := len(faults) - 1; n >= from; n-- {
			faults[n]() // an earlier fault of the same member goes over a later one
		}
	}
	var out []scopeCase
	for n, reason := range []powerbox.Code{CodeInvalidSignature, CodeScopeEscalation, CodeExpired, CodeTemporalExceedsParent, CodeChainDiscontinuity, CodeRevoked} {
		out = append(out, scopeCase{name: "order-" + string(rune('1'+n)) + "-" + string(reason), links: 2, change: func(f *scopeForgery) { spoil(f, n) }, reason: reason, at: 1})
	}
	return append(out,
		scopeCase{name: "order-0-exceeds_max_depth", links: 2, change: func(f *scopeForgery) { spoil(f, 0); f.MaxDepth = 1 }, reason: CodeExceedsMaxDepth},
		scopeCase{name: "order-earlier-link-first", links: 2, change: func(f *scopeForgery) {
			spoil(f, 0)
			f.Revoked = append(f.Revoked, LinkRevocationID(manager, router, "nonce-a"))
		}, reason: CodeRevoked},
		scopeCase{name: "order-ours-last", links: 2, change: func(f *scopeForgery) {
			f.chain[0].Scopes = []string{"trade"}
			f.Revoked = []string{LinkRevocationID(router, market, "nonce-b")}
		}, reason: CodeRevoked, at: 1},
		scopeCase{name: "order-token-first", links: 2, change: func(f *scopeForgery) { spoil(f, 0); f.claims.ExpiresAt = later.Add(-time.Second) }, reason: CodeExpired, at: OfToken},
	)
}

// malformedScopes are what no strict reader takes.
func malformedScopes() []scopeCase {
	inToken := func(before, after string) func(f *scopeForgery) {
		return func(f *scopeForgery) { f.edit = replaced(f.t, before, after) }
	}
	inLink := func(before, after string) func(f *scopeForgery) {
		return func(f *scopeForgery) { f.chain[0].edit = replaced(f.t, before, after) }
	}
	links := func(text string) func(f *scopeForgery) { return func(f *scopeForgery) { f.Links = &text } }
	scopes := func(scopes ...string) func(f *scopeForgery) {
		return func(f *scopeForgery) { f.claims.Scopes = scopes }
	}
	cases := map[string]func(f *scopeForgery){
		"ATK-27-duplicate-member": inToken(`"subject":`, `"subject":"x","subject":`),
		"ATK-27-folded-member":    inToken(`"subject":`, `"Subject":`),
		"ATK-27-trailing-data":    func(f *scopeForgery) { f.edit = func(s string) string { return s + "{}" } },
		"unknown-member":          inToken(`"subject":`, `"audience":"x","subject":`),
		"no-subject":              inToken(`"subject":"portfolio-manager-agent-7a3f"`, `"subject":""`),
		"subject-a-number":        inToken(`"portfolio-manager-agent-7a3f"`, `7`),
		"no-issuer":               inToken(`"issuer":"agent-registry.example.com",`, ``),
		"not-an-object":           func(f *scopeForgery) { f.Token = `["token"]` },
		"not-JSON":                func(f *scopeForgery) { f.Token = `token` },
		"ATK-5-no-scopes":         scopes(),
		"scopes-absent":           inToken(`"scopes":["trade.execute","portfolio.read"],`, ``),
		"scope-empty":             scopes(""),
		"scope-star":              scopes("*"),
		"scope-star-inside":       scopes("trade.*.execute"),
		"scope-space":             scopes("trade execute"),
		"scope-trailing-dot":      scopes("trade."),
		"scope-not-ASCII":         scopes("trаde"),
		"scope-a-number":          inToken(`"trade.execute"`, `1`),
		"ATK-21-time-with-offset": inToken(`T12:00:00Z`, `T12:00:00+00:00`),
		"time-with-a-space":       inToken(`T12:00:00Z`, ` 12:00:00Z`),
		"time-with-a-letter":      inToken(`T12:00:00Z`, `T1a:00:00Z`),
		"time-lower-case":         inToken(`T12:00:00Z`, `t12:00:00z`),
		"time-without-seconds":    inToken(`T12:00:00Z`, `T12:00Z`),
		"time-one-digit":          inToken(`T12:00:00Z`, `T2:00:00.0Z`),
		"time-comma":              inToken(`T12:00:00Z`, `T12:00:00,5Z`),
		"time-ten-digits":         inToken(`T12:00:00Z`, `T12:00:00.0000000001Z`),
		"time-no-digits":          inToken(`T12:00:00Z`, `T12:00:00.Z`),
		"time-no-such-day":        inToken(`2026-03-04T12`, `2026-02-30T12`),
		"time-before-1970":        inToken(`2026-03-04T12`, `1969-03-04T12`),
		"time-a-number":           inToken(`"2026-03-04T12:00:00Z"`, `1772625600`),
		"expires-before-issued":   func(f *scopeForgery) { f.claims.IssuedAt = f.claims.ExpiresAt.Add(time.Second) },
		"signature-padded": func(f *scopeForgery) {
			f.edit = func(s string) string { return strings.Replace(s, `","subject"`, `==","subject"`, 1) }
		},
		"signature-with-line": func(f *scopeForgery) {
			f.edit = func(s string) string { return strings.Replace(s, `","subject"`, `\n","subject"`, 1) }
		},
		"algorithm-absent":        inToken(`"algorithm":"Ed25519",`, ``),
		"link-unknown-member":     inLink(`"delegate":`, `"depth":1,"delegate":`),
		"link-ATK-5-no-scopes":    func(f *scopeForgery) { f.chain[0].Scopes = nil },
		"link-scopes-absent":      inLink(`,"scopes":["trade.execute"]`, ``),
		"link-nonce-a-number":     inLink(`"nonce":"nonce-a"`, `"nonce":1`),
		"link-nonce-too-long":     func(f *scopeForgery) { f.chain[0].Nonce = strings.Repeat("n", maxNonceBytes+1) },
		"link-a-string":           links(`["link"]`),
		"link-chain-is-an-object": links(`{}`),
		"link-chain-is-null":      links(`null`),
		"link-chain-is-not-JSON":  links(`[`),
	}
	var out []scopeCase
	for name, change := range cases {
		c := scopeCase{name: "malformed-" + name, change: change, reason: CodeMalformed, at: OfToken}
		if strings.HasPrefix(name, "link-") {
			c.at, c.links = 0, 1
		}
		out = append(out, c)
	}
	return out
}
