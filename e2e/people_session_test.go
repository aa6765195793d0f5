package e2e

import (
	"net/http"
	"testing"
)

// TestATK62_AnAgentIsNotItsUser has an agent with a key, which calls with its user's
// session, take the same session to the interface of people, with and without its proof:
// it sees no question there and answers none. The user's own session does, and no agent
// takes that one.
func TestATK62_AnAgentIsNotItsUser(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		callers: "  callers:\n    - {agent: desk, client: desk}\n  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}\n",
		files:   map[string]string{"keys.json": l.jwks(t)}, policies: asking, extra: "approvals: {clients: [shell]}\n",
	})
	of := func(claims fact) string { return l.session(t, "alice", claims) }
	agent := w.caller(of(fact{}))
	id := pendingIn(t, agent.asksForReports())
	people := w.url + "/approve"
	tries := map[string]http.Header{"with its proof": agent.headers(w.url + "/v1/approvals/" + id)}
	for name, session := range map[string]string{
		"without its proof":            agent.session,
		"bound to its key":             of(fact{"aud": people, "cnf": fact{"jkt": agent.key.Public().Thumbprint()}}),
		"for the agent's own URL":      of(fact{"aud": []string{people, w.agentURL("documents")}}),
		"for what agents take as well": of(fact{"aud": []string{people, "https://agents.example.org"}}),
		"for the server":               of(fact{"aud": w.url}),
		"for the server as well":       of(fact{"aud": []string{w.url, people}}),
		"of an agent's client":         of(fact{"aud": people, "azp": "desk"}),
		"of another client":            of(fact{"azp": "other"}),
		"of a built-in user":           aliceToken,
		"that names itself a person's": of(fact{"client_id": "shell", "azp": "desk"}),
	} {
		tries[name] = http.Header{"Authorization": {"Bearer " + session}}
	}
	for name, header := range tries {
		for _, r := range [][2]string{{http.MethodGet, "/v1/approvals"}, {http.MethodGet, "/v1/approvals/" + id}, {http.MethodPost, "/v1/approvals/" + id}, {http.MethodGet, "/v1/hosts"}, {http.MethodGet, "/v1/activity"}} {
			if status := w.sends(r[0], r[1], header); status != http.StatusUnauthorized {
				t.Errorf("ATK-62 %s %s with a session %s: HTTP %d; want 401", r[0], r[1], name, status)
			}
		}
	}
	if again := pendingIn(t, agent.asksForReports()); again != id {
		t.Errorf("ATK-62 the agent has answered its own question")
	}
	for name, session := range map[string]string{"for people": of(fact{"aud": people}), "of a client of people's": of(fact{"client_id": "shell"})} {
		header := http.Header{"Authorization": {"Bearer " + session}}
		if status := w.sends(http.MethodGet, "/v1/approvals/"+id, header); status != http.StatusOK {
			t.Errorf("a person's session %s: HTTP %d; want 200", name, status)
		}
		before := len(w.documents.got())
		if a := w.caller(session).asksForReports(); a.Error == nil || len(a.Result) > 0 {
			t.Errorf("ATK-62 an agent takes a person's session %s: %s", name, a.Raw)
		}
		if n := len(w.documents.got()); n != before {
			t.Errorf("ATK-62 a person's session %s reached the agent", name)
		}
	}
	if status := w.sends(http.MethodPost, "/v1/approvals/"+id, http.Header{"Authorization": {"Bearer " + of(fact{"aud": people})}}); status != http.StatusOK {
		t.Errorf("the person answers: HTTP %d; want 200", status)
	}
}

// sends a request without a body to the server, with a header, and returns the status.
func (w *town) sends(method, path string, header http.Header) int {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header.Clone()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
