package token

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

func codes(cs ...powerbox.Code) []powerbox.Code { return cs }

// inHeader, claim and drop spoil the token at one index.
func inHeader(i int, name string, v any) func(f *forgery) {
	return func(f *forgery) { f.links[i].header[name] = v }
}

func claim(i int, name string, v any) func(f *forgery) {
	return func(f *forgery) { f.links[i].claims[name] = v }
}

func drop(i int, name string) func(f *forgery) { return claim(i, name, nil) }

func proofClaim(name string, v any) func(f *forgery) {
	return func(f *forgery) { f.proof.claims[name] = v }
}

func asks(operation, arguments string) func(f *forgery) {
	return func(f *forgery) { f.Operation, f.Arguments = operation, arguments }
}

func both(changes ...func(f *forgery)) func(f *forgery) {
	return func(f *forgery) {
		for _, c := range changes {
			c(f)
		}
	}
}

// details puts entries in the authorization_details of one token.
func details(i int, entries string) func(f *forgery) {
	return claim(i, "authorization_details", json.RawMessage(entries))
}

func stepVectors() []forged {
	return slices.Concat(allowedVectors(), formVectors(), rootVectors(), linkVectors(), leafVectors(), proofVectors(), revocationVectors())
}

func allowedVectors() []forged {
	emptyMiddle := func(f *forgery) {
		f.links[1].claims["authorization_details"] = []any{}
		f.leaf().tools(object{})
	}
	return []forged{
		{"allow-root-alone", 0, nil, nil},
		{"allow-three-tokens", 2, nil, nil},
		{"allow-seventeen-tokens", 16, nil, nil},
		{"allow-kid-absent", 0, inHeader(0, "kid", nil), nil},
		{"allow-kid-thumbprint", 0, func(f *forgery) { f.links[0].header["kid"] = f.issuer.Public().Thumbprint() }, nil},
		{"allow-anchor-without-kid", 0, func(f *forgery) { f.setAnchors(public(f.t, f.issuer)) }, nil},
		{"allow-issuer-ES256", 1, func(f *forgery) {
			f.issuer = keyOf(f.t, "es256 issuer", ES256)
			f.setAnchors(public(f.t, keyOf(f.t, "another", ES256)), public(f.t, f.issuer), object{"kty": "RSA", "n": "AQAB", "e": "AQAB"})
		}, nil},
		{"allow-unknown-claims", 1, both(claim(0, "scope", "x"), claim(1, "trace", object{"a": 1})), nil},
		{"allow-header-keys-ignored", 1, both(inHeader(0, "jku", "https://evil.example/jwks"), inHeader(1, "x5u", "https://evil.example/x")), nil},
		{"allow-other-details", 0, details(0, `[{"type":"other","tools":5},{"type":"attenuating_agent_token","tools":{"read":{}}}]`), nil},
		{"allow-last-second", 0, func(f *forgery) { f.links[0].claims["exp"] = now + 1 }, nil},
		{"allow-issued-30s-ahead", 0, claim(0, "iat", now+30), nil},
		{"allow-nbf-now", 0, claim(0, "nbf", now), nil},
		{"allow-90-days", 0, claim(0, "exp", now-600+90*86400), nil},
		{"allow-open-tool", 1, asks("search", `{"query":"x","limit":5}`), nil},
		{"allow-proof-30s-old", 1, proofClaim("iat", now-30), nil},
		{"allow-proof-30s-ahead", 1, proofClaim("iat", now+30), nil},
		{"allow-audience", 1, both(proofClaim("aat_aud", "https://agent.example"), func(f *forgery) { f.Audience = "https://agent.example" }), nil},
		{"allow-audience-not-demanded", 1, both(proofClaim("aat_aud", "https://agent.example"), point(Point{Identity: []string{"https://agent.example"}})), nil},
		{"allow-arguments-in-other-order", 1, both(asks("search", `{"b":1.0,"a":[1e2,"\u0061"]}`), proofClaim("hta", json.RawMessage(`{"a":[100,"a"],"b":1}`))), nil},
		{"allow-proof-white-space", 1, func(f *forgery) { f.proof.edit = func(s string) string { return "\n " + s + "\n" } }, nil},
		{"allow-terminal-token", 1, claim(1, "del_max_depth", 1), nil},
		{"allow-private-claim", 0, claim(0, "powerbox", object{"capability": "c", "grant": "g", "principal": "p", "legacy": true}), nil},
		{"allow-private-claim-of-a-holder-ignored", 1, claim(1, "powerbox", 7), nil},
		{"step-6a-empty-middle", 2, emptyMiddle, codes(powerbox.CodeOperation)},
	}
}

