package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// deny asks a forged question and expects exactly those codes.
func deny(t *testing.T, name string, hops int, change func(f *forgery), want ...powerbox.Code) {
	t.Helper()
	v := forged{name: name, hops: hops, change: change, codes: want}.vector(t)
	t.Run(name, func(t *testing.T) { v.mustAgree(t) })
}

func TestATK2_OperationsAreExactNames(t *testing.T) {
	for _, granted := range []string{"trade", "trade.*", "trade*", "*", "trade."} {
		for _, tried := range []string{"trade-report", "trade.x", "Trade", "trade ", "trad", "trade\u0000", "ｔrade"} {
			deny(t, "ATK-2 "+granted+" admits "+tried, 1, func(f *forgery) {
				for _, p := range f.links {
					p.tools(object{granted: object{}})
				}
				f.Operation = tried
			}, powerbox.CodeOperation)
		}
	}
}

func TestATK4_NothingIsTruncated(t *testing.T) {
	long := strings.Repeat("a", powerbox.MaxOperationBytes)
	deny(t, "ATK-4 longest name and one more", 0, func(f *forgery) {
		f.links[0].tools(object{long: object{}})
		f.Operation = long + "b"
		f.proof.claims["aplacetool"] = long
	}, CodeMalformed)
	deny(t, "ATK-4 a tool beyond the longest name", 0, func(f *forgery) { f.links[0].tools(object{long + "b": object{}}) }, CodeMalformed)
	deny(t, "ATK-4 more tools than a token may have", 0, func(f *forgery) {
		tools := object{"read": object{}}
		for i := range powerbox.MaxOperations {
			tools[fmt.Sprint(i)] = object{}
		}
		f.links[0].tools(tools)
	}, CodeTooLarge)
}

func TestATK5_WhatIsAbsentIsNothing(t *testing.T) {
	for _, empty := range []string{`"one_of","values":[]`, `"any","constraints":[]`} {
		deny(t, "ATK-5 "+empty, 0, func(f *forgery) {
			f.links[0].tools(object{"read": object{"path": json.RawMessage(`{"constraint_type":` + empty + `}`)}})
		}, CodeConstraint)
	}
	for _, missing := range []string{`"one_of"`, `"exact"`, `"not_one_of"`, `"all"`, `"subset"`} {
		deny(t, "ATK-5 "+missing, 0, func(f *forgery) {
			f.links[0].tools(object{"read": object{"path": json.RawMessage(`{"constraint_type":` + missing + `}`)}})
		}, CodeConstraint)
	}
	deny(t, "ATK-5 no tools", 0, func(f *forgery) { f.links[0].tools(object{}) }, powerbox.CodeOperation)
	if r := Check(CheckRequest{}); r.Allowed || len(r.Reasons) < 3 {
		t.Errorf("ATK-5: nothing at all gives %+v", r)
	}
}

// TestATK6_ARootNamesItsIssuerByAURI: a chain is refused by its form, before anybody asks
// whether its issuer is trusted.
func TestATK6_ARootNamesItsIssuerByAURI(t *testing.T) {
	tried := 0
	for _, c := range stepVectors() {
		if c.name != "step-3k-no-uri" && c.name != "step-3k-space" {
			continue
		}
		tried++
		var chain []string
		if err := json.Unmarshal(c.vector(t).Chain, &chain); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseChain(chain); codeOf(err) != CodeIssuer {
			t.Errorf("%s: %v; want %s", c.name, err, CodeIssuer)
		}
	}
	if tried != 2 {
		t.Errorf("%d vectors; want 2", tried)
	}
}

// TestATK6_ChainsCannotBeRearranged takes two honest chains of the same holders
// and puts their tokens together in every other way.
func TestATK6_ChainsCannotBeRearranged(t *testing.T) {
	a := newFamily(t, 3)
	b := a
	b.tokens, b.holders = slices.Clone(a.tokens[:1]), slices.Clone(a.holders[:1])
	for range 3 {
		b.derive(t, func(n *Narrowing) { n.ID += " b"; n.Tools = tools(t, `{"search":{}}`) })
	}
	all := slices.Concat(a.tokens, b.tokens[1:])
	accepted, tried := 0, 0
	var put func(chain []string)
	put = func(chain []string) {
		if len(chain) > 0 {
			tried++
			u, err := ParseChain(chain)
			if err == nil {
				_, err = u.Verify(a.anchors, quiet(at))
			}
			honest := slices.Equal(chain, a.tokens[:len(chain)]) || slices.Equal(chain, b.tokens[:len(chain)])
			if (err == nil) != honest {
				t.Errorf("ATK-6: a chain of %d: %v", len(chain), err)
			}
			if err == nil {
				accepted++
			}
		}
		if len(chain) == 4 {
			return
		}
		for _, token := range all {
			put(append(slices.Clone(chain), token))
		}
	}
	put(nil)
	if accepted != 7 {
		t.Errorf("accepted %d of %d, want the 7 honest ones", accepted, tried)
	}
}

