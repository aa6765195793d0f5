package token

import (
	"encoding/json"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// of01 makes the whole question one of draft -01, which is accepted.
func of01(changes ...func(f *forgery)) func(f *forgery) {
	return func(f *forgery) {
		f.draft, f.Draft01 = Draft01, true
		both(changes...)(f)
	}
}

// draftVectors show that the root's header fixes the draft, and what differs between the
// two.
func draftVectors() []forged {
	proofHeader := func(name string, v any) func(f *forgery) {
		return func(f *forgery) { f.proof.header[name] = v }
	}
	refused := func(f *forgery) { f.draft = Draft01 }
	noTyp := func(f *forgery) {
		for _, p := range append(slices.Clone(f.links), f.proof) {
			p.header["typ"] = nil
		}
	}
	jwt := func(f *forgery) {
		for _, p := range append(slices.Clone(f.links), f.proof) {
			p.header["typ"] = "JWT"
		}
	}
	es256 := func(f *forgery) {
		f.issuer = keyOf(f.t, "es256 issuer", ES256)
		f.setAnchors(public(f.t, f.issuer))
	}
	mixed := codes(CodeMixedDrafts)
	star := func(f *forgery) {
		f.Operation, f.Arguments = "read", `{"*":1}`
		for _, p := range f.links {
			p.tools(object{"read": object{"*": object{"constraint_type": "range", "max": 5}}})
		}
	}
	return []forged{
		{"draft-01", 2, of01(), nil},
		{"draft-01-typ-JWT", 2, of01(jwt), nil},
		{"draft-01-typ-absent", 2, of01(noTyp), nil},
		{"draft-01-issuer-ES256-typ-absent", 1, of01(es256, noTyp), nil},
		{"draft-01-proof-needs-no-hash", 1, of01(), nil},
		{"draft-01-no-issuer-named", 1, of01(func(f *forgery) { f.Issuer = "" }), nil},
		{"draft-01-other-issuer", 1, of01(func(f *forgery) { f.Issuer = "https://other.example" }), codes(CodeIssuer)},
		{"draft-01-not-accepted", 1, refused, codes(CodeDraft)},
		{"draft-01-not-accepted-ES256-typ-absent", 1, both(refused, es256, noTyp), codes(CodeDraft)},
		{"draft-01-aud", 1, of01(claim(1, "aud", "https://a.example"), point(here)), codes(CodeAudience)},
		{"draft-01-star-is-a-name", 1, of01(star), nil},
		{"draft-01-star-admits-no-other", 1, of01(star, asks("read", `{"*":1,"path":"/q1"}`)), codes(powerbox.CodeArgumentUnknown)},
		{"draft-01-optional", 1, of01(func(f *forgery) {
			f.links[0].tools(object{"read": object{"path": object{"constraint_type": "wildcard", "optional": true}}})
		}), codes(CodeConstraint)},
		{"draft-01-alg-Ed25519-in-a-link", 2, of01(inHeader(2, "alg", "Ed25519")), mixed},
		{"draft-01-alg-Ed25519-in-the-proof", 1, of01(proofHeader("alg", "Ed25519")), mixed},
		{"draft-01-accepted-does-not-loosen-02", 1, func(f *forgery) {
			f.Draft01 = true
			noTyp(f)
		}, codes(CodeType)},
		{"draft-02-star-is-no-name", 1, star, codes(CodeConstraint)},
		{"draft-02-alg-EdDSA-in-a-link", 2, inHeader(2, "alg", "EdDSA"), mixed},
		{"draft-02-alg-EdDSA-in-the-proof", 1, proofHeader("alg", "EdDSA"), mixed},
		{"draft-02-typ-absent-in-the-root", 1, inHeader(0, "typ", nil), codes(CodeType)},
		{"draft-02-typ-absent-in-a-link", 1, inHeader(1, "typ", nil), mixed},
		{"draft-02-typ-JWT-in-a-link", 2, inHeader(2, "typ", "JWT"), codes(CodeType)},
		{"draft-02-issuer-ES256", 1, es256, nil},
		{"draft-02-strict", 1, func(f *forgery) { f.Strict = true }, nil},
		{"draft-02-strict-path", 1, func(f *forgery) {
			f.Strict = true
			pair(samples["path"].parent, samples["path"].child, samples["path"].value)(f)
		}, codes(CodeConstraint)},
		{"draft-02-strict-path-inside-all", 1, func(f *forgery) {
			f.Strict = true
			inside := `{"constraint_type":"all","constraints":[` + samples["path"].parent + `]}`
			pair(`{"constraint_type":"wildcard"}`, inside, samples["path"].value)(f)
		}, codes(CodeConstraint)},
	}
}

// mapVectors are about the keys of constraint maps (draft, section 4.5).
func mapVectors() []forged {
	tools := func(parent, child, arguments string) func(f *forgery) {
		return func(f *forgery) {
			f.Operation, f.Arguments = "use", arguments
			f.links[0].tools(object{"use": json.RawMessage(parent)})
			f.links[1].tools(object{"use": json.RawMessage(child)})
		}
	}
	same := func(m, arguments string) func(f *forgery) { return tools(m, m, arguments) }
	const (
		low   = `{"constraint_type":"range","max":5}`
		maybe = `{"constraint_type":"range","max":5,"optional":true}`
		other = `"*":{"constraint_type":"wildcard"}`
	)
	wider, bad := codes(CodeWidened), codes(CodeConstraint)
	required, optional := `{"a":`+low+`}`, `{"a":`+maybe+`}`
	return []forged{
		{"map-optional-absent", 1, same(optional, `{}`), nil},
		{"map-optional-present", 1, same(optional, `{"a":5}`), nil},
		{"map-optional-wrong", 1, same(optional, `{"a":6}`), codes(powerbox.CodeArgumentConstraint)},
		{"map-optional-false", 1, same(`{"a":{"constraint_type":"range","max":5,"optional":false}}`, `{}`), codes(powerbox.CodeArgumentMissing)},
		{"map-optional-not-a-boolean", 1, same(`{"a":{"constraint_type":"wildcard","optional":1}}`, `{}`), bad},
		{"map-optional-nested", 1, same(`{"a":{"constraint_type":"all","constraints":[`+maybe+`]}}`, `{}`), bad},
		{"map-optional-made-required", 1, tools(optional, required, `{"a":1}`), nil},
		{"map-required-made-optional", 1, tools(required, optional, `{"a":1}`), wider},
		{"map-optional-left-out", 1, tools(`{"a":`+maybe+`,"b":`+low+`}`, `{"b":`+low+`}`, `{"b":1}`), nil},
		{"map-optional-left-out-is-forbidden", 1, tools(`{"a":`+maybe+`,"b":`+low+`}`, `{"b":`+low+`}`, `{"a":1,"b":1}`), codes(powerbox.CodeArgumentUnknown)},
		{"map-optional-widened", 1, tools(optional, `{"a":{"constraint_type":"range","max":6,"optional":true}}`, `{}`), wider},
		{"map-star", 1, same(`{"a":`+low+`,`+other+`}`, `{"a":1,"b":2}`), nil},
		{"map-star-alone-is-empty", 1, tools(`{}`, `{`+other+`}`, `{"b":2}`), nil},
		{"map-empty-is-star-alone", 1, tools(`{`+other+`}`, `{}`, `{"b":2}`), nil},
		{"map-star-admits-an-argument-of-that-name", 1, same(`{"a":`+low+`,`+other+`}`, `{"a":1,"*":2}`), nil},
		{"map-star-still-needs-required", 1, same(`{"a":`+low+`,`+other+`}`, `{"b":2}`), codes(powerbox.CodeArgumentMissing)},
		{"map-star-dropped", 1, tools(`{"a":`+low+`,`+other+`}`, required, `{"a":1}`), nil},
		{"map-star-added", 1, tools(required, `{"a":`+low+`,`+other+`}`, `{"a":1}`), wider},
		{"map-star-narrowed-by-name", 1, tools(`{"a":`+low+`,`+other+`}`, `{"a":`+low+`,"b":`+maybe+`,`+other+`}`, `{"a":1}`), nil},
		{"map-star-kept-without-an-optional", 1, tools(`{"a":`+maybe+`,`+other+`}`, `{`+other+`}`, `{}`), wider},
		{"map-star-not-a-wildcard", 1, same(`{"*":`+low+`}`, `{}`), bad},
		{"map-star-optional", 1, same(`{"*":{"constraint_type":"wildcard","optional":true}}`, `{}`), bad},
		{"map-star-optional-false", 1, same(`{"*":{"constraint_type":"wildcard","optional":false}}`, `{}`), bad},
	}
}
