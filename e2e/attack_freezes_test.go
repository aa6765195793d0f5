package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// TestATK162_OperatorsDoNotFreezeAdministrators has an operator of every agent freeze people. A
// freeze ends their login, too, so that no administrator would be left to take the role from a
// hijacked operator.
func TestATK162_OperatorsDoNotFreezeAdministrators(t *testing.T) {
	onStores(t, tryATK162OperatorsDoNotFreezeAdministrators)
}

func tryATK162OperatorsDoNotFreezeAdministrators(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		files:   map[string]string{"keys.json": l.jwks(t)},
		callers: "  providers: [{issuer: \"https://login.example.org\", jwks_file: keys.json, groups_claim: groups}]\n",
		extra: `operators:
  login: {issuer: "https://login.example.org", client_id: powerbox-login}
  roles:
    - {role: administrator, who: ["user:alice", "group:admins"]}
    - {role: administrator, who: ["user:lea"], agents: [documents]}
    - {role: operator, who: ["user:odo"]}
`,
	})
	w.client = http.DefaultClient
	asks := func(user, method, path, body string, groups ...string) (int, string) {
		t.Helper()
		now := time.Now()
		p := tenants{town: w, tokens: map[string]string{user: oidctest.Sign(t, jose.ES256, l.key, map[jose.HeaderKey]any{"kid": "one"}, map[string]any{
			"iss": "https://login.example.org", "aud": "powerbox-login", "sub": user, "groups": append([]string{}, groups...), "iat": now.Unix(), "auth_time": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		})}}
		return p.answered(user, method, path, body)
	}
	freezes := func(by, target string, want int, groups ...string) {
		t.Helper()
		if status, said := asks(by, http.MethodPost, "/v1/freezes", `{"target":"`+target+`","reason":"test"}`, groups...); status != want {
			t.Errorf("ATK-162 %s freezes %s: HTTP %d %s; want %d", by, target, status, said, want)
		}
	}
	admits := func(user string, want int, groups ...string) {
		t.Helper()
		if status, said := asks(user, http.MethodGet, "/v1/whoami", "", groups...); status != want {
			t.Errorf("ATK-162 %s: HTTP %d %s; want %d", user, status, said, want)
		}
	}
	w.caller(aliceToken).reports()
	admits("gina", http.StatusOK, "admins")

	freezes("odo", "user:alice", http.StatusForbidden)
	freezes("odo", pseudonymOf(t, w), http.StatusForbidden) // of alice, as the operator reads it
	freezes("odo", "user:gina", http.StatusForbidden)
	freezes("odo", "user:odo", http.StatusBadRequest) // ATK-103
	admits("alice", http.StatusOK)
	admits("gina", http.StatusOK, "admins")

	for _, other := range []string{"user:bob", "user:lea", "agent:mail"} {
		freezes("odo", other, http.StatusOK)
	}
	admits("lea", http.StatusForbidden)
	freezes("gina", "user:alice", http.StatusOK, "admins")
	admits("alice", http.StatusForbidden)
	if status, said := asks("odo", http.MethodPost, "/v1/thaws", `{"target":"user:alice","reason":"test"}`); status != http.StatusOK {
		t.Errorf("ATK-162 an operator thaws: HTTP %d %s", status, said)
	}
	admits("alice", http.StatusOK)
}

// pseudonymOf is the name of the person for whom the newest record about documents was made.
func pseudonymOf(t *testing.T, w *town) string {
	t.Helper()
	_, said := w.operates(http.MethodGet, "/v1/records?agent=documents&limit=1", nil)
	var all []struct {
		Details struct {
			Principal string `json:"principal"`
		} `json:"powerbox"`
	}
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 1 || all[0].Details.Principal == "" {
		t.Fatalf("the newest record: %v %s", err, said)
	}
	return all[0].Details.Principal
}