// TestATK6_SubstitutedSignatures swaps the signatures of every two tokens.
func TestATK6_SubstitutedSignatures(t *testing.T) {
	f := newFamily(t, 3)
	for i := range f.tokens {
		for j := range f.tokens {
			if i == j {
				continue
			}
			tokens := slices.Clone(f.tokens)
			tokens[i] = signingInput(tokens[i]) + f.tokens[j][len(signingInput(f.tokens[j])):]
			u, err := ParseChain(tokens)
			if err == nil {
				_, err = u.Verify(f.anchors, quiet(at))
			}
			if codeOf(err) != CodeSignature {
				t.Errorf("ATK-6: token %d with the signature of %d: %v", i, j, err)
			}
		}
	}
}

func TestATK7_UnknownKeysAreRefused(t *testing.T) {
	f := newFamily(t, 2)
	u, err := ParseChain(f.tokens)
	if err != nil {
		t.Fatal(err)
	}
	for name, anchors := range map[string]KeySet{
		"no keys": {}, "another key": NewKeySet(keyOf(t, "other", Ed25519).Public()),
		"another algorithm": NewKeySet(keyOf(t, "other", ES256).Public()), "a holder": NewKeySet(f.holders[0].Public()),
	} {
		v, err := u.Verify(anchors, quiet(at))
		if err == nil || !v.Authority().IsEmpty() || !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("ATK-7 %s: %v", name, err)
		}
	}
}

// TestATK10_EveryFlippedByteIsNoticed changes each character of a chain of two
// tokens.
func TestATK10_EveryFlippedByteIsNoticed(t *testing.T) {
	f := newFamily(t, 1)
	for i, token := range f.tokens {
		for place := 0; place < len(token); place++ {
			for _, c := range []byte("A-.=x") {
				if token[place] == c {
					continue
				}
				tokens := slices.Clone(f.tokens)
				tokens[i] = token[:place] + string(c) + token[place+1:]
				u, err := ParseChain(tokens)
				if err == nil {
					_, err = u.Verify(f.anchors, quiet(at))
				}
				if err == nil {
					t.Fatalf("ATK-10: token %d, byte %d, %q: accepted", i, place, c)
				}
			}
		}
	}
}

// TestATK11_TheKeyDecidesTheAlgorithm signs with each key and names every other
// algorithm.
func TestATK11_TheKeyDecidesTheAlgorithm(t *testing.T) {
	algorithms := []any{"HS256", "HS512", "RS256", "PS256", "ES384", "ES256K", "Ed448", "eddsa", "", nil, 5, []string{"EdDSA"}}
	for hop := range 2 {
		own, other := "EdDSA", "ES256"
		if hop == 1 {
			own, other = other, own
		}
		for _, alg := range append(algorithms, any(other)) {
			deny(t, fmt.Sprintf("ATK-11 token %d %s as %v", hop, own, alg), 1, func(f *forgery) {
				f.links[hop].header["alg"] = alg
				if alg == "EdDSA" {
					f.links[hop].header["alg"] = "Ed25519" // the forger writes the right name for EdDSA
				}
			}, CodeAlgorithm)
		}
	}
	// The public key as a secret of HMAC is the classic one.
	deny(t, "ATK-11 HS256 with the public key", 0, func(f *forgery) { f.links[0].header["alg"] = "HS256" }, CodeAlgorithm)
}

func TestATK12_NoneIsNoAlgorithm(t *testing.T) {
	for _, alg := range []string{"none", "None", "NONE", "nOnE"} {
		for _, signature := range []string{"", "AAAA", strings.Repeat("A", 86)} {
			edit := func(s string) string { return signingInput(s) + "." + signature }
			for hop := range 2 {
				deny(t, fmt.Sprintf("ATK-12 token %d %s %d", hop, alg, len(signature)), 1, func(f *forgery) {
					f.links[hop].header["alg"], f.links[hop].edit = alg, edit
				}, CodeAlgorithm)
			}
			deny(t, fmt.Sprintf("ATK-12 proof %s %d", alg, len(signature)), 1, func(f *forgery) {
				f.proof.header["alg"], f.proof.edit = alg, edit
			}, CodeAlgorithm)
		}
	}
}