func deep(levels int) string {
	return strings.Repeat(`{"constraint_type":"all","constraints":[`, levels-1) + `{"constraint_type":"wildcard"}` + strings.Repeat(`]}`, levels-1)
}

func formVectors() []forged {
	edit := func(i int, e func(string) string) func(f *forgery) {
		return func(f *forgery) { f.links[i].edit = e }
	}
	raw := func(i int, old, with string) func(f *forgery) {
		return func(f *forgery) {
			data, err := json.Marshal(f.links[i].claims)
			if err != nil {
				f.t.Fatal(err)
			}
			f.links[i].raw = strings.Replace(string(data), old, with, 1)
		}
	}
	reordered := func(f *forgery) {
		v := f.finish()
		var tokens []string
		if err := json.Unmarshal(v.Chain, &tokens); err != nil {
			f.t.Fatal(err)
		}
		tokens[1], tokens[2] = tokens[2], tokens[1]
		f.Chain, _ = json.Marshal(tokens)
	}
	bad := codes(CodeMalformed)
	return []forged{
		{"step-1", 0, func(f *forgery) { f.Chain = json.RawMessage(`[]`) }, codes(CodeEmptyChain)},
		{"step-1-no-array", 0, func(f *forgery) { f.Chain = json.RawMessage(`{}`) }, bad},
		{"step-1-no-strings", 0, func(f *forgery) { f.Chain = json.RawMessage(`[1]`) }, bad},
		{"step-2a", 0, claim(0, "padding", strings.Repeat("x", 50_000)), codes(CodeTooLarge)},
		{"step-2b", 5, func(f *forgery) {
			for _, p := range f.links {
				p.claims["padding"] = strings.Repeat("x", 40_000)
			}
		}, codes(CodeTooLarge)},
		{"step-2c-duplicate", 2, claim(2, "jti", "token-a"), codes(CodeDuplicateID)},
		{"step-2c-absent", 1, drop(1, "jti"), codes(CodeMissingClaim)},
		{"step-2c-not-a-string", 1, claim(1, "jti", 5), bad},
		{"step-2c-not-json", 1, func(f *forgery) { f.links[1].raw = "{" }, bad},
		{"step-2c-not-an-object", 1, func(f *forgery) { f.links[1].raw = "[]" }, bad},
		{"form-two-parts", 0, edit(0, func(s string) string { return signingInput(s) }), bad},
		{"form-four-parts", 0, edit(0, func(s string) string { return s + ".AA" }), bad},
		{"form-padding", 0, edit(0, func(s string) string { return s + "==" }), bad},
		{"form-line-break", 0, edit(0, func(s string) string { return s[:10] + "\n" + s[10:] }), bad},
		{"form-trailing-bits", 0, edit(0, func(s string) string { return s[:len(s)-1] + "B" }), bad},
		{"form-short-signature", 0, edit(0, func(s string) string { return signingInput(s) + ".AAAA" }), bad},
		{"form-empty-token", 0, edit(0, func(string) string { return "" }), bad},
		{"ATK-27-duplicate-claim", 0, raw(0, `"exp":`, `"exp":1,"exp":`), bad},
		{"ATK-27-folded-claim", 0, raw(0, `"exp":`, `"EXP":`), codes(CodeMissingClaim)},
		{"ATK-27-trailing-data", 0, raw(0, `{`, `{}{`), bad},
		{"ATK-27-duplicate-tool", 0, raw(0, `"search":`, `"read":{},"search":`), bad},
		{"ATK-6-reordered", 2, reordered, codes(CodeDepth)},
		{"typ-of-a-proof", 0, inHeader(0, "typ", typeProof), codes(CodeType)},
		{"typ-dpop", 0, inHeader(0, "typ", "dpop+jwt"), codes(CodeType)},
		{"typ-not-a-string", 0, inHeader(0, "typ", 1), codes(CodeType)},
		{"header-crit", 0, inHeader(0, "crit", []string{"exp"}), bad},
		{"header-b64-ignored", 0, inHeader(0, "b64", false), nil},
		{"header-kid-not-a-string-ignored", 0, inHeader(0, "kid", 1), nil},
		{"depth-eighteen-tokens", 17, func(f *forgery) { f.links[17].claims["del_max_depth"] = 17 }, codes(CodeTooDeep)},
	}
}

