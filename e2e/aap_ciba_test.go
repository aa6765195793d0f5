package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// approvalOf is the approval of an answer.
func approvalOf(r reply) fact {
	a, _ := r.Body["approval"].(fact)
	return a
}

// waitingFor are the ids of the requests that wait for someone.
func (b *bank) waitingFor(user string) (ids []string) {
	b.t.Helper()
	r := b.as(user, http.MethodGet, "/v1/approvals", nil)
	list, _ := r.Body["approvals"].([]any)
	for _, one := range list {
		ids = append(ids, one.(fact)["id"].(string))
	}
	return ids
}

// TestAAPA3_KnownPersonIsAsked: a person who is known is asked where they are, and the
// agent gets no code that it could have another approve (AAP-D7, A1, A4).
func TestAAPA3_KnownPersonIsAsked(t *testing.T) {
	b := newBank(t, bankOptions{})
	if d := b.ask(http.MethodGet, "/.well-known/agent-configuration", "", nil); !slices.Equal(d.Body["approval_methods"].([]any), []any{"device_authorization", "ciba"}) {
		t.Errorf("AAP-D7: %v", d.Body["approval_methods"])
	}
	m := b.active("alice", "check_balance")
	more := func(method string) reply {
		return b.want("more", b.ask(http.MethodPost, "/agent/request-capability", m.token(b.url), map[string]any{
			"capabilities": []any{"list_accounts"}, "preferred_method": method, "binding_message": "Look <b>at</b> all",
		}), http.StatusOK, "")
	}
	asked := approvalOf(more("ciba"))
	want := []string{"binding_message", "expires_in", "interval", "method", "notification_url"}
	if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) || asked["method"] != "ciba" || asked["binding_message"] != "Look at all" {
		t.Errorf("AAP-A1: %v", asked)
	}
	ids := b.waitingFor("alice")
	if len(ids) != 1 || len(b.waitingFor("bob")) != 0 {
		t.Fatalf("AAP-A3: %v waits for alice", ids)
	}
	b.want("another's", b.approve("bob", ids[0], args()), http.StatusNotFound, "not_found")
	b.want("AAP-A3", b.approve("alice", ids[0], args()), http.StatusOK, "")
	b.want("AAP-A3", m.execute("list_accounts", nil), http.StatusOK, "")
	// AAP-A4: a hint is one.
	if a := approvalOf(b.ask(http.MethodPost, "/agent/request-capability", m.token(b.url), args("capabilities", []any{"slow_job"}, "preferred_method", "pigeon"))); a["method"] != "device_authorization" {
		t.Errorf("AAP-A4: %v", a)
	}
	_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}, "preferred_method": "ciba"})
	if a := approvalOf(r); a["method"] != "device_authorization" { // the request names no user to ask
		t.Errorf("AAP-A4: %v", a)
	}
}

// TestAAPA3_HintsTellNothing: anyone who is named is asked, and anyone who names cannot tell
// whether there is anybody (CIBA Core, section 14).
func TestAAPA3_HintsTellNothing(t *testing.T) {
	b := newBank(t, bankOptions{})
	hinted := func(hint string) (*member, reply) {
		return b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}, "preferred_method": "ciba", "login_hint": hint})
	}
	m, someone := hinted("alice")
	nobody, unreal := hinted("mallory")
	for _, r := range []reply{someone, unreal} {
		b.want("a hint", r, http.StatusOK, "")
		delete(approvalOf(r), "notification_url")
		delete(r.Body, "agent_id")
		delete(r.Body, "host_id")
	}
	if a, b := someone.Body, unreal.Body; approvalOf(someone)["method"] != "ciba" || !maps.Equal(approvalOf(someone), approvalOf(unreal)) || !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		t.Errorf("two answers: %v and %v", a, b)
	}
	ids := b.waitingFor("alice")
	if len(ids) != 1 || len(b.waitingFor("mallory")) != 0 || len(b.waitingFor("bob")) != 0 {
		t.Fatalf("%v waits for alice", ids)
	}
	// A request that names no user waits for no user.
	all := b.waitingFor("root")
	other := all[slices.IndexFunc(all, func(id string) bool { return id != ids[0] })]
	b.want("for nobody", b.approve("bob", other, args()), http.StatusNotFound, "not_found")
	b.want("by name", b.approve("bob", ids[0], args()), http.StatusNotFound, "not_found")
	v := (&pagesBank{t: t, url: b.url}).visitor("alice")
	if _, page := v.get("/approve/" + ids[0]); !strings.Contains(page, "asked for you by name") {
		t.Error("the page does not say that the agent chose whom to ask")
	}
	b.want("by name", b.approve("alice", ids[0], args()), http.StatusOK, "")
	if s := m.state(); s.text("status") != "active" || s.text("user_id") != "user:alice" {
		t.Errorf("%s", s.Raw)
	}
	if s := nobody.state(); s.text("status") != "pending" {
		t.Errorf("%s", s.Raw)
	}
	// An autonomous agent is not let in by whomever it names.
	_, r := b.register(newOKP(t), map[string]any{"mode": "autonomous", "capabilities": []any{"close_account"}, "preferred_method": "ciba", "login_hint": "alice"})
	b.want("autonomous", r, http.StatusOK, "")
	if len(b.waitingFor("alice")) != 0 {
		t.Error("an autonomous agent chose who answers for it")
	}
}

