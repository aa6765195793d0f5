package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// TokenType is the typ of an access token (RFC 9068). This server gives it to nothing else.
const TokenType = "at+jwt"

// ClaimCapabilities is the claim that names the capabilities that an access token of this
// server stands for, and [ClaimScope] has the same in the client's words.
const (
	ClaimCapabilities = "powerbox_capabilities"
	ClaimScope        = "scope"
)

// addIssued believes the access tokens of this server. They name principals as they are,
// so no provider's can be taken for them: the issuer decides.
func (a *Authenticator) addIssued(c *Provider) error {
	if c == nil {
		return nil
	}
	if a.providers[c.Issuer] != nil {
		return fmt.Errorf("%q is this server's own URL and an issuer of sessions; remove it from identity.providers", c.Issuer)
	}
	own := *c
	own.Principal = "{sub}"
	var err error
	a.issued, err = newProvider(own, nil, true)
	return err
}

// ClientHolder is the holder that an OAuth client of this server is.
func ClientHolder(issuer, client string) string { return "client:" + issuer + "#" + client }

// token believes an access token of this server that is for the audience alone.
func (p *provider) token(ctx context.Context, u unverified, audience string, now time.Time) (session, error) {
	if typ := textMember(u.header, "typ"); !strings.EqualFold(typ, TokenType) {
		return session{}, refuse(CodeType, "the token is of this server and is no access token")
	}
	if aud, _ := u.claims.Get("aud"); !aud.Equal(powerbox.String(audience)) {
		return session{}, refuse(CodeClaim, "the token is for another resource than %s; authorize for this one", audience)
	}
	s, err := p.verify(ctx, u, now)
	if err != nil {
		return session{}, err
	}
	ids, err := listClaim(u.claims, ClaimCapabilities)
	if err != nil || len(ids) == 0 || slices.Contains(ids, "") || s.client == "" {
		return session{}, refuse(CodeClaim, "the token names no capabilities")
	}
	s.caller.Token = Token{Capabilities: ids, Scope: textMember(u.claims, ClaimScope)}
	return s, nil
}
