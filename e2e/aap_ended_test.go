package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// ended expects that a question is over at once, with a reason, for everybody who is told of it:
// in the list and the answer of the interface of people, on the page, and on the stream that
// its agent follows. It says what the stream tells of the question.
func (b *bank) ended(what, id, notified, how, why string) {
	b.t.Helper()
	listed := b.want(what, b.as("root", http.MethodGet, "/v1/approvals", nil), http.StatusOK, "")
	if strings.Contains(listed.Raw, id) {
		b.t.Errorf("%s is listed: %s", what, listed.Raw)
	}
	shown := b.want(what, b.as("root", http.MethodGet, "/v1/approvals/"+id, nil), http.StatusOK, "")
	if !strings.Contains(shown.text("ended"), why) {
		b.t.Errorf("%s: %s; want that it ended, since %s", what, shown.Raw, why)
	}
	b.want(what+" is answered", b.as("root", http.MethodPost, "/v1/approvals/"+id, fact{}), http.StatusConflict, "already_granted")
	if _, page := (&pagesBank{t: b.t, url: b.url}).visitor("root").get("/approve/" + id); !strings.Contains(page, why) || strings.Contains(page, "Approve what is ticked") {
		b.t.Errorf("%s: the page says\n%s\nwant %q", what, page, why)
	}
	if event := b.ask(http.MethodGet, notified, "", nil); !strings.Contains(event.Raw, `"approval":"`+how+`"`) || !strings.Contains(event.Raw, why) {
		b.t.Errorf("%s: the stream tells %s; want %q and %q", what, event.Raw, how, why)
	}
}

// asksMore has an agent ask for more, and returns the id of the question and where it is followed.
func (m *member) asksMore(capabilities ...any) (id, notified string) {
	m.b.t.Helper()
	r := m.b.want("ask for more", m.b.ask(http.MethodPost, "/agent/request-capability", m.token(m.b.url), fact{"capabilities": capabilities}), http.StatusOK, "")
	approval, _ := r.Body["approval"].(map[string]any)
	notified, _ = approval["notification_url"].(string)
	at := strings.LastIndex(notified, "/")
	id, _, _ = strings.Cut(notified[at+1:], ".")
	return id, notified
}

// grantOf is how the status of an agent shows one of its grants.
func (m *member) grantOf(capability string) fact {
	m.b.t.Helper()
	all, _ := m.state().Body["agent_capability_grants"].([]any)
	for i := len(all) - 1; i >= 0; i-- {
		if g, _ := all[i].(map[string]any); g["capability"] == capability {
			return g
		}
	}
	return nil
}

// TestAAPA12_QuestionsWithNothingLeftEndAtOnce takes away what a question is about, in every
// way that there is.
func TestAAPA12_QuestionsWithNothingLeftEndAtOnce(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	id, notified := m.asksMore("list_accounts", "slow_job")
	revoke := func(capability string) {
		b.want("revoke "+capability, b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", fact{"capability": capability}), http.StatusOK, "")
	}
	revoke("list_accounts")
	if listed := b.as("alice", http.MethodGet, "/v1/approvals", nil); !strings.Contains(listed.Raw, id) {
		t.Errorf("a question of which something is left is not listed: %s", listed.Raw)
	}
	revoke("slow_job")
	b.ended("a question whose capabilities were taken back", id, notified, "revoked", "taken back")
	if g := m.grantOf("slow_job"); g["status"] != "revoked" {
		t.Errorf("what was taken back is %v", g)
	}
	m.becomes("active")

	id, notified = m.asksMore("ticker")
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "{name: ticker, description: Prices, sensitivity: read}", "{name: ticker, description: Prices, sensitivity: read, blocked: true}", 1))
	})
	b.ended("a question for what is offered no more", id, notified, "revoked", "offered any more")
	if g := m.grantOf("ticker"); g["status"] != "denied" || !strings.Contains(saidOf(g, "reason"), "offered any more") {
		t.Errorf("what is offered no more is %v; want denied, with the reason", g)
	}

	id, notified = m.asksMore("list_accounts")
	b.want("revoke the agent", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/revoke", nil), http.StatusOK, "")
	b.ended("a question of an agent that ended", id, notified, "revoked", "the agent ended")
	m.becomes("revoked")
}

// TestAAPA12_QuestionsOfAnUnlinkedHostEndAtOnce unlinks a host whose agents act on their own:
// one has asked for more, and one waits to be let in.
func TestAAPA12_QuestionsOfAnUnlinkedHostEndAtOnce(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	auto, r := b.register(m.host, fact{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("an autonomous agent of a linked host", r, http.StatusOK, "")
	b.want("approve", b.approve("alice", auto.code, fact{}), http.StatusOK, "")
	id, notified := auto.asksMore("slow_job")
	waits, r := b.register(m.host, fact{"mode": "autonomous", "capabilities": []any{"slow_job"}})
	b.want("one that waits", r, http.StatusOK, "")
	b.want("unlink", b.as("alice", http.MethodPost, "/v1/hosts/"+m.state().text("host_id")+"/unlink", nil), http.StatusOK, "")
	b.ended("a question of an unlinked host", id, notified, "revoked", "unlinked")
	auto.becomes("active")
	if g := auto.grantOf("slow_job"); g["status"] != "denied" || !strings.Contains(saidOf(g, "reason"), "unlinked") {
		t.Errorf("what the former user was asked is %v; want denied, with the reason", g)
	}
	if s := waits.state(); s.text("status") != "pending" || !strings.Contains(s.text("reason"), "unlinked") {
		t.Errorf("the agent that waits: %s; want pending, and that nobody is asked", s.Raw)
	}
	again := b.want("it asks again", b.ask(http.MethodPost, "/agent/register", b.host(m.host, fact{"agent_public_key": waits.key.jwk}), fact{"name": "Tester", "mode": "autonomous", "capabilities": []any{"slow_job"}}), http.StatusOK, "")
	if s := waits.state(); s.text("status") != "pending" || s.text("reason") != "" {
		t.Errorf("once it asked again: %s; want no reason", s.Raw)
	}
	b.want("it is approved", b.approve("root", codeOf(again), fact{}), http.StatusOK, "")
	waits.becomes("active")
}

func saidOf(f fact, name string) string {
	s, _ := f[name].(string)
	return s
}
