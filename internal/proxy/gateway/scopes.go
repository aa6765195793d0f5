package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// schemeScopes is the scheme of an Authorization header that holds a scope token
// (EXT-5): the token's JSON in base64url, and after a dot, where there are any,
// the links. Such a header is ours and goes no further.
const schemeScopes = "A2A-Capability"

// maxScopeHeader is the budget of a header. A longer token, as with ML-DSA-87,
// has its place in the metadata of the request.
const maxScopeHeader = 8 << 10

// Scopes are the parameters of the authorization extension, which the card shows
// and the gateway enforces (EXT-1, EXT-42).
type Scopes struct {
	Model      string
	Required   []string             // scopes, as the card has them
	Operations []powerbox.Operation // the same as operations, which every call needs
	Delegation bool
	MaxDepth   int           // of a chain of links
	Evidence   bool          // callers must ask for the extension
	Lifetime   time.Duration // longest of a token or link (EXT-39)
	Revocation string        // URL of the revocation endpoint
	Accepted   []string      // scopes that are accepted (EXT-40)
	Formats    []string      // of evidence that can be had
	Compliance []string      // labels, in the operator's words
}

// scopeGrammar is the grammar of scopes: names parted by dots, of which a prefix
// holds for all scopes below it (EXT-7).
const scopeGrammar = "dotted"

// modelCapability is the model in which nothing is allowed without a capability.
const modelCapability = "CAPABILITY"

// byPolicy reports whether a caller needs no capability for what policy allows
// its role or attributes (EXT-2).
func (s Scopes) byPolicy() bool { return s.Model != "" && s.Model != modelCapability }

// links is how many links a chain may have.
func (s Scopes) links() int {
	if !s.Delegation {
		return 0
	}
	return s.MaxDepth
}

// params are the parameters as the card has them, nil where it does not speak of
// the extension.
func (s Scopes) params() []byte {
	if s.Model == "" {
		return nil
	}
	required := make([]powerbox.Value, len(s.Required))
	for n, scope := range s.Required {
		required[n] = powerbox.String(scope)
	}
	number := func(n int64) powerbox.Value { return powerbox.Number(powerbox.Int(n)) }
	members := []powerbox.Member{
		{Name: "authorization_model", Value: powerbox.String(s.Model)},
		{Name: "delegation_supported", Value: powerbox.Bool(s.links() > 0)},
		{Name: "max_delegation_depth", Value: number(int64(s.links()))},
		{Name: "evidence_required", Value: powerbox.Bool(s.Evidence)},
		{Name: "credential_lifetime_seconds", Value: number(int64(s.Lifetime / time.Second))},
	}
	for _, list := range []struct {
		name string
		of   []string
	}{{"accepted_scopes", s.Accepted}, {"evidence_formats", s.Formats}, {"compliance", s.Compliance}} {
		if len(list.of) == 0 {
			continue
		}
		values := make([]powerbox.Value, len(list.of))
		for n, text := range list.of {
			values[n] = powerbox.String(text)
		}
		members = append(members, powerbox.Member{Name: list.name, Value: powerbox.List(values...)})
	}
	if len(s.Accepted) > 0 {
		members = append(members, powerbox.Member{Name: "scope_grammar", Value: powerbox.String(scopeGrammar)})
	}
	if len(required) > 0 { // readers differ in whether empty members stay, and so in the signed bytes
		members = append(members, powerbox.Member{Name: "required_scopes", Value: powerbox.List(required...)})
	}
	if s.Revocation != "" {
		members = append(members, powerbox.Member{Name: "revocation_endpoint", Value: powerbox.String(s.Revocation)})
	}
	return powerbox.Object(members...).AppendJSON(nil)
}

// scopeCredential returns the credentials of a header under that scheme, whatever stands
// behind its name: anything that is no space is part of them, and they are refused.
func scopeCredential(h http.Header) (string, bool) {
	value := h.Get("Authorization")
	end := strings.IndexFunc(value, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		end = len(value)
	}
	return strings.Trim(value[end:], " "), strings.EqualFold(value[:end], schemeScopes)
}

// scopesPresented collects scope tokens: of the header, of the metadata. Links in
// the metadata without a token there continue the header's. What cannot be read
// is presented all the same, and refused on record.
func scopesPresented(h http.Header, m *a2a.Members) []gate.Presented {
	var inHeader, inMetadata *gate.PresentedScopes
	if credentials, ok := scopeCredential(h); ok {
		inHeader = readScopes(credentials)
	}
	var links []byte
	if m != nil && m.Links != nil {
		links = m.Links.AppendJSON(nil)
	}
	switch {
	case m != nil && m.ScopeToken != nil:
		inMetadata = &gate.PresentedScopes{Token: m.ScopeToken.AppendJSON(nil), Links: links}
	case links != nil && inHeader != nil && inHeader.Links == nil:
		inHeader.Links = links
	case links != nil:
		inMetadata = &gate.PresentedScopes{Links: links} // links of no token
	}
	var out []gate.Presented
	for _, p := range []*gate.PresentedScopes{inHeader, inMetadata} {
		if p != nil {
			out = append(out, gate.Presented{Scopes: p})
		}
	}
	return out
}

func readScopes(credentials string) *gate.PresentedScopes {
	p := &gate.PresentedScopes{}
	if len(credentials) > maxScopeHeader {
		return p
	}
	text, links, linked := strings.Cut(credentials, ".")
	strict := base64.RawURLEncoding.Strict()
	var err error
	if p.Token, err = strict.DecodeString(text); err != nil {
		return &gate.PresentedScopes{}
	}
	if linked {
		if p.Links, err = strict.DecodeString(links); err != nil {
			return &gate.PresentedScopes{}
		}
	}
	return p
}
