package e2e

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAAPCL3_CommandLine lives the life of an agent at a bank, from the shell
// (AAP-P10, AAP-CL12).
func TestAAPCL3_CommandLine(t *testing.T) {
	asGiven(t)
	bank, h := startExampleBank(t), newAgentHost(t)
	if _, s := h.must(0, "agent", "discover", bank); !strings.Contains(s.out, "bank  "+bank) {
		t.Errorf("%s", s.out)
	}
	if _, s := h.must(0, "agent", "capabilities", "list", bank, "--query", "money"); !strings.HasPrefix(s.out, "transfer_money: ") || strings.Contains(s.out, "ticker") {
		t.Errorf("%s", s.out)
	}
	if _, s := h.must(0, "agent", "capabilities", "describe", "bank", "statement"); !strings.Contains(s.out, "location") {
		t.Errorf("%s", s.out)
	}
	waiting, s := h.must(6, "agent", "connect", bank, "--name", "Payer", "--capability", "check_balance,transfer_money,slow_job,ticker,statement",
		"--constraints", `{"transfer_money": {"amount": {"max": 100}}}`, "--reason", "rent", "--no-wait", "--output", "json")
	if waiting["status"] != "pending" || !strings.Contains(s.err, "/approve") {
		t.Fatalf("%v\n%s", waiting, s.err)
	}
	h.answer("approve", bank, waiting, "--constraints", `{"transfer_money": {"amount": {"max": 60}}}`)
	agent, _ := h.must(0, "agent", "status", waiting["agent_id"].(string), "--wait", "--output", "json")
	if agent["status"] != "active" || agent["user_id"] != "user:alice" {
		t.Fatalf("%v", agent)
	}
	id := agent["agent_id"].(string)

	call := func(code int, skill, arguments string) string {
		t.Helper()
		_, s := h.must(code, "call", "bank", "--via", "agent-auth", "--skill", skill, "--arguments", arguments)
		return s.out
	}
	if out := call(0, "check_balance", `{"account_id": "acc_123"}`); !strings.Contains(out, "4280.13") {
		t.Errorf("%s", out)
	}
	if out := call(3, "transfer_money", `{"amount": 61, "currency": "USD", "destination_account": "acc_456"}`); !strings.Contains(out, `amount must be within {"max":60}`) {
		t.Errorf("%s", out)
	}
	call(0, "transfer_money", `{"amount": 60, "currency": "USD", "destination_account": "acc_456"}`)
	if out := call(0, "slow_job", `{}`); !strings.Contains(out, "4 pages") {
		t.Errorf("%s", out)
	}
	if out := call(0, "ticker", `{}`); strings.Count(out, "USD/EUR") != 3 || !strings.HasSuffix(out, "{\"ticks\":3}\n") {
		t.Errorf("%s", out)
	}
	// The statement is at its own service, which takes tokens for itself alone.
	if out := call(0, "statement", `{}`); !strings.Contains(out, id) {
		t.Errorf("%s", out)
	}
	call(3, "list_accounts", `{}`)

	more, _ := h.must(6, "request", id, "--via", "agent-auth", "--grant", "list_accounts", "--purpose", "see all", "--no-wait", "--output", "json")
	h.answer("approve", bank, more)
	h.must(0, "agent", "status", id, "--wait")
	if out := call(0, "list_accounts", `{}`); !strings.Contains(out, "acc_456") {
		t.Errorf("%s", out)
	}
	h.must(0, "agent", "rotate-key", id)
	h.must(0, "agent", "rotate-host-key")
	call(0, "list_accounts", `{}`)
	signed, _ := h.must(0, "agent", "sign", id, "--capability", "check_balance", "--output", "json")
	if claims := (heard{bearer: signed["token"].(string)}).claims(); signed["expires_in"] != 60.0 || claims["aud"] != bank || claims["sub"] != id {
		t.Errorf("%v, %v", signed, claims)
	}
	h.must(1, "agent", "sign", id, "--capability", "fly")
	h.must(0, "agent", "reactivate", id)
	if out, _ := h.must(0, "agent", "list", "--output", "json"); len(out["agents"].([]any)) != 1 {
		t.Errorf("%v", out)
	}
	h.must(0, "agent", "disconnect", id)
	h.must(1, "agent", "status", id)
	h.must(2, "call", "bank", "--via", "agent-auth", "--skill", "check_balance")
}

