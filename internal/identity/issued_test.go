package identity_test

import (
	"slices"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// issuedBy is the server itself as an issuer of access tokens, which has the key of an issuer.
func issuedBy(t *testing.T, i *issuer) *identity.Provider {
	t.Helper()
	return &identity.Provider{Issuer: "https://pb.example", JWKS: jwks(t, i.rsa.Public(), "one")}
}

// TestAccessTokenIsForOneResource: an access token of the server is for the one agent in its
// audience, names its capabilities and its client, and is of its own type. A token of a provider
// stands for no capability, whatever it names.
func TestAccessTokenIsForOneResource(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Issued: issuedBy(t, i)})
	good := map[string]any{"iss": "https://pb.example", "azp": nil, "client_id": "inspector", "sub": "user:alice", "scope": "notes:read", "powerbox_capabilities": []string{"cap_1", "cap_2"}}
	tokenOf := func(typ any, differs map[string]any) string {
		claims := i.claims(good)
		for name, v := range differs {
			if claims[name] = v; v == nil {
				delete(claims, name)
			}
		}
		header := map[jose.HeaderKey]any{"kid": "one"}
		if typ != nil {
			header["typ"] = typ
		}
		return oidctest.Sign(t, jose.RS256, i.rsa, header, claims)
	}
	got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+tokenOf("at+jwt", nil)), audience, now)
	if err != nil || !consumed || got.Principal != "user:alice" || got.Holder.ID != identity.ClientHolder("https://pb.example", "inspector") || !slices.Equal(got.Token.Capabilities, []string{"cap_1", "cap_2"}) || got.Token.Scope != "notes:read" {
		t.Fatalf("%+v, consumed %v, %v", got, consumed, err)
	}
	const another = "https://pb.example/agents/mail"
	for name, c := range map[string]struct {
		typ     any
		differs map[string]any
	}{
		"for another agent": {"at+jwt", map[string]any{"aud": another}}, "for the server": {"at+jwt", map[string]any{"aud": "https://pb.example"}}, "for nothing": {"at+jwt", map[string]any{"aud": nil}},
		"for a list": {"at+jwt", map[string]any{"aud": []string{audience}}}, "for two": {"at+jwt", map[string]any{"aud": []string{audience, another}}}, "for a longer URL": {"at+jwt", map[string]any{"aud": audience + "/"}},
		"of another type": {"JWT", nil}, "of no type": {nil, nil}, "of a longer type": {"application/at+jwt", nil},
		"without capabilities": {"at+jwt", map[string]any{"powerbox_capabilities": nil}}, "with an empty list": {"at+jwt", map[string]any{"powerbox_capabilities": []string{}}}, "with an empty id": {"at+jwt", map[string]any{"powerbox_capabilities": []string{"cap_1", ""}}},
		"without a client": {"at+jwt", map[string]any{"client_id": nil}}, "that has ended": {"at+jwt", map[string]any{"exp": now.Unix()}},
	} {
		got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+tokenOf(c.typ, c.differs)), audience, now)
		if err == nil || !consumed || got.Principal != "" || !got.Token.IsZero() {
			t.Errorf("a token %s: %+v, consumed %v, %v; want it refused", name, got, consumed, err)
		}
	}
	of, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, map[string]any{"powerbox_capabilities": []string{"cap_1"}, "scope": "notes:read"})), audience, now)
	if err != nil || !of.Token.IsZero() {
		t.Errorf("a token of a provider: %+v, %v", of, err)
	}
}
