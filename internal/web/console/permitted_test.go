package console

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// mailbox answers for an agent that has one capability without a use, one with a use of half
// of it, and one denied call that a grant can follow.
func mailbox(t *testing.T) http.HandlerFunc {
	t.Helper()
	at := time.Date(2027, 1, 15, 11, 0, 0, 0, time.UTC)
	used := evidence.Record{ID: "rec_used", AgentID: "mail", Time: at, ActionType: "a2a.message.send", Decision: evidence.Allow, Intent: evidence.Intent{Operation: "mail/box/list"}}
	used.Details.Capability, used.Details.Requester, used.Details.Recorder, used.Details.Exercised = "cap_used", "desk", "test", []string{"mail/box/list"}
	denied := evidence.Record{ID: "rec_denied", AgentID: "mail", Time: at, ActionType: "a2a.message.send", Decision: evidence.Deny, Intent: evidence.Intent{Operation: "mail/box/send"}}
	denied.Details.Requester, denied.Details.Recorder, denied.Details.Principal, denied.Details.Attempt = "desk", "test", "user:alice", "invocation"
	denied.Details.Gate, denied.Details.Reasons = &evidence.Gate{}, []evidence.Reason{{Code: "capability_required"}}
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(r evidence.Record) []json.RawMessage {
		s, err := evidence.Seal(evidence.Genesis(evidence.ChainID{1}), r, signer)
		if err != nil {
			t.Fatal(err)
		}
		return []json.RawMessage{s.Bytes()}
	}
	records := map[string][]json.RawMessage{"mail": sealed(used), "": sealed(denied)} // by agent
	held := func(id string) api.CapabilityStatus {
		return api.CapabilityStatus{ID: id, Agent: "mail", Grant: "box", Principal: "user:alice", Requester: "desk", Operations: []string{"list", "send"}, Created: at, Expires: at.Add(24 * time.Hour)}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{
			"/v1/agents": []api.AgentStatus{{ID: "mail"}}, "/v1/summary": api.ActivityReport{}, "/v1/records": records[r.URL.Query().Get("agent")],
			"/v1/capabilities": []api.CapabilityStatus{held("cap_used"), held("cap_idle")},
		}[r.URL.Path]
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// TestPagesHideWhatTheVisitorMayNot shows the links and buttons that give and that take away
// to visitors whose role at the agent permits it, and to no others.
func TestPagesHideWhatTheVisitorMayNot(t *testing.T) {
	k, cookie := consoleBefore(t, "http://localhost:8700", 0, mailbox(t))
	sees := people.Given{Role: "viewer", Who: []string{"user:carol"}, Everywhere: true}
	operates := func(agent string) people.Given {
		return people.Given{Role: people.RoleOperator, Who: []string{"user:carol"}, Agents: []string{agent}}
	}
	for name, c := range map[string]struct {
		given []people.Given
		shown bool
	}{
		"a viewer":                          {[]people.Given{sees}, false},
		"an operator of the agent":          {[]people.Given{sees, operates("mail")}, true},
		"an operator of another agent":      {[]people.Given{sees, operates("files")}, false},
		"an operator of every agent":        {[]people.Given{{Role: people.RoleOperator, Who: []string{"user:carol"}, Everywhere: true}}, true},
		"a person with the role of another": {[]people.Given{sees, {Role: people.RoleOperator, Who: []string{"user:bob"}, Everywhere: true}}, false},
	} {
		k.config.Rights = func(provider.Person) people.Rights { return people.RightsOf(c.given, "user:carol", nil) }
		for path, controls := range map[string][]string{
			"/admin/live":               {`href="/admin/give/rec_denied"`},
			"/admin/evidence":           {`href="/admin/give/rec_denied"`},
			"/admin/advisor?agent=mail": {`href="/admin/capabilities/cap_used/narrow?keep=list"`, `href="/admin/revoke?target=cap_used"`, `href="/admin/revoke?target=cap_idle"`, `action="/admin/capabilities/cap_idle/keep"`},
		} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:8700"+path, nil)
			r.AddCookie(cookie)
			w := httptest.NewRecorder()
			if k.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%s: %s: HTTP %d: %s", name, path, w.Code, w.Body)
			}
			for _, control := range controls {
				if shown := strings.Contains(w.Body.String(), control); shown != c.shown {
					t.Errorf("%s: %s shows %s: %t; want %t", name, path, control, shown, c.shown)
				}
			}
		}
	}
}
