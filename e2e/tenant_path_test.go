package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestATK18_TenantsBesideThePath has bob name his tenant in the query or the body of
// HTTP+JSON and not in the path, where a stock agent looks for it: to the agent the call
// would be about alice's task of that number, which is in none.
func TestATK18_TenantsBesideThePath(t *testing.T) {
	inTenantsOn(t, wire{overREST, "1.0"}, options{}, func(t *testing.T, w *town) {
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		mine, theirs := alice.pushes(), bob.pushes()
		task, _ := alice.begins(mine, "", "alice's words")
		if same, _ := bob.begins(theirs, "t1", "bob's words"); same != task {
			t.Fatalf("the agent does not number its tasks in each tenant: %s and %s", task, same)
		}
		const message = `{"tenant":"t1","message":{"messageId":"m","taskId":"1","role":"ROLE_USER","parts":[{"text":"and bob's"}]}}`
		configs := "/tasks/" + task + "/pushNotificationConfigs"
		for _, try := range []struct{ operation, method, path, body string }{
			{"a2a.task.read", "GET", "/tasks/" + task + "?tenant=t1", ""},
			{"a2a.task.read", "GET", "/tasks?tenant=t1", ""},
			{"a2a.task.read", "GET", "/tasks/" + task + ":subscribe?tenant=t1", ""},
			{"a2a.task.read", "POST", "/tasks/" + task + ":subscribe", `{"tenant":"t1"}`},
			{"a2a.task.cancel", "POST", "/tasks/" + task + ":cancel", `{"tenant":"t1"}`},
			{"a2a.task.cancel", "POST", "/tasks/" + task + ":cancel?tenant=t1", ""},
			{opMessage, "POST", "/message:send", message},
			{opMessage, "POST", "/message:stream", message},
			{"a2a.push", "POST", configs, `{"tenant":"t1","id":"c","url":"http://127.0.0.1:9/hook"}`},
			{"a2a.push", "GET", configs + "?tenant=t1", ""},
			{"a2a.push", "GET", configs + "/c?tenant=t1", ""},
			{"a2a.push", "DELETE", configs + "/c?tenant=t1", ""},
		} {
			w.documents.forget()
			args := map[string]any{"tenant": "t1"}
			if strings.HasPrefix(try.path, "/tasks/") || try.operation == opMessage {
				args["task"] = task
			}
			url := w.agentURL("documents") + try.path
			h := bob.signed(theirs, try.operation, args, try.method, url, []byte(try.body))
			h.Set("A2A-Version", "1.0")
			if try.body != "" {
				h.Set("Content-Type", "application/json")
			}
			status, _, _, said := w.raw(http.DefaultClient, try.method, url, h, try.body)
			if status != http.StatusBadRequest || !strings.Contains(said, `"task_ambiguous"`) || !strings.Contains(said, "path") || strings.Contains(said, "alice") {
				t.Errorf("ATK-18 %s %s %s: %d %s", try.method, try.path, try.body, status, said)
			}
			if n := len(w.documents.got()); n > 0 {
				t.Errorf("ATK-18 %s %s: the agent was asked", try.method, try.path)
			}
		}
	})
}

// TestATK18_MethodsWithoutATenant calls methods that only configuration knows, in which
// no member names the tenant. The owner and tenant of the tasks in the answer are
// unknown, so bob does not get alice's task of that number.
func TestATK18_MethodsWithoutATenant(t *testing.T) {
	w := start(t, options{mode: "prefer", numbering: true, agent: "    enforces: context\n    unknown_methods: [acme/ask, POST /t1/ask]\n    headers: [Asks]"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	mine, theirs := alice.reports(), bob.reports()
	at := w.agentURL("documents")
	told := func(answer string) {
		w.documents.sees(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/t1/ask") || r.URL.Path == "/ask" || r.Header.Get("Asks") != "" {
				answerFirst(rw, answer)
			}
		})
	}
	for n, ask := range []struct{ path, body, answer string }{
		{"/t1/ask", `{}`, `{"task":{"id":"1","contextId":"c1","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`},
		{"", `{"jsonrpc":"2.0","id":1,"method":"acme/ask","params":["t1"]}`, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"2","contextId":"c2","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}}`},
	} {
		told(ask.answer)
		h := bob.headers(at + ask.path)
		h.Set("A2A-Version", "1.0")
		h.Set("Content-Type", "application/json")
		h.Set("Asks", "yes")
		if status, _, _, said := w.raw(http.DefaultClient, http.MethodPost, at+ask.path, h, ask.body); status != http.StatusOK || !strings.Contains(said, "INPUT_REQUIRED") {
			t.Fatalf("%s: %d %s", ask.path, status, said)
		}
		w.documents.sees(nil)
		task, _ := alice.begins(mine, "", "alice's words")
		if want := strconv.Itoa(n + 1); task != want {
			t.Fatalf("the agent gave %q; want %s", task, want)
		}
		read := func(c *caller, held granted) answer {
			return c.inTenant(held, "", "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
		}
		if a := read(alice, mine); a.Error != nil {
			t.Errorf("ATK-18 %q: her own: %s", ask.path, a.Raw)
		}
		if a := read(bob, theirs); a.Error == nil || strings.Contains(string(a.Raw), "alice") {
			t.Errorf("ATK-18 %q: bob's: %s", ask.path, a.Raw)
		}
	}
}

// TestATK18_ContextsBesideTenants has an agent that is in a tenant alone, and may read
// none: what bob calls without one goes to alice's context in it, and is refused.
func TestATK18_ContextsBesideTenants(t *testing.T) {
	for _, on := range withTenants {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on, agent: "    enforces: context\n    client_contexts: true", says: func(card *a2a.AgentCard) {
				hasTenants(card)
				card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool { return i.Tenant != "t1" })
			}})
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			mine, theirs := alice.reports(), bob.reports()
			says := func(c *caller, held granted, tenant string) answer {
				return c.inTenant(held, tenant, opMessage, map[string]any{"context": "one"}, about("SendMessage", map[string]any{"contextId": "one"}))
			}
			if a := says(alice, mine, "t1"); a.Error != nil {
				t.Fatalf("%s", a.Raw)
			}
			if a := says(bob, theirs, ""); a.Error == nil || a.Error.Code != -32001 {
				t.Errorf("ATK-18 alice's context without a tenant: %s", a.Raw)
			}
		})
	}
}

