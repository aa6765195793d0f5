package e2e

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAAPU3_TakingOver has a person take over from an autonomous agent, from the
// shell and on the page that shows what the agent did (section 9.3, AAP-D9, AAP-CL3).
func TestAAPU3_TakingOver(t *testing.T) {
	b := newBank(t, bankOptions{})
	pages := &pagesBank{t: t, url: b.url}
	h := newAgentHost(t)
	agent, _ := h.must(0, "agent", "connect", b.url, "--name", "Deployer", "--mode", "autonomous", "--capability", "list_accounts", "--output", "json")
	id := agent["agent_id"].(string)
	h.must(0, "agent", "execute", id, "list_accounts")
	// A person can say no, and nothing has changed.
	waiting, _ := h.must(6, "agent", "claim", id, "--no-wait", "--binding-message", "the deployer of the site", "--output", "json")
	if waiting["status"] != "active" || waiting["claim_status"] != "pending" {
		t.Fatalf("%v", waiting)
	}
	h.answer("deny", b.url, waiting)
	if _, s := h.must(3, "agent", "status", id, "--wait"); !strings.Contains(s.out+s.err, "denied") {
		t.Errorf("%s%s", s.out, s.err)
	}
	h.must(0, "agent", "execute", id, "list_accounts")
	// Another says yes, on the page.
	waiting, _ = h.must(6, "agent", "claim", id, "--no-wait", "--output", "json")
	v := pages.visitor("bob")
	at := v.open(waiting["approval"].(fact)["user_code"].(string))
	_, page := v.get(at)
	for _, want := range []string{"would become yours", "did: List all accounts", "Take over"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	form := v.approval(at)
	form.Set("grant", "")
	if status, text := v.post(at, form); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, text)
	}
	agent, _ = h.must(0, "agent", "status", id, "--wait", "--output", "json")
	if agent["status"] != "claimed" || agent["user_id"] != "user:bob" || agent["claim_status"] != "claimed" {
		t.Errorf("%v", agent)
	}
	h.must(3, "agent", "execute", id, "list_accounts")
	h.must(3, "agent", "claim", id)
	if hosts := b.as("bob", http.MethodGet, "/v1/hosts", nil); !strings.Contains(hosts.Raw, id) {
		t.Errorf("the history is nobody's: %s", hosts.Raw)
	}
}

