package token

import "github.com/powerbox-project/powerbox"

// Draft is a version of the token draft. The header of the root fixes it for the whole
// chain and its proofs: a holder cannot change what the issuer signed.
type Draft uint8

// The drafts. The zero Draft is the one that is issued where nothing else is said.
const (
	Draft02 Draft = iota
	Draft01
)

// String returns the number of the draft, as configurations and messages have it.
func (d Draft) String() string {
	if d == Draft01 {
		return "01"
	}
	return "02"
}

// ParseDraft reads the number of a draft.
func ParseDraft(s string) (Draft, bool) {
	switch s {
	case "01":
		return Draft01, true
	case "02":
		return Draft02, true
	}
	return 0, false
}

// algorithmName returns what the alg of a header calls a. Draft -02 forbids EdDSA
// (section 9.12); draft -01 knows Ed25519 by that name alone.
func (d Draft) algorithmName(a Algorithm) string {
	if a == Ed25519 && d == Draft02 {
		return "Ed25519"
	}
	return a.String()
}

// draftSet has a bit for each draft.
type draftSet uint8

func (s draftSet) has(d Draft) bool { return s>>d&1 != 0 }

const (
	in02   draftSet = 1 << Draft02
	in01   draftSet = 1 << Draft01
	inBoth          = in01 | in02
)

// newest returns the draft of a root with such a header. One that fits both is of -02:
// -01 asks for no typ.
func (s draftSet) newest() Draft {
	if s.has(Draft02) {
		return Draft02
	}
	return Draft01
}

// draftsOf returns the drafts in which a token or proof of that typ may have a header
// with these members. Ed25519 is a name of -02, EdDSA one of -01; ES256 is in both, but
// -02 demands the typ (section 3.5).
func draftsOf(alg string, header powerbox.Value, typ string) (draftSet, error) {
	t, present := header.Get("typ")
	name, _ := t.Text()
	exact := name == typ
	if present && !exact && name != "JWT" {
		return 0, refuse(CodeType, "header: typ is %s; want %q", t, typ)
	}
	switch {
	case alg == "EdDSA":
		return in01, nil
	case exact && alg == "Ed25519":
		return in02, nil
	case exact:
		return inBoth, nil
	case alg == "Ed25519":
		return 0, refuse(CodeType, "header: has alg Ed25519 without typ %q", typ)
	}
	return in01, nil
}

// mustBe refuses a header of another draft than that of the chain.
func (h header) mustBe(d Draft) error {
	if h.drafts.has(d) {
		return nil
	}
	return refuse(CodeMixedDrafts, "header: alg and typ are not those of draft -%s, of which the root is; want alg %s or ES256",
		d, d.algorithmName(Ed25519))
}