// TestEXT28_TraceOfATenant shows the calls of one number in each of the tenants of an
// agent: of all, of one, and of none; by a record, of the tenant that it is in.
func TestEXT28_TraceOfATenant(t *testing.T) {
	w := start(t, options{numbering: true, agent: "    enforces: context"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	mine, theirs := alice.reports(), bob.reports()
	records := map[string]string{}
	for tenant, of := range map[string]struct {
		who  *caller
		held granted
	}{"": {alice, mine}, "t1": {alice, mine}, "t2": {bob, theirs}} {
		task, _ := of.who.begins(of.held, tenant, "words")
		a := of.who.inTenant(of.held, tenant, "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
		if a.Error != nil || task != "1" {
			t.Fatalf("%s", a.Raw)
		}
		records[tenant] = a.Header.Get("Powerbox-Decision")
	}
	name := filepath.Join(t.TempDir(), "bundle.jsonl")
	w.run("evidence", "export", "--out", name)
	tenants := func(args ...string) []string {
		args = append([]string{"trace", "--output", "json"}, args...)
		text := w.run(args...)
		if other := offline(t, append(args, "--from", name)...); other != text {
			t.Errorf("EXT-28 %q: the server says\n%s\nthe bundle\n%s", args, text, other)
		}
		var tree struct {
			Hops []struct{ Tenant string }
		}
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		var in []string
		for _, h := range tree.Hops {
			in = append(in, h.Tenant)
		}
		slices.Sort(in)
		return in
	}
	for _, try := range []struct{ args, want []string }{
		{[]string{"1"}, []string{"", "", "t1", "t1", "t2", "t2"}},
		{[]string{"1", "--tenant", "t1"}, []string{"t1", "t1"}},
		{[]string{"1", "--tenant", ""}, []string{"", ""}},
		{[]string{records["t2"]}, []string{"t2", "t2"}},
	} {
		if got := tenants(try.args...); !slices.Equal(got, try.want) {
			t.Errorf("EXT-28 trace %q: calls in %q; want %q", try.args, got, try.want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), binary, "trace", records["t2"], "--tenant", "t2", "--from", name).CombinedOutput(); err == nil || !strings.Contains(string(out), "--tenant goes with the id of a task") {
		t.Errorf("a record in a tenant: %v %s", err, out)
	}
}

// TestATK18_PowerboxCallsInTheTenantOfTheCard has powerbox call an agent whose card names
// a tenant for its calls: with a capability, and without.
func TestATK18_PowerboxCallsInTheTenantOfTheCard(t *testing.T) {
	w := start(t, options{mode: "prefer", numbering: true, agent: "    enforces: context", says: func(card *a2a.AgentCard) {
		for _, i := range card.SupportedInterfaces {
			i.Tenant = "t1"
		}
	}})
	w.must("keys", "new", "key.jwk")
	own := []string{"--key", "key.jwk", "--session-file", w.sessionFile()}
	at := w.agentURL("documents")
	w.must(append([]string{"request", at, "--grant", "documents:read", "--purpose", "p", "--out", "held.json"}, own...)...)
	for _, more := range [][]string{{"--capability", "held.json"}, nil} {
		w.documents.forget()
		out := w.must(slices.Concat([]string{"call", at, "--skill", "search_documents", "--arguments", `{"query":"q"}`}, own, more)...)
		if got := w.documents.got(); len(got) != 1 || !strings.Contains(string(got[0].body), `"tenant":"t1"`) || !strings.Contains(out, "in tenant t1") {
			t.Errorf("ATK-18 %q: %s\n%s", more, out, got)
		}
	}
}

// TestATK18_TenantsIn03 has bob name his tenant in 0.3, which has none, to an agent that
// speaks both versions: to the agent the call is about alice's task of that number.
func TestATK18_TenantsIn03(t *testing.T) {
	for _, on := range []wire{{"JSON-RPC", "0.3"}, {overREST, "0.3"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{numbering: true, agent: "    enforces: context"})
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			mine, theirs := alice.reports(), bob.reports()
			task, _ := alice.begins(mine, "", "alice's words")
			if same, _ := bob.begins(theirs, "t1", "bob's words"); same != task {
				t.Fatalf("the agent does not number its tasks in each tenant: %s and %s", task, same)
			}
			w.documents.forget()
			w.on = on
			for name, body := range map[string][]byte{
				"a2a.task.read":   rpc("tasks/get", map[string]any{"id": task}),
				"a2a.task.cancel": rpc("tasks/cancel", map[string]any{"id": task}),
			} {
				a := bob.inTenant(theirs, "t1", name, map[string]any{"task": task}, body)
				if a.Error == nil || !strings.Contains(a.Error.Message, "which A2A 0.3 does not have") || len(w.documents.got()) > 0 {
					t.Errorf("ATK-18 %s: %s", name, a.Raw)
				}
			}
		})
	}
}

// TestATK18_ObservedTenantsIn03 has observe let such a call pass, which it does with
// everything that HTTP can carry: the task that it begins is in none, and is not bob's in
// his tenant, where it may be carol's.
func TestATK18_ObservedTenantsIn03(t *testing.T) {
	w := start(t, options{mode: "observe", numbering: true, agent: "    enforces: context"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	mine, theirs := alice.reports(), bob.reports()
	at := w.agentURL("documents")
	h := bob.headers(at)
	h.Set("A2A-Version", "0.3")
	if a := w.post(at, []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"tenant":"t1","message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"bob's words"}]}}}`), h); a.Error != nil || !strings.Contains(string(a.Raw), "in tenant : bob's words") {
		t.Fatalf("%s", a.Raw)
	}
	w.operator(http.MethodPut, "/v1/agents/documents/mode", map[string]string{"mode": "require"})
	task, _ := alice.begins(mine, "t1", "alice's words")
	read := func(c *caller, held granted) answer {
		return c.inTenant(held, "t1", "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
	}
	if a := read(alice, mine); task != "1" || a.Error != nil {
		t.Errorf("ATK-18 her own: %s", a.Raw)
	}
	if a := read(bob, theirs); a.Error == nil || strings.Contains(string(a.Raw), "alice") {
		t.Errorf("ATK-18 bob's: %s", a.Raw)
	}
}

// TestATK18_TenantsThatAreDropped: an agent on a2a-go 2.4.0 takes the end of a task in a
// tenant, over gRPC, for that of the task of its number which is in none. Where that
// is another party's, the call does not get there, unless the operator says that this
// agent does read it.
func TestATK18_TenantsThatAreDropped(t *testing.T) {
	test := func(agent string, reads bool) func(*testing.T) {
		return func(t *testing.T) {
			w := start(t, options{agent: agent, numbering: true, on: wire{overGRPC, "1.0"}})
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			hers, his := alice.pushes(), bob.pushes()
			task, context := alice.begins(hers, "t1", "alice's words")
			if beside, _ := bob.begins(his, "", "bob's words"); beside != task {
				t.Fatalf("the agent does not number its tasks in each tenant: %s and %s", task, beside)
			}
			own, _ := alice.begins(hers, "t2", "hers in another one")
			for _, name := range []string{"SubscribeToTask", "CancelTask"} {
				w.documents.forget()
				a := alice.inTenant(hers, "t1", ofTask[name].op, argumentsOf(name, task, context), ofTask[name].body(task, context))
				reached := len(w.documents.got()) > 0
				if reads != reached || reads != (a.Error == nil) || !reads && a.Error.Code != -32001 {
					t.Errorf("ATK-18 %s, read: %t: reached the agent: %t, %s", name, reads, reached, a.Raw)
				}
				if a := bob.inTenant(his, "", "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task})); a.Error != nil || strings.Contains(string(a.Raw), "ended") {
					t.Errorf("ATK-18 after %s the other's task is %s", name, a.Raw)
				}
			}
			// Reads, and tasks whose number no other caller has, are not affected.
			if a := alice.inTenant(hers, "t1", "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task})); a.Error != nil {
				t.Errorf("ATK-18 reading: %s", a.Raw)
			}
			more, _ := alice.begins(hers, "t2", "a second one")
			if a := alice.inTenant(hers, "t2", "a2a.task.cancel", map[string]any{"task": more}, rpc("CancelTask", map[string]any{"id": more})); more == own || a.Error != nil {
				t.Errorf("ATK-18 with nobody else's of that number: %s", a.Raw)
			}
		}
	}
	t.Run("dropped", func(t *testing.T) { onStores(t, test("    enforces: context", false)) })
	t.Run("read", func(t *testing.T) { onStores(t, test("    enforces: context\n    grpc_tenants: read", true)) })
}