// TestAAPCL4_Discovery: whose documents are believed, and for how long.
func TestAAPCL4_Discovery(t *testing.T) {
	asGiven(t)
	const at = "GET /.well-known/agent-configuration"
	p, h := newPretender(t), newAgentHost(t)
	refused := func(why string, change fact) {
		t.Helper()
		p.discovery(change)
		if s := h.run("agent", "connect", p.URL, "--name", "n"); s.code != 1 || !strings.Contains(s.err, why) {
			t.Errorf("%v: exit %d, %s", change, s.code, s.err)
		}
		if len(p.to("POST /agent/register")) != 0 {
			t.Errorf("%v: it registered", change)
		}
	}
	refused("version", fact{"version": "2.0-draft"})
	refused("issuer", fact{"issuer": "https://bank.example"})
	refused("https", fact{"default_location": "http://bank.example/execute"})
	refused("endpoint register", fact{"endpoints": fact{"register": "https://evil.example/register"}})
	// The real document, from elsewhere.
	bank := startExampleBank(t)
	upstream, err := url.Parse(bank)
	if err != nil {
		t.Fatal(err)
	}
	between := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }})
	t.Cleanup(between.Close)
	if s := h.run("agent", "discover", between.URL); s.code != 1 || !strings.Contains(s.err, "another issuer") {
		t.Errorf("exit %d, %s", s.code, s.err)
	}

	p.discovery(nil)
	before := len(p.to(at))
	for range 3 {
		h.must(0, "agent", "discover", p.URL)
	}
	if n := len(p.to(at)) - before; n != 1 {
		t.Errorf("fetched %d times within the hour", n)
	}
	h.must(0, "agent", "connect", p.URL, "--name", "n", "--capability", "pay")
	p.mu.Lock()
	delete(p.answers, "GET /agent/status")
	p.mu.Unlock()
	p.says("GET /v2/status", 200, agentOf("active", `{"capability":"pay","status":"active"}`))
	p.discovery(fact{"endpoints": fact{
		"register": "/agent/register", "capabilities": "/capability/list", "describe_capability": "/capability/describe", "execute": "/capability/execute",
		"request_capability": "/agent/request-capability", "status": "/v2/status", "reactivate": "/agent/reactivate", "revoke": "/agent/revoke",
		"rotate_key": "/agent/rotate-key", "rotate_host_key": "/host/rotate-key",
	}})
	h.must(0, "agent", "status", "agt_1")
	if n := len(p.to(at)) - before; n != 2 || len(p.to("GET /v2/status")) != 1 {
		t.Errorf("an endpoint that had moved: fetched %d times", n)
	}
}

// TestAAPCL5_PatienceIsTheServers: Retry-After, and backing off without it.
func TestAAPCL5_PatienceIsTheServers(t *testing.T) {
	asGiven(t)
	p, h := newPretender(t), newAgentHost(t)
	p.first("POST /agent/register", 429, `{"error":"rate_limited","message":"slowly"}`, "Retry-After", "2")
	if d := took(func() { h.must(0, "agent", "connect", p.URL, "--name", "n", "--capability", "pay") }); d < 2*time.Second || len(p.to("POST /agent/register")) != 2 {
		t.Errorf("after %s, asked %d times", d, len(p.to("POST /agent/register")))
	}
	p.first("GET /agent/status", 503, "")
	p.first("GET /agent/status", 503, "")
	if d := took(func() { h.must(0, "agent", "status", "agt_1") }); d < 3*time.Second || len(p.to("GET /agent/status")) != 3 {
		t.Errorf("after %s, asked %d times", d, len(p.to("GET /agent/status")))
	}
	p.says("GET /agent/status", 429, `{"error":"rate_limited","message":"tomorrow"}`, "Retry-After", "86400")
	if d := took(func() { h.must(1, "agent", "status", "agt_1") }); d > 20*time.Second {
		t.Errorf("it waited %s for tomorrow", d)
	}
}