// TestATK13_TypesAreNotConfused offers everything that is signed for everything
// else, with every typ.
func TestATK13_TypesAreNotConfused(t *testing.T) {
	types := []any{typeToken, typeProof, typeDPoP, typeContext, "at+jwt", "JOSE", "jwt", "AAT+JWT", "application/aat+jwt", "", 5}
	for _, typ := range types {
		if typ != typeToken {
			for hop := range 2 {
				deny(t, fmt.Sprintf("ATK-13 token %d as %v", hop, typ), 1, func(f *forgery) { f.links[hop].header["typ"] = typ }, CodeType)
			}
		}
		if typ != typeProof {
			deny(t, fmt.Sprintf("ATK-13 proof as %v", typ), 1, func(f *forgery) { f.proof.header["typ"] = typ }, CodeType)
		}
	}
	// If typ is absent or generic, as draft -01 allows, the claims must suffice.
	for _, typ := range []any{nil, "JWT"} {
		deny(t, fmt.Sprintf("ATK-13 the leaf as proof, typ %v", typ), 1, func(f *forgery) {
			of01()(f)
			f.proof.header["typ"], f.proof.claims = typ, maps.Clone(f.leaf().claims)
			f.proof.claims["aplaceid"], f.proof.claims["aplacetool"], f.proof.claims["hta"] = nil, nil, nil
		}, CodeMissingClaim)
		deny(t, fmt.Sprintf("ATK-13 a proof as leaf, typ %v", typ), 1, func(f *forgery) {
			of01()(f)
			f.leaf().header["typ"] = typ
			f.leaf().raw = `{"jti":"p","iat":1800000000,"aplaceid":"token-a","aplacetool":"read","hta":{}}`
		}, CodeMissingClaim)
	}
}

// TestATK14_HeadersChooseNoKey signs with a key of the attacker's and brings it
// along in every way.
func TestATK14_HeadersChooseNoKey(t *testing.T) {
	for hop := range 2 {
		for _, name := range []string{"jwk", "jku", "x5u", "x5c", "x5t"} {
			deny(t, fmt.Sprintf("ATK-14 token %d %s", hop, name), 1, func(f *forgery) {
				algorithm := []Algorithm{Ed25519, ES256}[hop]
				f.links[hop].signer = keyOf(t, "attacker", algorithm)
				f.links[hop].header[name] = map[string]any{"jwk": public(t, f.links[hop].signer), "x5c": []string{"AA"}}[name]
				if f.links[hop].header[name] == nil {
					f.links[hop].header[name] = "https://evil.example/keys"
				}
			}, CodeSignature)
		}
	}
	for _, kid := range []string{"../issuer-1", "issuer-1\u0000", "file:///dev/null", "' OR 1=1 --", "ISSUER-1", ""} {
		deny(t, fmt.Sprintf("ATK-14 kid %q", kid), 0, func(f *forgery) { f.links[0].header["kid"] = kid }, CodeUnknownKey)
	}
}

func TestATK21_TimesAreIntegersInBounds(t *testing.T) {
	for _, name := range []string{"exp", "iat", "nbf"} {
		for _, bad := range []string{`"1800000100"`, `1800000100.5`, `-1`, `true`, `[]`, `1e300`, `99999999999999`, `null`} {
			deny(t, fmt.Sprintf("ATK-21 %s %s", name, bad), 0, func(f *forgery) {
				f.links[0].claims[name] = json.RawMessage(bad)
			}, CodeMalformed)
		}
	}
	deny(t, "ATK-21 73 years", 0, func(f *forgery) { f.links[0].claims["exp"] = now + 73*365*86400 }, CodeLifetime)
}

// TestATK27_ParsersCannotDiffer spells claims in ways that other decoders fold.
func TestATK27_ParsersCannotDiffer(t *testing.T) {
	payload := func(f *forgery) string {
		data, err := json.Marshal(f.links[0].claims)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		old, new string
		code     powerbox.Code
	}{
		"duplicate":             {`"exp":`, `"exp":9,"exp":`, CodeMalformed},
		"escaped duplicate":     {`"exp":`, `"\u0065xp":9,"exp":`, CodeMalformed},
		"folded":                {`"iss":`, `"iſs":`, CodeMissingClaim},
		"upper case":            {`"cnf":`, `"CNF":`, CodeMissingClaim},
		"comment":               {`{`, `{/**/`, CodeMalformed},
		"invalid UTF-8":         {`token-a`, "token-\xff", CodeMalformed},
		"lone surrogate":        {`token-a`, `token-\ud800`, CodeMalformed},
		"NaN":                   {`"exp":`, `"x":NaN,"exp":`, CodeMalformed},
		"byte order mark":       {`{`, "\ufeff{", CodeMalformed},
		"duplicate inside":      {`"search":`, `"search":{},"search":`, CodeMalformed},
		"duplicate constraint":  {`"constraint_type":"one_of"`, `"constraint_type":"wildcard","constraint_type":"one_of"`, CodeMalformed},
		"two types in one":      {`"constraint_type":"one_of"`, `"Constraint_Type":"wildcard","constraint_type":"one_of"`, CodeConstraint},
		"minus zero":            {`"del_depth":0`, `"del_depth":-0`, CodeMalformed},
		"depth with a fraction": {`"del_depth":0`, `"del_depth":0.5`, CodeMalformed},
	} {
		deny(t, "ATK-27 "+name, 0, func(f *forgery) {
			f.links[0].claims["authorization_details"] = []any{object{"type": capabilityType, "tools": object{
				"read": object{"path": object{"constraint_type": "one_of", "values": []any{"/q1"}}}, "search": object{},
			}}}
			f.links[0].raw = strings.Replace(payload(f), c.old, c.new, 1)
		}, c.code)
	}
}