func rootVectors() []forged {
	missing, bad := codes(CodeMissingClaim), codes(CodeMalformed)
	private := func(i int) func(f *forgery) {
		return func(f *forgery) {
			f.links[i].claims["cnf"].(object)["jwk"].(object)["d"] = "AA"
		}
	}
	unknown := func(f *forgery) { f.links[0].signer = keyOf(f.t, "stranger", Ed25519) }
	out := []forged{
		{"step-3a-none", 0, inHeader(0, "alg", "none"), codes(CodeAlgorithm)},
		{"step-3a-absent", 0, inHeader(0, "alg", nil), codes(CodeAlgorithm)},
		{"step-3a-HS256", 0, inHeader(0, "alg", "HS256"), codes(CodeAlgorithm)},
		{"step-3a-other-key-type", 0, inHeader(0, "alg", "ES256"), codes(CodeAlgorithm)},
		{"step-3b-unknown-kid", 0, inHeader(0, "kid", "../issuer-1"), codes(CodeUnknownKey)},
		{"step-3b-no-anchors", 0, func(f *forgery) { f.setAnchors([]any{}...) }, codes(CodeUnknownKey)},
		{"step-3b-stranger", 0, unknown, codes(CodeSignature)},
		{"step-3b-own-jwk", 0, both(unknown, func(f *forgery) {
			f.links[0].header["jwk"] = public(f.t, keyOf(f.t, "stranger", Ed25519))
		}), codes(CodeSignature)},
		{"step-3b-anchors-not-a-set", 0, func(f *forgery) { f.Anchors = json.RawMessage(`{"keys":5}`) }, bad},
		{"step-3b-private-anchor", 0, func(f *forgery) { f.Anchors = json.RawMessage(f.issuerWithSecret()) }, codes(CodePrivateKey)},
		{"step-3c", 0, claim(0, "del_depth", 1), codes(CodeNotRoot)},
		{"step-3d", 0, claim(0, "par_hash", "x"), codes(CodeNotRoot)},
		{"step-3e", 0, claim(0, "exp", now), codes(CodeExpired)},
		{"step-3f", 0, claim(0, "iat", now+31), codes(CodeNotYetValid)},
		{"step-3g", 0, claim(0, "iat", now+3600), codes(CodeLifetime)},
		{"step-3h", 0, claim(0, "exp", now-600+90*86400+1), codes(CodeLifetime)},
		{"step-3i-too-deep", 0, claim(0, "del_max_depth", 17), codes(CodeDepth)},
		{"step-3i-negative", 0, claim(0, "del_max_depth", -1), bad},
		{"step-3i-fraction", 0, claim(0, "del_max_depth", 1.5), bad},
		{"step-3j-empty", 0, claim(0, "jti", ""), bad},
		{"step-3k-no-uri", 0, claim(0, "iss", "agent"), codes(CodeIssuer)},
		{"step-3k-space", 0, claim(0, "iss", "https://a b"), codes(CodeIssuer)},
		{"step-3l-no-jwk", 0, claim(0, "cnf", object{}), missing},
		{"step-3l-private", 0, private(0), codes(CodePrivateKey)},
		{"step-3l-not-a-key", 0, claim(0, "cnf", object{"jwk": "x"}), bad},
		{"step-3m-not-an-array", 0, details(0, `{}`), bad},
		{"step-3m-empty", 0, details(0, `[]`), codes(CodeEmptyCapability)},
		{"step-3m-empty-with-child", 1, both(details(0, `[]`), func(f *forgery) { f.links[1].tools(object{}) }), codes(CodeEmptyCapability)},
		{"step-3m-other-type", 0, details(0, `[{"type":"other"}]`), codes(CodeEmptyCapability)},
		{"step-3m-two", 0, details(0, `[{"type":"attenuating_agent_token","tools":{}},{"type":"attenuating_agent_token","tools":{"read":{}}}]`), bad},
		{"step-3m-no-tools", 0, details(0, `[{"type":"attenuating_agent_token"}]`), missing},
		{"step-3m-no-type", 0, details(0, `[{"tools":{"read":{}}}]`), codes(CodeEmptyCapability)},
		{"step-3m-no-type-beside-ours", 0, details(0, `[{"tools":5},7,{"type":"attenuating_agent_token","tools":{"read":{}}}]`), nil},
		{"step-3m-tools-a-list", 0, details(0, `[{"type":"attenuating_agent_token","tools":["read"]}]`), bad},
		{"step-3m-unknown-member", 0, details(0, `[{"type":"attenuating_agent_token","tools":{"read":{}},"locations":["x"]}]`), codes(CodeConstraint)},
		{"step-3n-33-levels", 0, func(f *forgery) { f.links[0].tools(object{"read": object{"path": json.RawMessage(deep(33))}}) }, codes(CodeTooDeep)},
		{"step-3n-32-levels", 0, func(f *forgery) { f.links[0].tools(object{"read": object{"path": json.RawMessage(deep(32))}}) }, nil},
		{"step-3n-unknown-type", 0, func(f *forgery) {
			f.links[0].tools(object{"read": object{"path": object{"constraint_type": "regex", "pattern": "."}}})
		}, codes(CodeConstraint)},
		{"step-3n-unknown-member", 0, func(f *forgery) {
			f.links[0].tools(object{"read": object{"path": object{"constraint_type": "wildcard", "unless": 1}}})
		}, codes(CodeConstraint)},
		{"nbf-ahead", 0, claim(0, "nbf", now+1), codes(CodeNotYetValid)},
		{"nbf-string", 0, claim(0, "nbf", "1"), bad},
		{"private-claim-of-another-kind-ignored", 0, claim(0, "powerbox", object{"capability": 5}), nil},
		{"private-claim-unknown-member-ignored", 0, claim(0, "powerbox", object{"admin": true}), nil},
		{"private-claim-not-an-object-ignored", 0, claim(0, "powerbox", "x"), nil},
		{"step-3b-iat-one-decimal", 0, claim(0, "iat", json.RawMessage("1799999400.0")), bad},
		{"step-3b-exp-exponent", 0, claim(0, "exp", json.RawMessage("1.8000036e9")), bad},
		{"step-3c-one-decimal", 0, claim(0, "del_depth", json.RawMessage("0.0")), bad},
		{"step-3i-exponent", 0, claim(0, "del_max_depth", json.RawMessage("3e0")), bad},
		{"step-3k-other-issuer", 0, claim(0, "iss", "https://other.example"), codes(CodeIssuer)},
		{"step-3k-no-issuer-named", 0, func(f *forgery) { f.Issuer = "" }, codes(CodeIssuer)},
		{"ATK-21-exp-string", 0, claim(0, "exp", "1800003600"), bad},
		{"ATK-21-exp-fraction", 0, claim(0, "exp", 1800003600.5), bad},
		{"ATK-21-del_max_depth-beyond-64-bits", 0, claim(0, "del_max_depth", json.RawMessage("99999999999999999999")), bad},
		{"ATK-21-iat-beyond-64-bits", 0, claim(0, "iat", json.RawMessage("99999999999999999999")), bad},
		{"ATK-21-iat-null", 0, claim(0, "iat", json.RawMessage("null")), bad},
		{"ATK-21-exp-far", 0, claim(0, "exp", json.RawMessage("1e300")), bad},
		{"ATK-21-exp-year-10000", 0, claim(0, "exp", 253402300800), bad},
	}
	for _, name := range []string{"iss", "iat", "exp", "cnf", "del_depth", "del_max_depth", "authorization_details"} {
		out = append(out, forged{"step-3-absent-" + name, 0, drop(0, name), missing})
	}
	return out
}