// TestAAPU3_WhoMayClaim: the id of an agent is no secret, and shows nothing.
func TestAAPU3_WhoMayClaim(t *testing.T) {
	b := newBank(t, bankOptions{})
	autonomous, r := b.register(newOKP(t), map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("autonomous", r, http.StatusOK, "")
	other := b.active("bob", "check_balance")
	claim := func(m *member, id string) reply {
		return b.ask(http.MethodPost, "/agent/claim", b.host(m.host), args("agent_id", id))
	}
	b.want("another host's", claim(other, autonomous.id), http.StatusForbidden, "unauthorized")
	b.want("one that acts for somebody", claim(other, other.id), http.StatusBadRequest, "unsupported_mode")
	b.want("by an agent", b.ask(http.MethodPost, "/agent/claim", autonomous.token(b.url), args("agent_id", autonomous.id)), http.StatusUnauthorized, "invalid_jwt")
	first := b.want("its own", claim(autonomous, autonomous.id), http.StatusOK, "")
	second := b.want("again", claim(autonomous, autonomous.id), http.StatusOK, "")
	b.want("the code before", b.approve("alice", codeOf(first), args()), http.StatusNotFound, "not_found")
	// Someone becomes the host's user otherwise: the question is over.
	id := autonomous.state().text("host_id")
	b.want("link", b.as("root", http.MethodPost, "/v1/hosts/"+id+"/link", args("user", "user:alice")), http.StatusOK, "")
	if s := autonomous.state(); s.text("status") != "claimed" || s.text("user_id") != "user:alice" {
		t.Errorf("%s", s.Raw)
	}
	b.want("the other code", b.approve("bob", codeOf(second), args()), http.StatusNotFound, "not_found")
}

// TestAAPU6_Enrollment: an administrator makes room for a host, which brings its key
// once (AAP-CL3).
func TestAAPU6_Enrollment(t *testing.T) {
	b := newBank(t, bankOptions{})
	h := newAgentHost(t)
	if s := h.run("agent", "invite", "--server", b.url, "--as", "alice"); s.code != 3 {
		t.Errorf("by a user: exit %d %s", s.code, s.err)
	}
	h.must(3, "agent", "enroll-host", b.url, "--token", "enr_0123456789")
	_, s := h.must(0, "agent", "invite", "--server", b.url, "--as", "root", "--name", "ci", "--user", "user:alice", "--default", "list_accounts")
	code := strings.TrimSpace(s.out)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(code+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The token of another key is none of this host's.
	mine, stranger := newOKP(t), newOKP(t)
	b.want("another's proof", b.ask(http.MethodPost, "/host/enroll", b.host(stranger), args("token", code, "public_key", mine.jwk)), http.StatusUnauthorized, "invalid_jwt")
	enrolled, _ := h.must(0, "agent", "enroll-host", b.url, "--token-file", file, "--output", "json")
	if enrolled["status"] != "active" || enrolled["name"] == "" {
		t.Errorf("%v", enrolled)
	}
	b.want("used", b.ask(http.MethodPost, "/host/enroll", "", args("token", code, "public_key", mine.jwk)), http.StatusUnauthorized, "enrollment_token_invalid")
	h.must(1, "agent", "enroll-host", b.url, "--token", code) // the store has a host there
	agent, _ := h.must(0, "agent", "connect", b.url, "--name", "n", "--capability", "list_accounts", "--output", "json")
	if agent["status"] != "active" || agent["host_id"] != enrolled["host_id"] {
		t.Errorf("%v", agent)
	}
	// A key that is known is not enrolled, and its host is not given away.
	_, s = h.must(0, "agent", "invite", "--server", b.url, "--as", "root", "--user", "user:bob")
	known, r := b.register(newOKP(t), map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("autonomous", r, http.StatusOK, "")
	b.want("a known key", b.ask(http.MethodPost, "/host/enroll", "", args("token", strings.TrimSpace(s.out), "public_key", known.host.jwk)), http.StatusBadRequest, "invalid_request")
	if now := known.state(); now.text("status") != "active" {
		t.Errorf("%s", now.Raw)
	}
	// As the protocol's own client does it, without a proof.
	b.want("plain", b.ask(http.MethodPost, "/host/enroll", "", args("token", strings.TrimSpace(s.out), "public_key", mine.jwk, "name", "laptop")), http.StatusOK, "")
	if hosts := b.as("bob", http.MethodGet, "/v1/hosts", nil); !strings.Contains(hosts.Raw, `"name":"laptop"`) {
		t.Errorf("%s", hosts.Raw)
	}
}

// TestAAPCL2_EveryTool goes through the tools that the protocol's own MCP server has
// beyond the specification: there are 18.
func TestAAPCL2_EveryTool(t *testing.T) {
	b := newBank(t, bankOptions{})
	h := newMCPHost(t, nil, "--allow-provider", b.url)
	tools, err := h.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, one := range tools.Tools {
		names[one.Name] = true
	}
	for _, want := range strings.Fields(`search list_providers search_providers discover_provider list_capabilities describe_capability connect_agent
		execute_capability batch_execute_capabilities agent_status sign_jwt request_capability disconnect_agent reactivate_agent enroll_host claim_agent
		rotate_agent_key rotate_host_key`) {
		if !names[want] {
			t.Errorf("no tool %s", want)
		}
	}
	_, s := h.must(0, "agent", "invite", "--server", b.url, "--as", "root", "--name", "desk")
	if out := h.does("enroll_host", fact{"provider": b.url, "enrollment_token": strings.TrimSpace(s.out)}); out["status"] != "active" {
		t.Errorf("%v", out)
	}
	h.fails("enroll_host", "failed", fact{"provider": b.url, "enrollment_token": "enr_x"})
	found := h.does("search", fact{"query": "move money", "limit": 3})
	if list, _ := found["results"].([]any); len(list) == 0 || list[0].(fact)["name"] != "transfer_money" || list[0].(fact)["provider"] != b.url {
		t.Errorf("%v", found)
	}
	if none := h.does("search", fact{"query": "zebra"}); len(none["results"].([]any)) != 0 {
		t.Errorf("%v", none)
	}
	agent := h.does("connect_agent", fact{"provider": b.url, "name": "Auto", "mode": "autonomous", "capabilities": []any{"list_accounts"}})
	if agent["status"] != "active" {
		t.Fatalf("%v", agent)
	}
	h.does("rotate_host_key", fact{"issuer": b.url})
	waiting := h.does("claim_agent", fact{"agent_id": agent["agent_id"], "binding_message": "take over"})
	h.answer("approve", b.url, waiting)
	if done := h.does("agent_status", fact{"agent_id": agent["agent_id"], "wait_seconds": 30}); done["status"] != "claimed" {
		t.Errorf("%v", done)
	}
}

// TestAAPCL3_Environment: what the protocol's own command line takes from the
// environment is taken here, too.
func TestAAPCL3_Environment(t *testing.T) {
	asGiven(t)
	bank := startExampleBank(t)
	directory := newPretender(t)
	directory.says("GET /api/search", 200, `{"providers":[{"issuer":"`+bank+`"}],"intent":"x","count":1}`)
	h := newAgentHost(t)
	t.Setenv("AGENT_AUTH_DIRECTORY_URL", directory.URL)
	t.Setenv("AGENT_AUTH_HOST_NAME", "the desk")
	if _, s := h.must(0, "agent", "search", "bank"); !strings.Contains(s.out, bank) {
		t.Errorf("%s", s.out)
	}
	if _, s := h.must(0, "agent", "find", "transfer money", "--limit", "1"); !strings.HasPrefix(s.out, bank+"  transfer_money: ") {
		t.Errorf("%s", s.out)
	}
	waiting, _ := h.must(6, "agent", "connect", bank, "--name", "n", "--capability", "check_balance", "--no-wait", "--output", "json")
	code, _ := waiting["approval"].(fact)["user_code"].(string)
	if _, s := h.must(0, "approval", "show", code, "--server", bank, "--as", "alice"); !strings.Contains(s.out, "the desk") {
		t.Errorf("%s", s.out)
	}
	h.answer("approve", bank, waiting)
	id := waiting["agent_id"].(string)
	h.must(0, "agent", "status", id, "--wait")
	h.must(0, "agent", "execute", id, "check_balance", "--arguments", `{"account_id": "acc_123"}`)
	more, _ := h.must(6, "agent", "request", id, "--capability", "list_accounts", "--reason", "see all", "--no-wait", "--output", "json")
	h.answer("approve", bank, more)
	h.must(0, "agent", "status", id, "--wait")
	if shown, _ := h.must(0, "agent", "show", id, "--output", "json"); len(shown["agent_capability_grants"].([]any)) != 2 {
		t.Errorf("%v", shown)
	}
	if out, _ := h.must(0, "agent", "list", "--provider", "https://elsewhere.example", "--output", "json"); len(out["agents"].([]any)) != 0 {
		t.Errorf("%v", out)
	}
	h.must(0, "agent", "rotate-host-key", bank)
	h.must(0, "agent", "execute", id, "list_accounts")

	// Providers that the environment names are known, and allowed, to tools.
	u, err := url.Parse(bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENT_AUTH_PROVIDERS", `[{"issuer":"`+bank+`","provider_name":"not what it says"}]`)
	m := newMCPHost(t, nil)
	if raw, failed := m.tool("list_providers", fact{}); failed || !strings.Contains(raw, u.Host) || strings.Contains(raw, "not what it says") {
		t.Errorf("%s", raw)
	}

	// A host that has met no provider knows those of a list of URLs.
	newAgentHost(t)
	t.Setenv("AGENT_AUTH_PROVIDERS", "")
	t.Setenv("AGENT_AUTH_DIRECTORY_URL", "")
	if raw, failed := newMCPHost(t, nil).tool("list_providers", fact{}); failed || strings.Contains(raw, u.Host) {
		t.Errorf("no provider is named: %s", raw)
	}
	t.Setenv("AGENT_AUTH_URLS", bank)
	if raw, failed := newMCPHost(t, nil).tool("list_providers", fact{}); failed || !strings.Contains(raw, u.Host) {
		t.Errorf("a provider is named by its URL: %s", raw)
	}
}

// TestAAPU3_WhoIsClaimedIsSaid: anyone who approves the first delegated agent of a host is
// told, before the word, which agents that act on their own it ends: on the page, in
// the shell and to programs.
func TestAAPU3_WhoIsClaimedIsSaid(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := newOKP(t)
	alone := func(name string) *member {
		m, r := b.register(host, map[string]any{"name": name, "mode": "autonomous", "capabilities": []any{"list_accounts"}})
		b.want("autonomous", r, http.StatusOK, "")
		return m
	}
	one, two := alone("Deployer"), alone("Crawler")
	asks, r := b.register(host, map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	b.want("delegated", r, http.StatusOK, "")
	if state := asks.state().text("status"); state != "pending" {
		t.Fatalf("the delegated agent is %s", state)
	}
	alice := (&pagesBank{t: t, url: b.url}).visitor("alice")
	at := alice.open(asks.code)
	holds := func(what, text string, wanted ...string) {
		t.Helper()
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", what, want, text)
			}
		}
	}
	_, page := alice.get(at)
	holds("the page", page, "The host becomes yours when you approve. 2 agents that act on their own under it end", "Deployer", one.id, "Crawler", two.id)
	holds("approval show", b.must("approval", "show", asks.code, "--server", b.url, "--as", "alice"), "2 agents that act on their own under it end", one.id, `"Crawler"`, two.id)
	if claims, _ := b.as("alice", http.MethodGet, "/v1/approvals/"+asks.code, nil).Body["claims"].([]any); len(claims) != 2 || claims[0].(map[string]any)["agent_id"] == "" {
		t.Errorf("to programs: %v", claims)
	}
	form := alice.approval(at)
	three := alone("Third")
	if status, text := alice.post(at, form); status != http.StatusConflict {
		t.Errorf("one more would be claimed than was shown: HTTP %d %s", status, text)
	}
	_, page = alice.get(at)
	holds("the page", page, "3 agents that act", "Third")
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Errorf("HTTP %d %s", status, text)
	}
	for _, m := range []*member{one, two, three} {
		if s := m.state(); s.text("status") != "claimed" {
			t.Errorf("AAP-U3 %s", s.Raw)
		}
	}
	// Later events claim no agent.
	next, _ := b.register(host, map[string]any{"name": "Next", "capabilities": []any{"close_account"}})
	_, page = alice.get(alice.open(next.code))
	if strings.Contains(page, "on their own under it") {
		t.Errorf("the page of a linked host:\n%s", page)
	}
}
