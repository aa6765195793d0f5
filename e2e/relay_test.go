package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
)

// sink is where a client has events posted to.
type sink struct {
	url    string
	status int
	events chan received
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{status: http.StatusOK, events: make(chan received, 64)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.events <- received{body, r.Header.Clone()}
		w.WriteHeader(s.status)
		_, _ = w.Write([]byte("what the client's server says is no business of the agent's"))
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/hook"
	return s
}

// next is the next event that is about a task.
func (s *sink) next(t *testing.T, task string) received {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case e := <-s.events:
			if strings.Contains(string(e.body), task) {
				return e
			}
		case <-deadline:
			t.Fatalf("no event about task %q was posted", task)
		}
	}
}

// relaying is a town whose documents agent posts events, through the gateway.
func relaying(t *testing.T, on wire, push string) (*town, *caller, granted) {
	t.Helper()
	w := start(t, options{on: on, agent: "    push: " + push + "\n    enforces: context", stock: pushing()})
	alice := w.caller(aliceToken)
	return w, alice, alice.pushes()
}

// pushing are the options of an agent that posts events.
func pushing() []a2asrv.RequestHandlerOption {
	return []a2asrv.RequestHandlerOption{a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true}))}
}

// pushes asks for the right to have events posted.
func (c *caller) pushes() granted {
	c.w.t.Helper()
	return c.request("documents", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "p", "push": true,
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})[0]
}

const relayHere = `{private: true, hosts: ["127.0.0.1"], relay: true}`

func (s *sink) config(on wire, more map[string]any) map[string]any {
	authentication := map[string]any{"scheme": "Bearer", "credentials": "the-clients-credentials"}
	if on.version == "0.3" {
		authentication = map[string]any{"schemes": []any{"Bearer"}, "credentials": "the-clients-credentials"}
	}
	return merged(map[string]any{"id": "c", "url": s.url, "token": "the-clients-token", "authentication": authentication}, more)
}

// registers sets a configuration for a task.
func (c *caller) registers(held granted, task string, config map[string]any) answer {
	c.w.t.Helper()
	return c.present("documents", rpc("CreateTaskPushNotificationConfig", merged(config, map[string]any{"taskId": task})),
		proven{chain: []string{held.Token}, operation: "a2a.push", arguments: map[string]any{"task": task}})
}

// TestATK17_Relay has events posted through the gateway, in every form that there
// is to ask for them: the agent never learns where they go, the client sees what
// it has set itself, and every event is on record.
func TestATK17_Relay(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, alice, held := relaying(t, on, relayHere)
		s := newSink(t)
		task, context := alice.open(held)
		w.documents.forget()
		set := alice.registers(held, task, s.config(on, nil))
		if set.Error != nil {
			t.Fatalf("%s\n%s", set.Raw, w.log)
		}
		w.hidden(t, s, "the-clients-token", "the-clients-credentials")
		seen := []answer{set}
		for _, method := range []string{"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"} {
			params := map[string]any{"taskId": task, "id": "c"}
			if strings.HasPrefix(method, "List") {
				delete(params, "id")
			}
			if on == (wire{"JSON-RPC", "0.3"}) && strings.HasPrefix(method, "List") {
				params = map[string]any{"id": task}
			}
			seen = append(seen, alice.present("documents", rpc(method, params),
				proven{chain: []string{held.Token}, operation: "a2a.push", arguments: map[string]any{"task": task}}))
		}
		for i, a := range seen {
			if !bytes.Contains(a.Raw, []byte(s.url)) || bytes.Contains(a.Raw, []byte("powerbox-push")) {
				t.Errorf("ATK-17 answer %d does not show the client's own: %s", i, a.Raw)
			}
		}
		alice.goesOn(held, task, context)
		e := s.next(t, task)
		if e.header.Get("A2A-Notification-Token") != "the-clients-token" || e.header.Get("Authorization") != "Bearer the-clients-credentials" {
			t.Errorf("the event came with %v", e.header)
		}
		w.posted(t, set, "ALLOW")
	})
}

