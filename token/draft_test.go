package token

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestDraftsHaveNumbers(t *testing.T) {
	for _, d := range []Draft{Draft01, Draft02} {
		if got, ok := ParseDraft(d.String()); !ok || got != d {
			t.Errorf("draft %s is read as %s, %t", d, got, ok)
		}
	}
	if _, ok := ParseDraft("03"); ok {
		t.Error("draft 03 is read")
	}
	if (Unverified{}).Draft() != Draft02 || (Verified{}).Draft() != Draft02 || (Verified{}).Audiences() != nil {
		t.Error("no chain has a draft other than the newest, or audiences")
	}
}

func TestWithoutAChainNoProofIsSigned(t *testing.T) {
	f := newFamily(t, 0)
	p := Proof{ID: "p", IssuedAt: at, Operation: "read", Arguments: powerbox.Object()}
	if _, err := (Unverified{}).SignProof(f.holders[0], p); codeOf(err) != CodeEmptyChain {
		t.Errorf("of an unverified chain: %v", err)
	}
	if _, err := (Verified{}).SignProof(f.holders[0], p); codeOf(err) != CodeEmptyChain {
		t.Errorf("of a verified chain: %v", err)
	}
	if _, err := SignProof([]string{"x"}, f.holders[0], p); codeOf(err) != CodeMalformed {
		t.Errorf("of a malformed chain: %v", err)
	}
	if proof, err := SignProof(f.tokens, f.holders[0], p); err != nil || proof == "" {
		t.Errorf("of a chain: %v", err)
	}
}

func TestAudiencesOfAChain(t *testing.T) {
	for _, audience := range [][]string{nil, {"https://a.example"}, {"https://a.example", "https://b.example"}} {
		text, err := root(t, func(r *Root) { r.Audience = audience })
		if err != nil {
			t.Fatal(err)
		}
		u, err := ParseChain([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if got := (Verified{chain: &chain{links: u.links}}).Audiences(); !slices.Equal(got, audience) {
			t.Errorf("audiences %q of %q", got, audience)
		}
	}
}

func TestForeignHeadersHaveNoB64(t *testing.T) {
	if err := checkForeign(value(t, `{"b64":false}`), "JWT", false); codeOf(err) != CodeMalformed {
		t.Errorf("a header with b64: %v", err)
	}
}

func TestLimitsOfWhatATokenCanSay(t *testing.T) {
	c := tools(t, `{"read": {}}`)[0]
	fields := make([]powerbox.Field, powerbox.MaxArguments)
	limit, err := powerbox.ParseConstraint(value(t, `{"constraint_type":"exact","value":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range fields {
		fields[i] = powerbox.Field{Name: fmt.Sprint("a", i), Constraint: limit, Required: true}
	}
	if c.Shape, err = powerbox.NewShape(powerbox.RestAny, fields...); err != nil {
		t.Fatal(err)
	}
	if why := inexpressible(c, Draft02); why != "has too many arguments" {
		t.Errorf("%d arguments and others: %q", len(fields), why)
	}
	r := claimReader{object: value(t, `{}`)}
	if got := r.textOrTexts("aud"); got != nil || codeOf(r.err) != CodeMissingClaim {
		t.Errorf("no audience is read as %q, %v", got, r.err)
	}
}