// issuerWithSecret is a JWK Set in which the issuer published its private key.
func (f *forgery) issuerWithSecret() string { return `{"keys":[` + string(f.issuer.JWK()) + `]}` }

func linkVectors() []forged {
	missing := codes(CodeMissingClaim)
	out := []forged{
		{"step-4a-none", 1, inHeader(1, "alg", "none"), codes(CodeAlgorithm)},
		{"step-4a-other-key-type", 1, inHeader(1, "alg", "Ed25519"), codes(CodeAlgorithm)},
		{"step-4b", 1, func(f *forgery) { f.links[1].signer = keyOf(f.t, "stranger", ES256) }, codes(CodeSignature)},
		{"step-4b-signed-by-issuer", 1, func(f *forgery) { f.links[1].signer = keyOf(f.t, "es256 issuer", ES256) }, codes(CodeSignature)},
		{"step-4b-flipped", 1, func(f *forgery) { f.links[1].edit = flip }, codes(CodeSignature)},
		{"step-4b2-private", 1, func(f *forgery) { f.links[1].claims["cnf"].(object)["jwk"].(object)["d"] = "AA" }, codes(CodePrivateKey)},
		{"step-4b4-fraction", 1, claim(1, "del_depth", 0.5), codes(CodeMalformed)},
		{"step-4b5-no-par_hash", 1, drop(1, "par_hash"), missing},
		{"step-4c", 1, func(f *forgery) { f.links[1].claims["iss"] = f.issuer.Public().URI() }, codes(CodeIssuer)},
		{"step-4d", 2, claim(2, "del_depth", 3), codes(CodeDepth)},
		{"step-4d-not-one-more", 2, claim(2, "del_depth", 1), codes(CodeDepth)},
		{"step-4e", 1, claim(0, "del_max_depth", 0), codes(CodeDepth)},
		{"step-4f", 1, claim(1, "del_depth", 17), codes(CodeDepth)},
		{"step-4g", 1, claim(0, "del_max_depth", 3), codes(CodeDepth)},
		{"step-4h", 1, claim(1, "exp", now+3601), codes(CodeExpiryWidened)},
		{"step-4i", 1, claim(1, "exp", now), codes(CodeExpired)},
		{"step-4j", 1, claim(1, "iat", now-601), codes(CodeIssuedBeforeParent)},
		{"step-4k", 1, claim(1, "iat", now+31), codes(CodeNotYetValid)},
		{"step-4l", 1, both(claim(1, "iat", now+10), claim(1, "exp", now+10)), codes(CodeLifetime)},
		{"step-4m", 2, claim(2, "del_max_depth", 1), codes(CodeDepth)},
		{"step-4n-two", 1, details(1, `[{"type":"attenuating_agent_token","tools":{}},{"type":"attenuating_agent_token","tools":{}}]`), codes(CodeMalformed)},
		{"step-4o", 1, func(f *forgery) { f.links[1].tools(object{"search": object{"q": json.RawMessage(deep(33))}}) }, codes(CodeTooDeep)},
		{"step-4p-tool-added", 1, func(f *forgery) { f.links[1].tools(object{"write": object{}}) }, codes(CodeWidened)},
		{"step-4p-value-added", 1, func(f *forgery) {
			f.links[1].tools(object{"read": object{"path": object{"constraint_type": "one_of", "values": []any{"/q1", "/q3"}}}})
		}, codes(CodeWidened)},
		{"step-4p-under-empty", 2, claim(1, "authorization_details", []any{}), codes(CodeWidened)},
		{"step-4q", 1, claim(1, "par_hash", DigestOf([]byte("another parent"))), codes(CodeParentHash)},
		{"step-4q-hex", 1, claim(1, "par_hash", strings.Repeat("ab", 32)), codes(CodeParentHash)},
		{"step-5", 2, func(f *forgery) { f.links = slices.Delete(f.links, 1, 2) }, codes(CodeDepth)},
		{"nbf-of-a-child-ahead", 1, claim(1, "nbf", now+1), codes(CodeNotYetValid)},
	}
	for _, name := range []string{"jti", "iss", "iat", "exp", "cnf", "del_depth", "del_max_depth", "authorization_details"} {
		step := "step-4b5-absent-"
		switch name {
		case "jti":
			step = "step-4b1-absent-"
		case "cnf":
			step = "step-4b2-absent-"
		case "authorization_details":
			step = "step-4b3-absent-"
		case "del_depth", "del_max_depth":
			step = "step-4b4-absent-"
		}
		out = append(out, forged{step + name, 1, drop(1, name), missing})
	}
	return out
}

