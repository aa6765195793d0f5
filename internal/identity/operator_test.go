package identity_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
)

// TestOnlyTheSessionOfPowerboxLoginOperates shows tokens of one provider to the operators'
// interface: of powerbox login, of the pages, of agents, bound to keys, and beside proofs.
func TestOnlyTheSessionOfPowerboxLoginOperates(t *testing.T) {
	i := newIssuer(t)
	const client = "powerbox-login"
	a := authenticator(t, identity.Config{
		Providers: []identity.Provider{i.provider()},
		Callers:   []identity.CallerRule{{Agent: "orchestrator", Client: "orchestrator"}},
		People:    identity.People{Audience: "https://pb.example/approve", Clients: []string{client, "pages"}, Agents: "https://pb.example/agents/", OperatorsIssuer: i.URL, OperatorsClient: client},
	})
	mine := map[string]any{"aud": client, "azp": nil, "auth_time": now.Add(-time.Minute).Unix()}
	with := func(differs map[string]any) string {
		all := map[string]any{}
		for _, from := range []map[string]any{mine, differs} {
			for name, v := range from {
				all[name] = v
			}
		}
		return "Bearer " + i.token(t, all)
	}
	for name, headers := range map[string][]string{
		"of the pages":                   {"Authorization", with(map[string]any{"aud": "pages", "azp": "pages"})},
		"of people who approve":          {"Authorization", with(map[string]any{"aud": "https://pb.example/approve"})},
		"for an agent":                   {"Authorization", with(map[string]any{"aud": audience, "azp": client})},
		"for an agent, too":              {"Authorization", with(map[string]any{"aud": []string{client, audience}})},
		"for a gateway, too":             {"Authorization", with(map[string]any{"aud": []string{client, "https://gateway.example"}})},
		"that another client got":        {"Authorization", with(map[string]any{"azp": "orchestrator"})},
		"that another client got, typed": {"Authorization", with(map[string]any{"client_id": "other"})},
		"bound to a key":                 {"Authorization", with(map[string]any{"cnf": map[string]any{"jkt": "x"}})},
		"that has expired":               {"Authorization", with(map[string]any{"exp": now.Add(-time.Minute).Unix()})},
		"of another issuer":              {"Authorization", with(map[string]any{"iss": "https://other.example"})},
		"with a proof":                   {"Authorization", with(nil), "DPoP", "x"},
		"that is no token":               {"Authorization", "Bearer operator"},
		"that is missing":                nil,
	} {
		if who, err := a.Operator(request(t, headers...), now); err == nil || who.Principal != "" {
			t.Errorf("a session %s operates as %q", name, who.Principal)
		}
	}
	for name, c := range map[string]struct {
		differs map[string]any
		login   time.Time
	}{
		"of now":                         {nil, now.Add(-time.Minute)},
		"with azp":                       {map[string]any{"azp": client}, now.Add(-time.Minute)},
		"that does not say when it was":  {map[string]any{"auth_time": nil}, time.Time{}},
		"that was refreshed an hour ago": {map[string]any{"auth_time": now.Add(-time.Hour).Unix()}, now.Add(-time.Hour)},
	} {
		who, err := a.Operator(request(t, "Authorization", with(c.differs)), now)
		if err != nil || who.Principal != "user:alice" || !who.Authenticated.Equal(c.login) {
			t.Errorf("a login %s: %+v, %v; want user:alice since %v", name, who, err, c.login)
		}
	}
	off := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	if who, err := off.Operator(request(t, "Authorization", with(map[string]any{"aud": ""})), now); err == nil {
		t.Errorf("without a client, %q operates", who.Principal)
	}
}