// hidden reports whether the agent learnt anything of the client's configuration.
func (w *town) hidden(t *testing.T, s *sink, secrets ...string) {
	t.Helper()
	got := w.documents.got()
	if len(got) == 0 {
		t.Fatal("nothing reached the agent")
	}
	for _, r := range got {
		for _, what := range append(secrets, s.url) {
			if bytes.Contains(r.body, []byte(what)) {
				t.Errorf("ATK-17 the agent got %q: %q", what, r.body)
			}
		}
	}
	if !bytes.Contains(got[len(got)-1].body, []byte("/.well-known/powerbox-push/")) {
		t.Errorf("the agent got no address of ours: %q", got[len(got)-1].body)
	}
}

// goesOn sends one more message to a task.
func (c *caller) goesOn(held granted, task, context string) {
	c.w.t.Helper()
	var a answer
	eventually(c.w.t, atOnce, func() string { return string(a.Raw) + "\n" + c.w.log.String() }, func() bool {
		a = c.present("documents", about("SendMessage", map[string]any{"messageId": nonce(), "taskId": task, "contextId": context}),
			proven{chain: []string{held.Token}, operation: opMessage, arguments: map[string]any{"task": task, "context": context}})
		if a.Error != nil && !strings.Contains(string(a.Raw), "already in progress") { // the agent has not put its task down yet
			c.w.t.Fatalf("%s\n%s", a.Raw, c.w.log)
		}
		return a.Error == nil
	})
}

// posted looks for a record of an event of a registration.
func (w *town) posted(t *testing.T, set answer, decision string) recorded {
	t.Helper()
	var records []recorded
	i := -1
	eventually(t, atOnce, func() string {
		return fmt.Sprintf("no record of an event under %s says %s: %+v", set.Header.Get("Powerbox-Decision"), decision, records)
	}, func() bool {
		records = w.records("operation=a2a.push&limit=100")
		i = slices.IndexFunc(records, func(r recorded) bool {
			raw, _ := json.Marshal(r)
			return r.Decision == decision && strings.Contains(string(raw), `"a2a.push.event"`)
		})
		return i >= 0
	})
	return records[i]
}

// TestATK17_RelayInline asks for events in the message that begins a task, whose
// id is not known yet.
func TestATK17_RelayInline(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, alice, held := relaying(t, on, relayHere)
		s := newSink(t)
		a := alice.present("documents", parted("SendMessage", []any{map[string]any{"text": "task open"}}, nil, map[string]any{
			"configuration": map[string]any{"taskPushNotificationConfig": s.config(on, nil)},
		}), proven{chain: []string{held.Token}, operation: "a2a.push"})
		var result struct {
			Task struct{ ID, ContextID string }
		}
		if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
			t.Fatalf("%v: %s\n%s", err, a.Raw, w.log)
		}
		w.hidden(t, s, "the-clients-token")
		alice.goesOn(held, result.Task.ID, result.Task.ContextID)
		if e := s.next(t, result.Task.ID); e.header.Get("A2A-Notification-Token") != "the-clients-token" {
			t.Errorf("the event came with %v", e.header)
		}
		w.posted(t, a, "ALLOW")
	})
}

// relayed is what the agent got instead of a configuration.
type relayed struct{ URL, Token string }

func (w *town) relayed(t *testing.T) relayed {
	t.Helper()
	var call struct{ Params relayed }
	got := w.documents.got()
	if err := json.Unmarshal(got[len(got)-1].body, &call); err != nil || call.Params.URL == "" || call.Params.Token == "" {
		t.Fatalf("%v: %s", err, got[len(got)-1].body)
	}
	return call.Params
}

// post posts an event as the agent would, or as someone who is not the agent.
func (r relayed) post(t *testing.T, header http.Header, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(said), res.Header
}

func event1(task string) string {
	return fmt.Sprintf(`{"statusUpdate":{"taskId":%q,"contextId":"c","status":{"state":"TASK_STATE_WORKING"},"unknown":9007199254740993}}`, task)
}