// flip changes one bit of the signature.
func flip(compact string) string {
	i := strings.LastIndexByte(compact, '.') + 1
	changed := byte('A')
	if compact[i] == 'A' {
		changed = 'B'
	}
	return compact[:i] + string(changed) + compact[i+1:]
}

// point is the enforcement point that is asked.
func point(p Point) func(f *forgery) { return func(f *forgery) { f.Point = &p } }

var (
	here          = Point{Identity: []string{"https://agent.example"}}
	chainAudience = Point{Identity: []string{"https://agent.example"}, ChainAudience: true}
	issued        = Point{Nonce: "n-1"}
)

func leafVectors() []forged {
	return []forged{
		{"step-6a", 1, claim(1, "authorization_details", []any{}), codes(CodeEmptyCapability)},
		{"step-6b-operation", 1, asks("write", `{}`), codes(powerbox.CodeOperation)},
		{"step-6b-operation-prefix", 1, asks("rea", `{"path":"/q1"}`), codes(powerbox.CodeOperation)},
		{"step-6b-operation-case", 1, asks("Read", `{"path":"/q1"}`), codes(powerbox.CodeOperation)},
		{"ATK-2-longer-operation", 1, asks("read-all", `{"path":"/q1"}`), codes(powerbox.CodeOperation)},
		{"ATK-2-star", 1, func(f *forgery) {
			for _, p := range f.links {
				p.tools(object{"read.*": object{}})
			}
			f.Operation = "read.all"
		}, codes(powerbox.CodeOperation)},
		{"step-6b-value", 1, asks("read", `{"path":"/q3"}`), codes(powerbox.CodeArgumentConstraint)},
		{"step-6b-absent", 1, asks("read", `{}`), codes(powerbox.CodeArgumentMissing)},
		{"step-6b-unknown", 1, asks("read", `{"path":"/q1","as":"root"}`), codes(powerbox.CodeArgumentUnknown)},
		{"ATK-5-no-tools", 1, func(f *forgery) { f.links[1].tools(object{}) }, codes(powerbox.CodeOperation)},
		{"ATK-5-no-values", 1, func(f *forgery) {
			f.links[1].tools(object{"read": object{"path": object{"constraint_type": "one_of", "values": []any{}}}})
		}, codes(CodeConstraint)},
		{"step-6c-aud", 1, both(claim(1, "aud", "https://agent.example"), point(here)), nil},
		{"step-6c-aud-list", 2, both(claim(1, "aud", []any{"https://a.example", "https://agent.example"}), point(here)), nil},
		{"step-6c-other", 2, both(claim(1, "aud", "https://a.example"), point(here)), codes(CodeAudience)},
		{"step-6c-other-in-root", 1, both(claim(0, "aud", "https://a.example"), claim(1, "aud", "https://agent.example"), point(here)), codes(CodeAudience)},
		{"step-6c-nobody", 1, claim(1, "aud", "https://agent.example"), codes(CodeAudience)},
		{"step-6c-empty-list", 1, both(claim(1, "aud", []any{}), point(here)), codes(CodeAudience)},
		{"step-6c-trailing-slash", 1, both(claim(1, "aud", "https://agent.example/"), point(here)), codes(CodeAudience)},
		{"step-6c-number", 1, both(claim(1, "aud", 5), point(here)), codes(CodeMalformed)},
		{"step-6c-required", 1, both(claim(1, "aud", "https://agent.example"), point(chainAudience)), nil},
		{"step-6c-required-absent", 1, point(chainAudience), codes(CodeAudience)},
		{"no-operation", 1, asks("", `{}`), codes(CodeMalformed)},
		{"arguments-malformed", 1, both(asks("read", `{"path":`), proofClaim("hta", object{})), codes(CodeMalformed)},
		{"arguments-absent", 1, both(asks("read", ``), proofClaim("hta", object{})), codes(CodeMalformed)},
		{"arguments-a-list", 1, asks("read", `[]`), codes(CodeMalformed)},
		{"ATK-27-duplicate-argument", 1, both(asks("read", `{"path":"/q1","path":"/q3"}`), proofClaim("hta", object{"path": "/q1"})), codes(CodeMalformed)},
	}
}

