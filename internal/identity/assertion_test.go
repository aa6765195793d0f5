package identity_test

import (
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// TestATK107_OnlyConfiguredIssuersAssert: an issuer of sessions is believed for assertions only
// where the operator says so, and one of programs or a rule that names an agent never.
func TestATK107_OnlyConfiguredIssuersAssert(t *testing.T) {
	const server = "https://pb.example"
	i := newIssuer(t)
	programs := i.provider()
	programs.Programs = true
	trusted := map[string]identity.Trust{i.URL: {Lifetime: 10 * time.Minute}}
	claims := i.claims(map[string]any{
		"aud": server, "client_id": "backend", "resource": audience, "jti": "one", "exp": now.Add(5 * time.Minute).Unix(), "azp": nil,
	})
	for name, c := range map[string]struct {
		provider identity.Provider
		callers  []identity.CallerRule
		trusted  map[string]identity.Trust
		believed bool
		tenant   string
		subject  string
	}{
		"trusted for assertions":      {provider: i.provider(), trusted: trusted, believed: true},
		"trusted for sessions alone":  {provider: i.provider()},
		"an issuer of programs":       {provider: programs, trusted: trusted},
		"a subject that is an agent":  {provider: i.provider(), trusted: trusted, callers: []identity.CallerRule{{Agent: "robot", Issuer: i.URL, Claims: map[string]string{"sub": "alice"}}}},
		"a workload as subject":       {provider: i.provider(), trusted: trusted, subject: "spiffe://prod.example/job"},
		"the tenant that is meant":    {provider: i.provider(), trusted: map[string]identity.Trust{i.URL: {Tenant: "acme"}}, tenant: "acme", believed: true},
		"without the tenant":          {provider: i.provider(), trusted: map[string]identity.Trust{i.URL: {Tenant: "acme"}}},
		"of a tenant that none named": {provider: i.provider(), trusted: trusted, tenant: "acme"},
	} {
		a := authenticator(t, identity.Config{Providers: []identity.Provider{c.provider}, Callers: c.callers})
		mine := maps.Clone(claims)
		if c.subject != "" {
			mine["sub"] = c.subject
		}
		if c.tenant != "" {
			mine["tenant"] = c.tenant
		}
		raw := oidctest.Sign(t, jose.RS256, i.rsa, map[jose.HeaderKey]any{"kid": "one", "typ": identity.AssertionType}, mine)
		got, err := a.Assertion(t.Context(), raw, server, c.trusted, now)
		if (err == nil) != c.believed {
			t.Errorf("ATK-107 %s: %+v, %v; want believed %v", name, got, err, c.believed)
		}
		if c.believed && (got.Caller.Principal != "user:alice" || len(got.Caller.Groups) != 1 || len(got.Caller.Roles) != 1 || got.Client != "backend" || !got.Caller.SessionExpires.IsZero()) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