// TestATK39_NumbersAreExact: neither a bound nor an argument is rounded.
func TestATK39_NumbersAreExact(t *testing.T) {
	limit := `{"constraint_type":"range","max":9007199254740992}`
	for _, n := range []string{"9007199254740993", "9007199254740992.5", "9007199254740992.0000000000001"} {
		deny(t, "ATK-39 "+n, 0, func(f *forgery) {
			f.links[0].tools(object{"pay": object{"amount": json.RawMessage(limit)}})
			f.Operation, f.Arguments = "pay", `{"amount":`+n+`}`
		}, powerbox.CodeArgumentConstraint, CodeProofArguments)
	}
	for _, n := range []string{"NaN", "Infinity", "-0", "1e999", "0x10", `1_000`} {
		deny(t, "ATK-39 "+n, 0, func(f *forgery) {
			f.Arguments = `{"amount":` + n + `}`
			f.proof.claims["hta"] = object{}
		}, CodeMalformed)
	}
}

// TestATK55_CapsComeFirst measures by counting, not by time: tokens that
// are too large or too deep are refused before anything is decoded.
func TestATK55_CapsComeFirst(t *testing.T) {
	huge := strings.Repeat("A", MaxTokenBytes+1)
	for name, c := range map[string]struct {
		tokens []string
		code   powerbox.Code
	}{
		"a huge token":        {[]string{huge}, CodeTooLarge},
		"a huge chain":        {slices.Repeat([]string{huge[:MaxTokenBytes]}, 5), CodeTooLarge},
		"eighteen tokens":     {slices.Repeat([]string{"x"}, 18), CodeTooDeep},
		"a huge second token": {[]string{"x", huge}, CodeTooLarge},
	} {
		allocations := testing.AllocsPerRun(10, func() {
			if _, err := ParseChain(c.tokens); codeOf(err) != c.code {
				t.Errorf("ATK-55 %s: %v", name, err)
			}
		})
		if allocations > 12 {
			t.Errorf("ATK-55 %s: %v allocations for a refusal", name, allocations)
		}
	}
	nested := strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200)
	deny(t, "ATK-55 deep JSON", 0, func(f *forgery) { f.links[0].claims["x"] = json.RawMessage(nested) }, CodeMalformed)
	deny(t, "ATK-55 many values", 0, func(f *forgery) {
		f.links[0].tools(object{"read": object{"path": object{"constraint_type": "one_of", "values": slices.Repeat([]any{1}, powerbox.MaxConstraintNodes+1)}}})
	}, CodeConstraint)
}

// TestATK23_RevocationOfEveryLink revokes each by an id that no holder can choose.
func TestATK23_RevocationOfEveryLink(t *testing.T) {
	f := newFamily(t, 3)
	u, err := ParseChain(f.tokens)
	if err != nil {
		t.Fatal(err)
	}
	v := f.verify(t)
	for i, id := range v.IDs() {
		_, err := u.Verify(f.anchors, Options{Now: at, Revoked: func(s string) bool { return s == id }})
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != CodeRevoked || refused.Link != max(i-1, 0) {
			t.Errorf("id %d: %v", i, err)
		}
	}
	// A holder that names its token like another party's does not get it revoked.
	if _, err := u.Verify(f.anchors, Options{Now: at, Revoked: func(s string) bool { return s == v.ID() }}); err != nil {
		t.Error(err)
	}
	if _, err := u.Verify(f.anchors, Options{Now: at}); codeOf(err) != CodeRevocationUnknown {
		t.Errorf("without a list: %v", err)
	}
	if _, err := u.UnsafeTrustRoot(quiet(at.Add(24 * time.Hour))); codeOf(err) != CodeExpired {
		t.Errorf("a day later: %v", err)
	}
}
