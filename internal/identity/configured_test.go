package identity_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
)

const configured = `
identity:
  providers:
    - {issuer: https://a.example, audience: [https://pb.example], jwks_file: keys.json, roles_claim: /realm/roles, attributes: [x]}
    - {issuer: https://b.example, jwks_url: https://b.example/keys, principal: "b:{sub}"}
  callers: [{agent: one, key: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}, {agent: two, spiffe: spiffe://pb.example/two}]
  dev: [{name: alice, token: alice-token, groups: [g], roles: [r]}]
defaults: {proof_window: 20s}
`

func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load("powerbox.yaml", func(string) ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigured(t *testing.T) {
	keys := []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	read := func(name string) ([]byte, error) {
		if name != "keys.json" {
			return nil, fs.ErrNotExist
		}
		return keys, nil
	}
	got, err := identity.Configured(loadText(t, configured), identity.Dependencies{Read: read, Dev: true, Started: now})
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Config{
		Providers: []identity.Provider{
			{Issuer: "https://a.example", Audiences: []string{"https://pb.example"}, JWKS: keys, Principal: "user:{sub}", GroupsClaim: "groups", RolesClaim: "/realm/roles", Attributes: []string{"x"}, MaximumLifetime: 24 * time.Hour},
			{Issuer: "https://b.example", JWKSURL: "https://b.example/keys", Principal: "b:{sub}", GroupsClaim: "groups", RolesClaim: "roles", MaximumLifetime: 24 * time.Hour},
		},
		Callers:     []identity.CallerRule{{Agent: "one", Key: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, {Agent: "two", SPIFFE: "spiffe://pb.example/two"}},
		Dev:         []identity.DevUser{{Name: "alice", Token: "alice-token", Groups: []string{"g"}, Roles: []string{"r"}}},
		People:      identity.People{Audience: "http://127.0.0.1:8700/approve", Agents: "http://127.0.0.1:8700/agents/"},
		ProofWindow: 20 * time.Second, Started: now,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(identity.Config{}, "Fetch")); diff != "" {
		t.Error(diff)
	}
}

func TestConfiguredRefuses(t *testing.T) {
	missing := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	c := loadText(t, configured)
	if _, err := identity.Configured(c, identity.Dependencies{Read: missing, Started: now}); err == nil || !strings.Contains(err.Error(), "serve --dev") {
		t.Errorf("err = %v; want built-in users refused without --dev", err)
	}
	if _, err := identity.Configured(c, identity.Dependencies{Read: missing, Dev: true, Started: now}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v; want the key set that is not there", err)
	}
}
