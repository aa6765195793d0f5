package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// followed opens what a notification_url names, and returns a channel of its events.
func (b *bank) followed(url string) <-chan fact {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s: HTTP %d", url, res.StatusCode)
	}
	out := make(chan fact, 10)
	go func() {
		defer close(out)
		lines, name := bufio.NewScanner(res.Body), ""
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = n
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var v fact
				_ = json.Unmarshal([]byte(data), &v)
				v["event"] = name
				out <- v
			}
		}
	}()
	return out
}

// TestAAPY1_Notification: a waiting client is told when a person has answered, and
// how, at an address that only the client knows (section 10.10.2).
func TestAAPY1_Notification(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance", "list_accounts"}})
	at, _ := approvalOf(r)["notification_url"].(string)
	if !strings.HasPrefix(at, b.url+"/agent/events/apr_") {
		t.Fatalf("%v", approvalOf(r))
	}
	come := b.followed(at)
	b.want("approve", b.approve("alice", m.code, args("only", []string{"check_balance"})), http.StatusOK, "")
	e := <-come
	if e["event"] != "status" || e["status"] != "active" || e["approval"] != "approved" || e["agent_id"] != m.id {
		t.Errorf("%v", e)
	}
	if g := grantsOf(reply{Body: e}); g["check_balance"] != "active" || g["list_accounts"] != "denied" {
		t.Errorf("%v", e)
	}
	if _, more := <-come; more {
		t.Error("the stream does not end")
	}
	// A denial of more leaves the agent as it is.
	asked := m.request("close_account")
	come = b.followed(approvalOf(asked)["notification_url"].(string))
	b.want("deny", b.approve("alice", codeOf(asked), args("deny", true)), http.StatusOK, "")
	e = <-come
	if g := grantsOf(reply{Body: e}); e["status"] != "active" || e["approval"] != "denied" || g["check_balance"] != "active" || g["close_account"] != "denied" {
		t.Errorf("AAP-Y1 the event of a denial has not every grant of the agent: %v", e)
	}
	for _, g := range m.state().Body["agent_capability_grants"].([]any) {
		if one := g.(map[string]any); one["status"] == "denied" && one["reason"] != "the person who answered the request did not approve it" {
			t.Errorf("AAP-A8 a denial without a reason: %v", one)
		}
	}
	// Addresses are not guessed, and a request whose id is known is not followed by it.
	name := at[strings.LastIndex(at, "/")+1:]
	id, _, _ := strings.Cut(name, ".")
	for _, other := range []string{id, id + ".", id + ".AAAAAAAAAAAAAAAAAAAAAA", "apr_nobody", name + "A"} {
		b.want(other, b.ask(http.MethodGet, "/agent/events/"+other, "", nil), http.StatusNotFound, "not_found")
	}
}

// TestAAPY1_ClientFallsBack: our client polls at once after a notification, and at
// intervals without one.
func TestAAPY1_ClientFallsBack(t *testing.T) {
	b := newBank(t, bankOptions{})
	h := newAgentHost(t)
	waiting, _ := h.must(6, "agent", "connect", b.url, "--name", "n", "--capability", "check_balance", "--no-wait", "--output", "json")
	h.answer("approve", b.url, waiting)
	h.must(0, "agent", "status", waiting["agent_id"].(string), "--wait")
	p := newPretender(t)
	p.says("POST /agent/register", 200, strings.Replace(agentOf("pending", ""), `"interval":1`, `"interval":1,"notification_url":"`+p.URL+`/agent/events/x"`, 1))
	p.says("GET /agent/events/x", 500, `{"error":"internal_error","message":"no"}`)
	other := newAgentHost(t)
	other.must(0, "agent", "connect", p.URL, "--name", "n", "--capability", "pay")
	if len(p.to("GET /agent/events/x")) == 0 || p.to("GET /agent/events/x")[0].bearer != "" {
		t.Errorf("%v", p.to("GET /agent/events/x"))
	}
}
