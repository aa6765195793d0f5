package registry

import (
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Authorization is what a card says under the authorization extension, known before
// any session (EXT-40). What it does not say, or not in the right type, is not there.
type Authorization struct {
	Model           string   `json:"model"`
	ScopeGrammar    string   `json:"scope_grammar,omitempty"`
	AcceptedScopes  []string `json:"accepted_scopes,omitempty"`
	RequiredScopes  []string `json:"required_scopes,omitempty"`
	Delegation      bool     `json:"delegation_supported"`
	MaxDepth        int      `json:"max_delegation_depth"`
	Evidence        bool     `json:"evidence_required"`
	EvidenceFormats []string `json:"evidence_formats,omitempty"`
	Compliance      []string `json:"compliance,omitempty"`
	Lifetime        int      `json:"credential_lifetime_seconds,omitempty"`
	Revocation      string   `json:"revocation_endpoint,omitempty"`
}

// maxListed bounds every list that is read from a card.
const maxListed = 1024

// extension returns the params of an extension of a card.
func extension(card powerbox.Value, uri string) (powerbox.Value, bool) {
	capabilities, _ := card.Get("capabilities")
	extensions, _ := capabilities.Get("extensions")
	all, _ := extensions.Elements()
	for _, e := range all {
		if name, _ := e.Get("uri"); name.Equal(powerbox.String(uri)) {
			params, _ := e.Get("params")
			return params, true
		}
	}
	return powerbox.Value{}, false
}

// authorizationOf reads the parameters of the authorization extension, nil where the
// card does not speak of it.
func authorizationOf(card powerbox.Value) *Authorization {
	params, ok := extension(card, a2a.AuthorizationURI)
	if !ok {
		return nil
	}
	a := &Authorization{
		Model: text(params, "authorization_model"), ScopeGrammar: text(params, "scope_grammar"),
		AcceptedScopes: texts(params, "accepted_scopes"), RequiredScopes: texts(params, "required_scopes"),
		Delegation: flag(params, "delegation_supported"), MaxDepth: count(params, "max_delegation_depth"), Evidence: flag(params, "evidence_required"),
		EvidenceFormats: texts(params, "evidence_formats"), Compliance: texts(params, "compliance"),
		Lifetime: count(params, "credential_lifetime_seconds"), Revocation: text(params, "revocation_endpoint"),
	}
	if !a.Delegation {
		a.MaxDepth = 0
	}
	return a
}

// operationsOf are the operations that a card's skills and grants map to under our
// extension.
func operationsOf(card powerbox.Value) []string {
	params, ok := extension(card, a2a.ExtensionURI)
	if !ok {
		return nil
	}
	var names []string
	skills, _ := params.Get("skills")
	mapped, _ := skills.Members()
	for _, m := range mapped[:min(len(mapped), maxListed)] {
		if name := text(m.Value, "operation"); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func text(v powerbox.Value, name string) string {
	member, _ := v.Get(name)
	s, _ := member.Text()
	return s
}

func flag(v powerbox.Value, name string) bool {
	member, _ := v.Get(name)
	return member.Equal(powerbox.Bool(true))
}

func count(v powerbox.Value, name string) int {
	member, _ := v.Get(name)
	for n := range 17 { // the deepest chain that anybody takes, and none
		if member.Equal(powerbox.Number(powerbox.Int(int64(n)))) {
			return n
		}
	}
	return 0
}

func texts(v powerbox.Value, name string) []string {
	member, _ := v.Get(name)
	elements, _ := member.Elements()
	var out []string
	for _, e := range elements[:min(len(elements), maxListed)] {
		if s, ok := e.Text(); ok {
			out = append(out, s)
		}
	}
	return out
}
