package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// SchemeScopes is the scheme of an Authorization header that holds a scope token
// (EXT-5): the token's JSON in base64url, and after a dot, where there are any,
// the links. Such a header is ours and goes no further.
const SchemeScopes = "A2A-Capability"

// maxScopeHeader is the budget of a header. What is longer, as with ML-DSA-87,
// has its place in the metadata of the request.
const maxScopeHeader = 8 << 10

// scopeCredential returns the credentials of a header under that scheme.
func scopeCredential(h http.Header) (string, bool) {
	scheme, credentials, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.Trim(credentials, " "), strings.EqualFold(scheme, SchemeScopes)
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