func proofVectors() []forged {
	typed := func(typ any) func(f *forgery) { return func(f *forgery) { f.proof.header["typ"] = typ } }
	amount := both(asks("search", `{"n":9007199254740993}`), proofClaim("hta", json.RawMessage(`{"n":9007199254740992}`)))
	return []forged{
		{"step-7-absent", 1, func(f *forgery) { f.proof = nil }, codes(CodeProofMissing)},
		{"step-7-garbage", 1, func(f *forgery) { f.proof = nil; f.Proof = "x" }, codes(CodeMalformed)},
		{"step-7-no-claims", 1, func(f *forgery) { f.proof.raw = "{}" }, codes(CodeMissingClaim)},
		{"step-7a-none", 1, func(f *forgery) { f.proof.header["alg"] = "none" }, codes(CodeAlgorithm)},
		{"step-7a-other-key-type", 1, func(f *forgery) { f.proof.header["alg"] = "ES256" }, codes(CodeAlgorithm)},
		{"step-7b", 1, func(f *forgery) { f.proof.signer = keyOf(f.t, "stranger", Ed25519) }, codes(CodeProofSignature)},
		{"step-7b-flipped", 1, func(f *forgery) { f.proof.edit = flip }, codes(CodeProofSignature)},
		{"step-7b-parent-holder", 2, func(f *forgery) { f.proof.signer = f.links[0].holder }, codes(CodeProofSignature)},
		{"step-7c", 1, proofClaim("aat_id", "token-a"), codes(CodeProofToken)},
		{"step-7c-absent", 1, func(f *forgery) { f.proof.claims["aat_id"] = nil }, codes(CodeMissingClaim)},
		{"step-7a-typ-absent", 1, func(f *forgery) { f.proof.header["typ"] = nil }, codes(CodeType)},
		{"step-7c-hash-absent", 1, func(f *forgery) { f.proof.claims["aat_hash"] = nil }, codes(CodeMissingClaim)},
		{"step-7c-hash-of-another", 1, proofClaim("aat_hash", DigestOf([]byte("a sibling with the same jti"))), codes(CodeProofToken)},
		{"step-7d-nobody", 1, proofClaim("aat_aud", "https://agent.example"), codes(CodeProofAudience)},
		{"step-7d-other-not-demanded", 1, both(proofClaim("aat_aud", "https://other.example"), point(here)), codes(CodeProofAudience)},
		{"step-7f-rounded-argument", 1, asks("search", `{"n":9007199254740993}`), codes(CodeProofArguments)},
		{"step-7f-large-argument", 1, asks("search", `{"n":9007199254740994}`), nil},
		{"step-7g-exponent", 1, proofClaim("iat", json.RawMessage("1.8e9")), codes(CodeMalformed)},
		{"step-7h", 1, both(proofClaim("nonce", "n-1"), point(issued)), nil},
		{"step-7h-absent", 1, point(issued), codes(CodeProofNonce)},
		{"step-7h-other", 1, both(proofClaim("nonce", "n-2"), point(issued)), codes(CodeProofNonce)},
		{"step-7h-not-demanded", 1, proofClaim("nonce", "n-2"), nil},
		{"step-7d-absent", 1, func(f *forgery) { f.Audience = "https://agent.example" }, codes(CodeProofAudience)},
		{"step-7d-other", 1, both(proofClaim("aat_aud", "https://other.example"), func(f *forgery) { f.Audience = "https://agent.example" }), codes(CodeProofAudience)},
		{"step-7d-list", 1, proofClaim("aat_aud", []string{"https://agent.example"}), codes(CodeMalformed)},
		{"step-7e", 1, proofClaim("aat_tool", "search"), codes(CodeProofOperation)},
		{"step-7f", 1, proofClaim("hta", object{"path": "/q2"}), codes(CodeProofArguments)},
		{"step-7f-more", 1, proofClaim("hta", object{"path": "/q1", "x": 1}), codes(CodeProofArguments)},
		{"step-7f-not-an-object", 1, proofClaim("hta", "x"), codes(CodeMalformed)},
		{"step-7f-absent", 1, func(f *forgery) { f.proof.claims["hta"] = nil }, codes(CodeMissingClaim)},
		{"ATK-39-numbers-that-JCS-rounds", 1, amount, codes(CodeProofArguments)},
		{"step-7g-old", 1, proofClaim("iat", now-31), codes(CodeProofTime)},
		{"step-7g-ahead", 1, proofClaim("iat", now+31), codes(CodeProofTime)},
		{"step-7g-string", 1, proofClaim("iat", "1800000000"), codes(CodeMalformed)},
		{"ATK-13-proof-typ-token", 1, typed(typeToken), codes(CodeType)},
		{"ATK-13-proof-typ-dpop", 1, typed("dpop+jwt"), codes(CodeType)},
		{"step-7-too-large", 1, func(f *forgery) { f.proof = nil; f.Proof = strings.Repeat("A", MaxTokenBytes+1) }, codes(CodeTooLarge)},
		{"step-7-no-id", 1, both(proofClaim("jti", nil), proofClaim("req", object{"m": 1})), codes(CodeMissingClaim)},
		{"proof-req-malformed", 1, proofClaim("req", object{"m": 1}), codes(CodeMalformed)},
	}
}

func revocationVectors() []forged {
	revoke := func(id string) func(f *forgery) { return func(f *forgery) { f.Revoked = []string{id} } }
	return []forged{
		{"revoked-root-jti", 2, revoke("token-a"), codes(CodeRevoked)},
		{"revoked-middle-jti", 2, revoke("token-b"), codes(CodeRevoked)},
		{"revoked-leaf-jti", 2, revoke("token-c"), codes(CodeRevoked)},
		{"revoked-root-hash", 2, revoke("hash of 0"), codes(CodeRevoked)},
		{"revoked-middle-hash", 2, revoke("hash of 1"), codes(CodeRevoked)},
		{"revoked-other", 2, revoke("token-x"), nil},
	}
}
