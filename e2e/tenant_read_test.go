package e2e

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestATK18_PathsOf03AreTenantsTo10 calls an agent that speaks 1.0 alone at the paths of
// 0.3, without a version: to the agent they are in a tenant of that name.
func TestATK18_PathsOf03AreTenantsTo10(t *testing.T) {
	w := start(t, options{mode: "prefer", numbering: true, says: func(card *a2a.AgentCard) {
		card.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i *a2a.AgentInterface) bool { return i.ProtocolVersion != a2a.Version })
	}})
	for path, want := range map[string]bool{"/message:send": true, "/t1/message:send": true, "/v1/message:send": false} {
		w.documents.forget()
		res, err := http.Post(w.agentURL("documents")+path, "application/json", strings.NewReader(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := len(w.documents.got()) > 0; got != want || (res.StatusCode == http.StatusOK) != want {
			t.Errorf("ATK-18 %s: %d %s", path, res.StatusCode, said)
		}
	}
}

// TestATK18_OneTenantToEveryReader names a tenant in several places, or so that
// readers differ in which one they see. Places that agree are one tenant.
func TestATK18_OneTenantToEveryReader(t *testing.T) {
	w := start(t, options{mode: "prefer", numbering: true, agent: "    push: " + relayHere})
	at := w.agentURL("documents")
	send := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("A2A-Version", "1.0")
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		a := w.read(request{}, res)
		return res.StatusCode, string(a.Raw)
	}
	const message = `"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}`
	const inline = `"configuration":{"taskPushNotificationConfig":{"url":"http://127.0.0.1:9/","tenant":"t2"}}`
	long := strings.Repeat("t", 1025)
	for _, try := range []struct{ name, method, path, body, reason string }{
		{"path and body", "POST", "/t1/message:send", `{"tenant":"t2",` + message + `}`, "task_ambiguous"},
		{"path and body in another case", "POST", "/t1/message:send", `{"Tenant":"t2",` + message + `}`, "member_ambiguous"},
		{"body twice", "POST", "/message:send", `{"tenant":"t1","tenant":"t2",` + message + `}`, "syntax"},
		{"path and query", "GET", "/t1/tasks/1?tenant=t2", "", "task_ambiguous"},
		{"path and query, encoded", "GET", "/t1/tasks/1?%74enant=t2", "", "task_ambiguous"},
		{"query in another case", "GET", "/tasks/1?Tenant=t2", "", "member_ambiguous"},
		{"query twice", "GET", "/tasks/1?tenant=t1&tenant=t2", "", "query"},
		{"body alone", "POST", "/message:send", `{"tenant":"t1",` + message + `}`, "task_ambiguous"},
		{"body alone, a number", "POST", "/message:send", `{"tenant":1,` + message + `}`, "params"},
		{"query alone, encoded", "GET", "/tasks/1?%74enant=t1", "", "task_ambiguous"},
		{"query beside a body", "POST", "/message:send?tenant=t1", `{` + message + `}`, "query"},
		{"a slash in a tenant", "GET", "/t1%2Ft2/tasks/1", "", "path"},
		{"an encoding in an encoding", "GET", "/t%2531/tasks/1", "", "path"},
		{"a dot", "GET", "/%2e/tasks/1", "", "path"},
		{"a control character", "GET", "/t%00/tasks/1", "", "path"},
		{"two tenants", "GET", "/t1/t2/tasks/1", "", "method_unknown"},
		{"a list of one tenant, or a task", "GET", "/tasks/tasks", "", "path"},
		{"a card of one tenant, or a task", "GET", "/tasks/extendedAgentCard", "", "path"},
		{"a tenant that is too long", "GET", "/" + long + "/tasks/1", "", "task_ambiguous"},
		{"a configuration of another tenant", "POST", "/t1/message:send", `{` + message + `,` + inline + `}`, "task_ambiguous"},
		{"a configuration of a tenant that the call is not of", "POST", "/message:send", `{` + message + `,` + inline + `}`, "task_ambiguous"},
		{"a number", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":1,"id":"1"}}`, "params"},
		{"JSON-RPC in another case", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"t1","TENANT":"t2","id":"1"}}`, "member_ambiguous"},
		{"JSON-RPC too long", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"` + long + `","id":"1"}}`, "task_ambiguous"},
		{"JSON-RPC with a configuration", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{` + message + `,` + inline + `}}`, "task_ambiguous"},
	} {
		w.documents.forget()
		if _, said := send(try.method, try.path, try.body); !strings.Contains(said, `"`+try.reason+`"`) {
			t.Errorf("ATK-18 %s: %s", try.name, said)
		}
		if n := len(w.documents.got()); n > 0 {
			t.Errorf("ATK-18 %s: the agent was asked", try.name)
		}
	}
	for path, body := range map[string]string{
		"/t1/message:send":     `{` + message + `}`,
		"/%74%31/message:send": `{"tenant":"t1",` + message + `}`,
		"/t1/message:send?":    `{"tenant":"",` + message + `}`,
	} {
		if code, said := send("POST", path, body); code != http.StatusOK || !strings.Contains(said, "in tenant t1: hello") {
			t.Errorf("ATK-18 %s %s: %d %s", path, body, code, said)
		}
	}
}

// TestATK18_InterfacesOfTenants calls an agent that has an interface for each of its
// tenants: a call goes to that of its own, and to the first where the card knows of no
// such tenant.
func TestATK18_InterfacesOfTenants(t *testing.T) {
	for _, on := range withTenants[:2] { // gRPC has one address for all
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on, mode: "prefer", numbering: true, says: func(card *a2a.AgentCard) {
				hasTenants(card)
				for _, i := range card.SupportedInterfaces {
					if i.Tenant != "" {
						i.URL += "?of=" + i.Tenant
					}
				}
			}})
			for tenant, want := range map[string]string{"t1": "t1", "t2": "t2", "": "", "t3": ""} {
				got := "nothing"
				w.documents.sees(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.Query().Get("of") })
				if a := w.post(w.agentURL("documents"), in(tenant, text("SendMessage", "hello")), http.Header{}); a.Error != nil || got != want {
					t.Errorf("ATK-18 a call in tenant %q goes to the interface of %q: %s", tenant, got, a.Raw)
				}
			}
		})
	}
}

// TestATK18_WhatCannotBeReadBindsNothing has an unreadable call in a tenant pass in
// observe. The owner and tenant of the tasks in its answer are unknown, so bob does
// not get alice's task of that number without a tenant.
func TestATK18_WhatCannotBeReadBindsNothing(t *testing.T) {
	w := start(t, options{mode: "observe", numbering: true, agent: "    enforces: context"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	mine, theirs := alice.reports(), bob.reports()
	unread := strings.Replace(string(in("t1", text("SendMessage", "hello"))), `"params":{`, `"params":{"TENANT":"t1",`, 1)
	at := w.agentURL("documents")
	if a := w.post(at, []byte(unread), bob.headers(at)); a.Error != nil || !strings.Contains(string(a.Raw), "in tenant t1") {
		t.Fatalf("%s", a.Raw)
	}
	w.operator(http.MethodPut, "/v1/agents/documents/mode", map[string]string{"mode": "require"})
	task, _ := alice.begins(mine, "", "alice's words")
	read := func(c *caller, held granted) answer {
		return c.inTenant(held, "", "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
	}
	if a := read(alice, mine); task != "1" || a.Error != nil {
		t.Errorf("ATK-18 her own: %s", a.Raw)
	}
	if a := read(bob, theirs); a.Error == nil || strings.Contains(string(a.Raw), "alice") {
		t.Errorf("ATK-18 bob's: %s", a.Raw)
	}
}

// hasTenants has a card name two tenants.
func hasTenants(card *a2a.AgentCard) {
	for _, tenant := range []string{"t1", "t2"} {
		for _, i := range slices.Clone(card.SupportedInterfaces) {
			if i.ProtocolVersion == a2a.Version && i.Tenant == "" {
				of := *i
				of.Tenant = tenant
				card.SupportedInterfaces = append(card.SupportedInterfaces, &of)
			}
		}
	}
}

// TestATK18_ContextsOfTenants has callers choose contexts: in a tenant only where the
// agent says that it has some, or a caller could take another party's context through
// a tenant that the agent ignores.
func TestATK18_ContextsOfTenants(t *testing.T) {
	says := func(c *caller, held granted, tenant, context string) answer {
		return c.inTenant(held, tenant, opMessage, map[string]any{"context": context}, about("SendMessage", map[string]any{"contextId": context}))
	}
	for _, on := range wires {
		t.Run(on.String()+" without tenants", func(t *testing.T) {
			o := options{on: on, agent: "    enforces: context\n    client_contexts: true"}
			if on.version == "0.3" {
				o.says = hasTenants // which 0.3 has not, whatever the card says of 1.0
			}
			w := start(t, o)
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			mine, theirs := alice.reports(), bob.reports()
			if a := says(alice, mine, "", "one"); a.Error != nil {
				t.Fatalf("%s", a.Raw)
			}
			if on == (wire{overGRPC, "0.3"}) {
				return // whose messages have no field for one
			}
			want := -32001
			if on.version == "0.3" {
				want = -32602
			}
			for _, tenant := range []string{"t1", "documents", " "} {
				if a := says(bob, theirs, tenant, "one"); a.Error == nil || a.Error.Code != want {
					t.Errorf("ATK-18 alice's context by tenant %q: %s", tenant, a.Raw)
				}
			}
		})
	}
	inTenants(t, options{agent: "\n    client_contexts: true", says: hasTenants}, func(t *testing.T, w *town) {
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		mine, theirs := alice.reports(), bob.reports()
		if a := says(alice, mine, "t1", "one"); a.Error != nil {
			t.Errorf("ATK-18 an agent with tenants has no contexts of clients: %s", a.Raw)
		}
		if a := says(bob, theirs, "t2", "one"); a.Error != nil {
			t.Errorf("ATK-18 the same in a tenant of its own: %s", a.Raw)
		}
		for tenant, c := range map[string]*caller{"t1": bob, "t2": alice} {
			if a := says(c, map[*caller]granted{alice: mine, bob: theirs}[c], tenant, "one"); a.Error == nil || a.Error.Code != -32001 {
				t.Errorf("ATK-18 another's in %s: %s", tenant, a.Raw)
			}
		}
	})
}