// TestATK17_RelayHoldsEveryEvent tries to have something else posted than an event
// of the caller's task, by someone else than the agent, to somewhere else, and
// after what it was asked for under has gone.
func TestATK17_RelayHoldsEveryEvent(t *testing.T) {
	w, alice, held := relaying(t, wire{}, relayHere)
	bob := w.caller(bobToken)
	s := newSink(t)
	task, _ := alice.open(held)
	other, _ := bob.open(bob.reports())
	set := alice.registers(held, task, s.config(wire{}, nil))
	at := w.relayed(t)
	token := http.Header{"A2a-Notification-Token": {at.Token}}
	if code, said, _ := at.post(t, token, event1(task)); code != http.StatusNoContent || said != "" {
		t.Fatalf("%d %s\n%s", code, said, w.log)
	}
	if e := s.next(t, task); string(e.body) != event1(task) {
		t.Errorf("SEP-28 the event came as %s", e.body)
	}
	for _, good := range []http.Header{{"X-A2a-Notification-Token": {at.Token}}, {"Authorization": {"Bearer " + at.Token}}} {
		if code, said, _ := at.post(t, good, event1(task)); code != http.StatusNoContent {
			t.Errorf("%v: %d %s", good, code, said)
		}
		s.next(t, task)
	}
	changed := relayed{at.URL[:len(at.URL)-2] + map[bool]string{true: "AA", false: "BB"}[!strings.HasSuffix(at.URL, "AA")], at.Token}
	for _, c := range []struct {
		name   string
		at     relayed
		header http.Header
		body   string
		code   int
		reason string
	}{
		{"without a token", at, http.Header{}, event1(task), http.StatusUnauthorized, ""},
		{"with another token", at, http.Header{"A2a-Notification-Token": {"the-clients-token"}}, event1(task), http.StatusUnauthorized, ""},
		{"with two tokens", at, http.Header{"A2a-Notification-Token": {at.Token}, "Authorization": {"Bearer x"}}, event1(task), http.StatusUnauthorized, ""},
		{"with another kind of credential", at, http.Header{"A2a-Notification-Token": {at.Token}, "Authorization": {"Basic x"}}, event1(task), http.StatusUnauthorized, ""},
		{"at an address that was changed", changed, token, event1(task), http.StatusNotFound, ""},
		{"about another's task", at, token, event1(other), http.StatusForbidden, "task_foreign"},
		{"about a task that nobody has", at, token, event1("none"), http.StatusForbidden, "task_foreign"},
		{"about no task", at, token, `{"statusUpdate":{}}`, http.StatusBadRequest, ""},
		{"about two tasks", at, token, `{"task":{"id":"` + task + `"},"message":{"taskId":"` + other + `"}}`, http.StatusBadRequest, ""},
		{"that is read in two ways", at, token, `{"task":{"id":"` + task + `"},"task":{"id":"` + other + `"}}`, http.StatusBadRequest, ""},
		{"that is a form", at, merged2(token, "Content-Type", "application/x-www-form-urlencoded"), event1(task), http.StatusBadRequest, ""},
		{"that is packed", at, merged2(token, "Content-Encoding", "identity", "gzip"), event1(task), http.StatusBadRequest, ""},
		{"that is too long", at, token, `{"statusUpdate":{"taskId":"` + task + `","x":"` + strings.Repeat("x", 5<<20) + `"}}`, http.StatusRequestEntityTooLarge, ""},
	} {
		code, said, header := c.at.post(t, c.header, c.body)
		if code != c.code || header.Get("Powerbox-Reason") != c.reason {
			t.Errorf("ATK-17 an event %s: %d %s %v", c.name, code, said, header)
		}
	}
	s.status = http.StatusTeapot
	if code, said, _ := at.post(t, token, event1(task)); code != http.StatusBadGateway || strings.Contains(said, "business") {
		t.Errorf("ATK-17 the agent learns what was answered: %d %s", code, said)
	}
	s.next(t, task)
	s.status = http.StatusOK
	w.posted(t, set, "DENY")
	w.run("revoke", held.RevocationID)
	if code, said, header := at.post(t, token, event1(task)); code != http.StatusForbidden || header.Get("Powerbox-Reason") != "revoked" {
		t.Errorf("ATK-24 after the revocation: %d %s", code, said)
	}
	select {
	case e := <-s.events:
		t.Errorf("ATK-17 something was posted that must not be: %s", e.body)
	default:
	}
}

func merged2(h http.Header, name string, values ...string) http.Header {
	out := h.Clone()
	out[name] = values
	return out
}