// TestAAPCL6_FreshTokens for every request, poll and job (AAP-CL8).
func TestAAPCL6_FreshTokens(t *testing.T) {
	asGiven(t)
	p, other := newPretender(t), newPretender(t)
	p.says("POST /agent/register", 200, agentOf("pending", `{"capability":"pay","status":"pending"}`))
	p.first("GET /agent/status", 200, agentOf("pending", `{"capability":"pay","status":"pending"}`))
	p.first("GET /agent/status", 200, agentOf("pending", `{"capability":"pay","status":"pending"}`))
	h := p.connected(t)
	p.first("POST /capability/execute", 202, `{"status":"pending","status_url":"`+p.URL+`/jobs/1"}`)
	p.says("GET /jobs/1", 200, `{"status":"completed","result":1}`)
	p.first("GET /jobs/1", 200, `{"status":"pending"}`)
	h.pay(0, `{}`)
	p.says("GET /capability/describe", 200, `{"name":"pay","description":"Pay","location":"`+other.URL+`/elsewhere"}`)
	other.says("POST /elsewhere", 200, `{"data":1}`)
	h.pay(0, `{}`)

	audiences := map[string]string{
		"POST /agent/register": p.URL, "GET /agent/status": p.URL, "GET /capability/describe": p.URL,
		"POST /capability/execute": p.URL + "/capability/execute", "GET /jobs/1": p.URL + "/capability/execute", "POST /elsewhere": other.URL + "/elsewhere",
	}
	seen, ids := map[string]bool{}, map[any]bool{}
	for _, r := range append(p.to(""), other.to("")...) {
		want, named := audiences[r.method+" "+r.path]
		if !named {
			if r.bearer != "" {
				t.Errorf("%s %s has a token", r.method, r.path)
			}
			continue
		}
		c := r.claims()
		if seen[r.bearer] || ids[c["jti"]] || c["aud"] != want || c["exp"].(float64)-c["iat"].(float64) > 60 {
			t.Errorf("%s %s: %v; want a new token for %s", r.method, r.path, c, want)
		}
		seen[r.bearer], ids[c["jti"]] = true, true
	}
	if n := len(p.to("GET /agent/status")); n < 3 || len(p.to("GET /jobs/1")) != 2 || len(other.to("POST /elsewhere")) != 1 {
		t.Errorf("%d polls", n)
	}
	t.Run("AAP-Z1 no private key is sent", func(t *testing.T) {
		keys := 0
		for _, r := range append(p.to(""), other.to("")...) {
			c := r.claims()
			text, _ := json.Marshal(c)
			if keys += strings.Count(string(text), `"kty"`); strings.Contains(string(text)+r.body, `"d":`) {
				t.Errorf("%s %s: %s %s", r.method, r.path, text, r.body)
			}
		}
		if keys == 0 {
			t.Error("no key is sent at all")
		}
	})
}

// TestAAPCL7_PlacesThatNothingIsSentTo: jobs elsewhere, services without TLS,
// redirects.
func TestAAPCL7_PlacesThatNothingIsSentTo(t *testing.T) {
	asGiven(t)
	p, evil := newPretender(t), newPretender(t)
	h := p.connected(t)
	evil.says("GET /jobs/1", 200, `{"status":"completed","result":1}`)
	refused := func(what, why string) {
		t.Helper()
		if s := h.pay(1, `{}`); !strings.Contains(s.err, why) {
			t.Errorf("%s: %s", what, s.err)
		}
		if n := len(evil.to("")); n != 0 {
			t.Errorf("%s: %d requests went there", what, n)
		}
	}
	for what, at := range map[string]string{"a job elsewhere": evil.URL + "/jobs/1", "a job without TLS": "http://bank.example/jobs/1", "a path": "/jobs/1"} {
		p.first("POST /capability/execute", 202, `{"status":"pending","status_url":"`+at+`"}`)
		refused(what, "nothing is sent to")
	}
	p.first("POST /capability/execute", 307, "", "Location", evil.URL+"/capability/execute")
	refused("a redirect", "Temporary Redirect")
	p.first("GET /agent/status", 302, "", "Location", evil.URL+"/agent/status")
	h.must(1, "agent", "status", "agt_1")
	refusedAt := len(evil.to(""))
	p.says("GET /capability/describe", 200, `{"name":"pay","description":"Pay","location":"http://bank.example/run"}`)
	refused("a service without TLS", "want https")
	if refusedAt != 0 {
		t.Error("a redirect of a token was followed")
	}
}