// TestATK48_AskedByName: the server stops asking a person who is named again and
// again, and callers do not learn of it.
func TestATK48_AskedByName(t *testing.T) {
	b := newBank(t, bankOptions{})
	ask := func() {
		_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}, "preferred_method": "ciba", "login_hint": "user:alice"})
		b.want("a question", r, http.StatusOK, "")
		if a := approvalOf(r); a["method"] != "ciba" || a["user_code"] != nil {
			t.Errorf("%v", a)
		}
	}
	for range 5 {
		ask()
	}
	ids := b.waitingFor("alice")
	if len(ids) != 3 {
		t.Errorf("ATK-48: %d at a time; want 3", len(ids))
	}
	for range 5 {
		for _, id := range b.waitingFor("alice") {
			b.want("deny", b.approve("alice", id, args("deny", true)), http.StatusOK, "")
			ids = append(ids, id)
		}
		ask()
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n > 6 {
		t.Errorf("ATK-48: asked %d times in an hour; want at most 6", n)
	}
	if len(b.waitingFor("alice")) != 0 {
		t.Error("ATK-48: asked on and on")
	}
}

// TestAAPA4_Preferred: the operator decides, whatever a client prefers.
func TestAAPA4_Preferred(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      ciba: preferred"})
	m := b.active("alice", "check_balance")
	if a := approvalOf(m.request("list_accounts")); a["method"] != "ciba" {
		t.Errorf("AAP-A4: %v", a)
	}
	off := newBank(t, bankOptions{conf: "      ciba: off"})
	m = off.active("alice", "check_balance")
	r := off.ask(http.MethodPost, "/agent/request-capability", m.token(off.url), args("capabilities", []any{"list_accounts"}, "preferred_method", "ciba", "login_hint", "alice"))
	if a := approvalOf(r); a["method"] != "device_authorization" || a["user_code"] == nil {
		t.Errorf("AAP-A4: %v", a)
	}
	if d := off.ask(http.MethodGet, "/.well-known/agent-configuration", "", nil); len(d.Body["approval_methods"].([]any)) != 1 {
		t.Errorf("AAP-D7: %v", d.Body["approval_methods"])
	}
	m = newBank(t, bankOptions{}).active("alice", "check_balance")
	if a := approvalOf(m.request("list_accounts")); a["method"] != "device_authorization" || a["user_code"] == nil {
		t.Errorf("AAP-A4: where nobody prefers anything: %v", a)
	}
}

// TestAAPA3_CommandLine: from the client's side, with nothing to copy.
func TestAAPA3_CommandLine(t *testing.T) {
	b := newBank(t, bankOptions{})
	h := newAgentHost(t)
	waiting, s := h.must(6, "agent", "connect", b.url, "--name", "Helper", "--capability", "check_balance", "--preferred-method", "ciba", "--login-hint", "alice", "--no-wait", "--output", "json")
	if !strings.Contains(s.err, `by ciba about "Approve Helper"`) {
		t.Errorf("%s", s.err)
	}
	b.want("approve", b.approve("alice", b.waitingFor("alice")[0], args()), http.StatusOK, "")
	h.must(0, "agent", "status", waiting["agent_id"].(string), "--wait")
	h.must(0, "agent", "execute", waiting["agent_id"].(string), "check_balance", "--arguments", `{"account_id": "a"}`)
}

// TestAAPA6_FreshLoginForCIBA: anyone who is asked where they are logs in anew to approve, as
// on the page of a code.
func TestAAPA6_FreshLoginForCIBA(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: "approvals: {fresh: 1s}"})
	m, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}, "preferred_method": "ciba", "login_hint": "alice"})
	b.want("a question", r, http.StatusOK, "")
	at := "/approve/" + b.waitingFor("alice")[0]
	v := (&pagesBank{t: t, url: b.url}).visitor("alice")
	form := v.approval(at)
	eventually(t, patience, func() string { return "the login stays fresh" }, func() bool {
		_, page := v.get(at)
		return strings.Contains(page, "Log in again to approve")
	})
	if status, text := v.post(at, form); status != http.StatusForbidden {
		t.Errorf("AAP-A6: HTTP %d %s", status, text)
	}
	if s := m.state(); s.text("status") != "pending" {
		t.Errorf("AAP-A6: %s", s.Raw)
	}
	form.Set("answer", "deny")
	if status, text := v.post(at, form); status != http.StatusSeeOther {
		t.Errorf("AAP-A5: HTTP %d %s", status, text)
	}
}