// TestATK17_RelayLooksAtTheAddressOnEverySend has the operator name other hosts
// after a configuration was set.
func TestATK17_RelayLooksAtTheAddressOnEverySend(t *testing.T) {
	w, alice, held := relaying(t, wire{}, relayHere)
	s := newSink(t)
	task, _ := alice.open(held)
	alice.registers(held, task, s.config(wire{}, nil))
	at := w.relayed(t)
	token := http.Header{"A2a-Notification-Token": {at.Token}}
	w.again(func() {
		w.rewrite("powerbox.yaml", `hosts: ["127.0.0.1"]`, `hosts: ["hooks.example.org"]`)
		w.rewrite("powerbox.yaml", "  - id: mail\n", "  - id: mail\n    push: {private: true, relay: true}\n")
	})
	mail := relayed{strings.Replace(at.URL, "/agents/documents/", "/agents/mail/", 1), at.Token}
	if code, said, _ := mail.post(t, token, event1(task)); code != http.StatusNotFound {
		t.Errorf("ATK-17 at another agent's address: %d %s", code, said)
	}
	if code, said, header := at.post(t, token, event1(task)); code != http.StatusForbidden || header.Get("Powerbox-Reason") != "push_address" {
		t.Errorf("ATK-17 a host that is not named any more: %d %s", code, said)
	}
	w.again(func() {
		w.rewrite("powerbox.yaml", `private: true, hosts: ["hooks.example.org"]`, `private: false, hosts: ["127.0.0.1"]`)
	})
	if code, said, header := at.post(t, token, event1(task)); code != http.StatusForbidden || header.Get("Powerbox-Reason") != "push_address" {
		t.Errorf("ATK-17 an address that is not admitted any more: %d %s", code, said)
	}
	w.again(func() { w.rewrite("powerbox.yaml", `, relay: true`, ``) })
	if code, _, _ := at.post(t, token, event1(task)); code != http.StatusNotFound {
		t.Errorf("ATK-17 a relay that is switched off: %d", code)
	}
	if len(s.events) > 0 {
		t.Error("something was posted")
	}
}

// TestATK17_RelayOfWhatCannotBeRelayed asks for what the gateway cannot put itself
// into: it is refused before the agent hears of it.
func TestATK17_RelayOfWhatCannotBeRelayed(t *testing.T) {
	w, alice, held := relaying(t, wire{}, relayHere)
	s := newSink(t)
	task, _ := alice.open(held)
	w.documents.forget()
	args := map[string]any{"task": task}
	send := func(config map[string]any, header ...string) answer {
		body := rpc("CreateTaskPushNotificationConfig", merged(config, map[string]any{"taskId": task}))
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: "a2a.push", arguments: args})
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return w.post(w.agentURL("documents"), body, h)
	}
	w.repel(t,
		attack{"ATK-17 twice", "push_address", func() answer {
			return send(s.config(wire{}, map[string]any{"pushNotificationConfig": map[string]any{"url": s.url, "token": "other"}}))
		}},
		attack{"ATK-17 too long", "push_address", func() answer {
			return send(s.config(wire{}, map[string]any{"token": strings.Repeat("t", 2048)}))
		}},
		attack{"ATK-17 signed", "push_address", func() answer {
			return send(s.config(wire{}, nil), "Content-Digest", "sha-256=:AAAA:")
		}},
	)
}

// TestATK17_RelayAtGatewaysApart has one of two gateways put itself in the place
// of an address, and either post what the agent sends.
func TestATK17_RelayAtGatewaysApart(t *testing.T) {
	w, all := startRemote(t, 2, options{agent: "    push: " + relayHere + "\n    enforces: context", stock: pushing()})
	alice := w.caller(aliceToken)
	held := alice.pushes()
	s := newSink(t)
	task, _ := alice.open(held)
	if set := alice.registers(held, task, s.config(wire{}, nil)); set.Error != nil {
		t.Fatalf("%s", set.Raw)
	}
	at := w.relayed(t)
	for range 4 {
		if code, said, _ := at.post(t, http.Header{"A2a-Notification-Token": {at.Token}}, event1(task)); code != http.StatusNoContent {
			t.Errorf("%d %s\n%s\n%s", code, said, all[0].log, all[1].log)
		}
		s.next(t, task)
	}
}
