package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// scopedPolyglot is scoped with an address for gRPC.
func scopedPolyglot(t *testing.T, l login, agent *stock) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), documents: agent, grpc: map[string]string{}}
	w.write("keys.json", l.jwks(t))
	w.guard("scoped", scopedIdentity)
	return w
}

// shownAs is what a client shows of a denial: the sentence in every case, and
// our code but where the client throws it away.
func shownAs(t *testing.T, client string, on wire, line, sentence, code string) {
	t.Helper()
	if !strings.Contains(strings.ToLower(line), "error") || !strings.Contains(line, sentence) {
		t.Errorf("got %s; want the error %q", line, sentence)
	}
	switch {
	case client == "a2a command": // prints the sentence alone
	case client == "JavaScript SDK" && on == wire{overREST, "1.0"}:
		// Keeps the details of errors that it knows, and otherwise the headers.
		if !strings.Contains(line, `"status":403`) || !strings.Contains(line, `"decision":"rec_`) {
			t.Errorf("got %s; want 403 and the decision", line)
		}
	default:
		if !strings.Contains(line, code) {
			t.Errorf("got %s; want the code %s", line, code)
		}
	}
}

// TestSEP18_StockClientsInScopedOnEveryBinding gives every client one token, and
// nothing to change but the URL: one skill is allowed and the other refused. In
// gRPC, which has no URL of ours, the client names the skill, and its identity
// decides.
func TestSEP18_StockClientsInScopedOnEveryBinding(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		l := newLogin(t)
		agent := newPolyglot(t, on, unhindered())
		w := scopedPolyglot(t, l, agent)
		reporter, other := sent{bearer: l.token(t, "alice", "reporter-app")}, sent{bearer: l.token(t, "alice", "other-app")}
		for name, say := range stockClients(t, on) {
			t.Run(name, func(t *testing.T) {
				w.scopedAllows(t, on, say, reporter)
				w.scopedRefuses(t, on, name, say, reporter, other)
			})
		}
	})
}

// scopedAllows makes the calls that the reporter may make.
func (w *town) scopedAllows(t *testing.T, on wire, say stockClient, reporter sent) {
	t.Helper()
	w.documents.forget()
	may := w.agentURL("documents")
	if on.binding != overGRPC {
		may += "/skills/search_documents"
	}
	allowed := say(t, may, reporter, [][]string{{"send", "open"}, {"get", "$task"}, {"stream", "work"}, {"get", "$task"}, {"send", "open"}, {"cancel", "$task"}, {"card"}})
	for n, line := range allowed {
		if strings.Contains(line, `"error"`) || strings.HasPrefix(line, "Error") {
			t.Errorf("allowed call %d: %s\n%s", n, line, w.log)
		}
	}
	for _, state := range []string{"INPUT_REQUIRED", "COMPLETED", "CANCELED"} {
		if got := strings.Join(allowed, ""); !strings.Contains(got, state) {
			t.Errorf("the allowed calls: no %s in %s", state, got)
		}
	}
	for _, r := range w.documents.got() {
		if r.header.Get("Authorization") != "" || r.header.Get("Powerbox-Context") == "" {
			t.Errorf("ATK-35: the agent received %v", r.header)
		}
	}
}

// scopedRefuses makes the calls that the reporter, and another application, may
// not make.
func (w *town) scopedRefuses(t *testing.T, on wire, client string, say stockClient, reporter, other sent) {
	t.Helper()
	w.documents.forget()
	whole, commands := w.agentURL("documents"), [][]string{{"send", "hello"}, {"stream", "hello"}, {"card"}}
	if on.version != "0.3" { // which has no list, and clients do not ask for it
		commands = append(commands, []string{"list"})
	}
	mayNot, remove := whole+"/skills/delete_document", commands[:2]
	if on.binding == overGRPC {
		mayNot, remove = whole, [][]string{{"skill", "delete_document", "{}"}}
	}
	refused := append(say(t, mayNot, reporter, remove), say(t, whole, other, commands)...)
	if len(refused) != len(remove)+len(commands) {
		t.Errorf("%d answers: %q", len(refused), refused)
	}
	for _, line := range refused {
		shownAs(t, client, on, line, "the calling agent's scope does not allow it", "outside_caller_scope")
	}
	if got := w.documents.got(); len(got) != 0 {
		t.Errorf("a refused call reached the agent: %s", got[0].body)
	}
	if id := recordID.FindString(refused[0]); id != "" {
		if r := w.record(id); r.Decision != "DENY" || r.Powerbox.Mode != "scoped" || r.Intent.Operation != "documents/documents:write/delete" {
			t.Errorf("the record: %+v", r)
		}
	}
}

var recordID = regexp.MustCompile(`rec_[0-9a-z]{26}`)

// requiring are the parts of a configuration under which a client of the login
// server can hold capabilities.
const requiring = scopedIdentity + "policies: [policies.cedar]\n"

// TestSEP18_StockClientsInRequire has a client present a capability by its name,
// in metadata that every SDK can send: it is allowed what that capability
// covers, and refused without it. The a2a command has no way to send it.
func TestSEP18_StockClientsInRequire(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		l := newLogin(t)
		agent := newPolyglot(t, on, unhindered())
		w := &town{t: t, dir: t.TempDir(), documents: agent, grpc: map[string]string{}}
		w.write("keys.json", l.jwks(t))
		w.write("policies.cedar", "permit(principal, action, resource);")
		w.guard("require", requiring)
		bearer := l.token(t, "alice", "reporter-app")
		h := http.Header{"Authorization": {"Bearer " + bearer}}
		held := capabilities(t, w.post(w.agentURL("documents"), rpc("a2a/capabilities/request", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "Search",
		}), h))
		if len(held) != 1 {
			t.Fatalf("granted %+v", held)
		}
		with := sent{bearer: bearer, metadata: map[string]any{extension: map[string]any{"capabilityId": held[0].ID}}}
		search, remove := []string{"skill", "search_documents", `{"query": "reports"}`}, []string{"skill", "delete_document", `{}`}
		for name, say := range stockClients(t, on) {
			t.Run(name, func(t *testing.T) {
				agent.forget()
				without := say(t, w.agentURL("documents"), sent{bearer: bearer}, [][]string{search, {"stream", "work"}, {"card"}})
				for _, line := range without {
					shownAs(t, name, on, line, "a capability is required", "capability_required")
				}
				outside := say(t, w.agentURL("documents"), with, [][]string{remove})
				if name == "a2a command" {
					return
				}
				shownAs(t, name, on, outside[0], "Capability scope violation", "operation_not_granted")
				if got := agent.got(); len(got) != 0 {
					t.Errorf("a refused call reached the agent: %s", got[0].body)
				}
				for n, line := range say(t, w.agentURL("documents"), with, [][]string{search, {"stream", "work"}}) {
					if strings.Contains(line, `"error"`) {
						t.Errorf("under the capability, answer %d: %s\n%s", n, line, w.log)
					}
				}
				if got := agent.got(); len(got) != 2 {
					t.Errorf("%d calls reached the agent; want 2", len(got))
				}
			})
		}
	})
}