// TestAAPCL9_WiderThanAsked: a provider that gives more than was asked is told, and
// the agent stays within what it asked.
func TestAAPCL9_WiderThanAsked(t *testing.T) {
	asGiven(t)
	p, h := newPretender(t), newAgentHost(t)
	p.says("POST /agent/register", 200, agentOf("active", `{"capability":"pay","status":"active","constraints":{"amount":{"max":100000}}}`))
	_, s := h.must(0, "agent", "connect", p.URL, "--name", "n", "--capability", "pay", "--constraints", `{"pay": {"amount": {"max": 100}}}`)
	if !strings.Contains(s.err, "wider than it was asked for") {
		t.Errorf("%s", s.err)
	}
	if s := h.pay(1, `{"amount": 101}`); !strings.Contains(s.err, "beyond what the agent asked for") || len(p.to("POST /capability/execute")) != 0 {
		t.Errorf("%s", s.err)
	}
	h.pay(0, `{"amount": 100}`)
}

// TestAAPCL13_KeysAndDenials: keys are kept encrypted, and a denial is final
// (AAP-A5).
func TestAAPCL13_KeysAndDenials(t *testing.T) {
	asGiven(t)
	bank, h := startExampleBank(t), newAgentHost(t)
	connect := []string{"agent", "connect", bank, "--name", "Other", "--capability", "ticker", "--output", "json"}
	waiting, _ := h.must(6, append(connect, "--no-wait")...)
	h.answer("deny", bank, waiting, "--reason", "not today")
	denied, _ := h.must(3, "agent", "status", waiting["agent_id"].(string), "--wait", "--output", "json")
	if denied["denied"] != true || !strings.Contains(denied["message"].(string), "a person denied") {
		t.Errorf("%v", denied)
	}
	again, _ := h.must(3, connect...)
	if !strings.Contains(again["message"].(string), "not made again") {
		t.Errorf("%v", again)
	}
	if out, _ := h.must(0, "approval", "list", "--server", bank, "--as", "alice", "--output", "json"); len(out["approvals"].([]any)) != 0 {
		t.Errorf("a person was asked again: %v", out)
	}
	waiting, _ = h.must(6, append(connect, "--no-wait", "--again")...)
	h.answer("approve", bank, waiting)
	h.must(0, "agent", "status", waiting["agent_id"].(string), "--wait")

	info, err := os.Stat(h.store())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	data, err := os.ReadFile(h.store())
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Sealed []byte }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Sealed) == 0 {
		t.Fatalf("the store is %.100s: %v", data, err)
	}
	// Nothing shorter: noise of this size has a word of three letters now and then.
	for _, word := range []string{`"kty":"OKP"`, waiting["agent_id"].(string), bank} {
		if bytes.Contains(data, []byte(word)) || bytes.Contains(file.Sealed, []byte(word)) {
			t.Errorf("%q can be read in the store", word)
		}
	}
	h.must(1, "agent", "list", "--passphrase-file", h.other("another passphrase"))
	if s := h.run("agent", "list", "--passphrase-file", h.other("short")); s.code != 1 || !strings.Contains(s.err, "at least 16") {
		t.Errorf("exit %d, %s", s.code, s.err)
	}
	if err := os.Chmod(h.store(), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := h.run("agent", "list"); s.code != 1 || !strings.Contains(s.err, "chmod 600") {
		t.Errorf("exit %d, %s", s.code, s.err)
	}
}

// other is a file with another passphrase.
func (h *agentHost) other(passphrase string) string {
	h.t.Helper()
	name := h.store() + ".other"
	if err := os.WriteFile(name, []byte(passphrase+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// TestAAPCL11_Directories are searched, and not believed.
func TestAAPCL11_Directories(t *testing.T) {
	asGiven(t)
	p, evil, h := newPretender(t), newPretender(t), newAgentHost(t)
	evil.discovery(fact{"issuer": p.URL})
	directory := newPretender(t)
	directory.says("GET /api/search", 200, `{"providers":[{"issuer":"`+p.URL+`","provider_name":"lies"},{"issuer":"`+evil.URL+`"},{"issuer":"http://bank.example"}],"intent":"pay","count":3}`)
	out, s := h.must(0, "agent", "search", "pay", "--directory", directory.URL, "--output", "json")
	found := out["providers"].([]any)
	if len(found) != 1 || found[0].(fact)["provider_name"] != "pretender" || strings.Count(s.err, "warning") != 2 {
		t.Errorf("%v\n%s", out, s.err)
	}
	if asked := directory.to("GET /api/search"); len(asked) != 1 || !slices.Contains(strings.Split(asked[0].query, "&"), "intent=pay") {
		t.Errorf("%v", asked)
	}
	if s := h.run("agent", "search", "pay", "--directory", "http://bank.example"); s.code != 1 {
		t.Errorf("a directory without TLS: exit %d, %s", s.code, s.err)
	}
}
