package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/token"
)

// withTenants are the ways to call in which a tenant can be named.
var withTenants = []wire{{}, {overREST, "1.0"}, {overGRPC, "1.0"}}

// inTenants runs a test in front of an agent that numbers its tasks in each of its
// tenants: at the server's own gateway on both stores, and at two remote gateways.
func inTenants(t *testing.T, o options, test func(t *testing.T, w *town)) {
	for _, on := range withTenants {
		inTenantsOn(t, on, o, test)
	}
}

// inTenantsOn is inTenants on one wire.
func inTenantsOn(t *testing.T, on wire, o options, test func(t *testing.T, w *town)) {
	o.agent, o.numbering, o.on = "    grpc_tenants: read\n    enforces: context\n    push: "+relayHere+o.agent, true, on
	t.Run(on.String(), func(t *testing.T) {
		onStores(t, func(t *testing.T) { test(t, start(t, o)) })
		t.Run("apart", func(t *testing.T) {
			w, _ := startRemote(t, 2, o)
			test(t, w)
		})
	})
}

// in is a call of JSON-RPC in a tenant.
func in(tenant string, body []byte) []byte {
	var call struct {
		Method string         `json:"method"`
		Params map[string]any `json:"params"`
	}
	if err := json.Unmarshal(body, &call); err != nil {
		panic(err)
	}
	if tenant != "" {
		call.Params["tenant"] = tenant
	}
	return rpc(call.Method, call.Params)
}

// inTenant makes a call in a tenant; the proof names what the call does.
func (c *caller) inTenant(held granted, tenant, operation string, args map[string]any, body []byte) answer {
	c.w.t.Helper()
	if tenant != "" {
		args = merged(args, map[string]any{"tenant": tenant})
	}
	return c.present("documents", in(tenant, body), proven{chain: []string{held.Token}, operation: operation, arguments: args})
}

// begins has a task begun in a tenant.
func (c *caller) begins(held granted, tenant, words string) (task, context string) {
	c.w.t.Helper()
	a := c.inTenant(held, tenant, opMessage, nil, text("SendMessage", words))
	var result struct {
		Task struct{ ID, ContextID string }
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
		c.w.t.Fatalf("no task: %v %s\n%s", err, a.Raw, c.w.log)
	}
	return result.Task.ID, result.Task.ContextID
}

// ofTask are calls about one task, by name, with the operation that each needs.
var ofTask = map[string]struct {
	op   string
	body func(task, context string) []byte
}{
	"GetTask":    {"a2a.task.read", func(task, _ string) []byte { return rpc("GetTask", map[string]any{"id": task}) }},
	"CancelTask": {"a2a.task.cancel", func(task, _ string) []byte { return rpc("CancelTask", map[string]any{"id": task}) }},
	"SubscribeToTask": {"a2a.task.read", func(task, _ string) []byte {
		return rpc("SubscribeToTask", map[string]any{"id": task})
	}},
	"a message to it": {opMessage, func(task, _ string) []byte { return about("SendMessage", map[string]any{"taskId": task}) }},
	"a stream to it":  {opMessage, func(task, _ string) []byte { return about("SendStreamingMessage", map[string]any{"taskId": task}) }},
	"a message to its context": {opMessage, func(_, context string) []byte {
		return about("SendMessage", map[string]any{"contextId": context})
	}},
	"a reference to it": {opMessage, func(task, _ string) []byte {
		return about("SendMessage", map[string]any{"referenceTaskIds": []any{task}})
	}},
	"setting a configuration": {"a2a.push", func(task, _ string) []byte {
		return rpc("CreateTaskPushNotificationConfig", map[string]any{"taskId": task, "id": "c", "url": "http://127.0.0.1:9/hook"})
	}},
	"reading a configuration": {"a2a.push", func(task, _ string) []byte {
		return rpc("GetTaskPushNotificationConfig", map[string]any{"taskId": task, "id": "c"})
	}},
	"listing configurations": {"a2a.push", func(task, _ string) []byte {
		return rpc("ListTaskPushNotificationConfigs", map[string]any{"taskId": task})
	}},
	"deleting a configuration": {"a2a.push", func(task, _ string) []byte {
		return rpc("DeleteTaskPushNotificationConfig", map[string]any{"taskId": task, "id": "c"})
	}},
}

// argumentsOf is what the proof of a call about a task says.
func argumentsOf(name, task, context string) map[string]any {
	switch name {
	case "a message to its context":
		return map[string]any{"context": context}
	case "a reference to it":
		return map[string]any{}
	}
	return map[string]any{"task": task}
}

// TestATK18_TenantsOfOneAgent has alice and bob begin a task each, in tenants of their
// own, which the agent gives one number. Each has its own by every method, and to the
// other it looks like one that does not exist, as does either without a tenant.
func TestATK18_TenantsOfOneAgent(t *testing.T) {
	inTenants(t, options{}, func(t *testing.T, w *town) {
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		holds := map[*caller]granted{alice: alice.pushes(), bob: bob.pushes()}
		task, context := alice.begins(holds[alice], "t1", "alice's words")
		if theirs, second := bob.begins(holds[bob], "t2", "bob's words"); theirs != task || second != context {
			t.Fatalf("the agent does not number its tasks in each tenant: %s and %s", task, theirs)
		}
		const none, nowhere = "77", "c77"
		for _, of := range []struct {
			who          *caller
			mine, theirs string
			words        string
		}{{alice, "t1", "t2", "alice's words"}, {bob, "t2", "t1", "bob's words"}} {
			w.documents.forget()
			for _, name := range slices.Sorted(maps.Keys(ofTask)) {
				one := ofTask[name]
				sent := func(tenant, task, context string) answer {
					return of.who.inTenant(holds[of.who], tenant, one.op, argumentsOf(name, task, context), one.body(task, context))
				}
				for _, tenant := range []string{of.theirs, "", strings.ToUpper(of.mine), of.mine + "2"} {
					a := sent(tenant, task, context)
					if a.Error == nil || a.Error.Code != -32001 || strings.Contains(string(a.Raw), "words") {
						t.Errorf("ATK-18 %s in tenant %q, from %s: %s", name, tenant, of.mine, a.Raw)
					}
					if got, want := faceless(a), faceless(sent(tenant, none, nowhere)); got != want {
						t.Errorf("ATK-18 %s: another's: %s\nnone: %s", name, got, want)
					}
				}
			}
			if n := len(w.documents.got()); n > 0 {
				t.Errorf("ATK-18 %d calls reached the agent", n)
			}
			a := of.who.inTenant(holds[of.who], of.mine, "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
			if a.Error != nil || !strings.Contains(string(a.Raw), "in tenant "+of.mine+": "+of.words) {
				t.Errorf("ATK-18 its own: %s", a.Raw)
			}
			if w.apart != "" {
				continue // whose records come later
			}
			if r := w.decided(a); r.TaskID != task || r.Powerbox.Tenant != of.mine {
				t.Errorf("EXT-22 recorded as task %q in %q", r.TaskID, r.Powerbox.Tenant)
			}
		}
		theirsGoOn(t, w, holds, map[*caller]string{alice: "t1", bob: "t2"}, task, context)
	})
}

// theirsGoOn has each do with its own task what a task is for, its end last.
func theirsGoOn(t *testing.T, w *town, holds map[*caller]granted, tenants map[*caller]string, task, context string) {
	t.Helper()
	sinks := map[*caller]*sink{}
	say := func(c *caller, name string) answer {
		return c.inTenant(holds[c], tenants[c], ofTask[name].op, argumentsOf(name, task, context), ofTask[name].body(task, context))
	}
	for c, tenant := range tenants {
		sinks[c] = newSink(t)
		a := c.inTenant(holds[c], tenant, "a2a.push", map[string]any{"task": task},
			rpc("CreateTaskPushNotificationConfig", merged(sinks[c].config(w.on, nil), map[string]any{"taskId": task})))
		if a.Error != nil {
			t.Fatalf("ATK-17 in tenant %s: %s\n%s", tenant, a.Raw, w.log)
		}
	}
	for c, tenant := range tenants {
		for _, name := range []string{"reading a configuration", "listing configurations"} {
			if a := say(c, name); a.Error != nil || !strings.Contains(string(a.Raw), sinks[c].url) || strings.Contains(string(a.Raw), "powerbox-push") {
				t.Errorf("ATK-17 %s in tenant %s: %s", name, tenant, a.Raw)
			}
		}
		for _, name := range []string{"a message to it", "a stream to it", "SubscribeToTask", "a reference to it", "a message to its context"} {
			if a := say(c, name); a.Error != nil || !strings.Contains(string(a.Raw), "in tenant "+tenant) {
				t.Errorf("ATK-18 %s in tenant %s: %s", name, tenant, a.Raw)
			}
		}
		// No event names a tenant. It comes to who set the configuration in it.
		if e := sinks[c].next(t, `"taskId":"`+task+`"`); !strings.Contains(string(e.body), "in tenant "+tenant) || strings.Contains(string(e.body), "tenant "+other(tenants, c)) {
			t.Errorf("ATK-17 the event of %s is %s", tenant, e.body)
		}
		if a := say(c, "deleting a configuration"); a.Error != nil {
			t.Errorf("ATK-18 in tenant %s: %s", tenant, a.Raw)
		}
	}
	for c, tenant := range tenants {
		a := say(c, "CancelTask")
		if a.Error != nil || !strings.Contains(string(a.Raw), "in tenant "+tenant) || strings.Count(string(a.Raw), "ended") != 1 {
			t.Errorf("ATK-18 the end in tenant %s: %s", tenant, a.Raw)
		}
	}
}

func other(tenants map[*caller]string, c *caller) string {
	for o, tenant := range tenants {
		if o != c {
			return tenant
		}
	}
	return ""
}

// TestATK18_ListsOfTenants lists the tasks of a tenant page by page: the caller's own
// in that tenant, though others and other tenants have tasks of the same numbers, and
// a token of a page is of use in its tenant alone.
func TestATK18_ListsOfTenants(t *testing.T) {
	inTenants(t, options{}, func(t *testing.T, w *town) {
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		holds := map[*caller]granted{alice: alice.reports(), bob: bob.reports()}
		whose := map[string][]*caller{"t1": {alice, bob, alice, alice, bob}, "t2": {bob, alice, bob, bob, alice}, "": {bob, bob, alice, bob, alice}}
		want := map[*caller]map[string][]string{alice: {}, bob: {}}
		for tenant, all := range whose {
			for n, c := range all {
				task, _ := c.begins(holds[c], tenant, fmt.Sprint("words ", n))
				want[c][tenant] = append(want[c][tenant], task)
			}
		}
		list := func(c *caller, tenant string, params map[string]any) (listed, answer) {
			a := c.inTenant(holds[c], tenant, "a2a.task.read", nil, rpc("ListTasks", params))
			var page listed
			_ = json.Unmarshal(a.Result, &page)
			return page, a
		}
		for c, tenants := range want {
			for tenant, tasks := range tenants {
				var got []string
				token := ""
				for pages := 0; pages == 0 || token != ""; pages++ {
					params := map[string]any{"pageSize": 1}
					if token != "" {
						params["pageToken"] = token
						for _, elsewhere := range []string{"t1", "t2", ""} {
							if page, a := list(c, elsewhere, params); elsewhere != tenant && (a.reason() != "page_token" || len(page.Tasks) > 0) {
								t.Errorf("ATK-18 a token of %q in %q: %s", tenant, elsewhere, a.Raw)
							}
						}
					}
					page, a := list(c, tenant, params)
					if a.Error != nil || pages > 5 {
						t.Fatalf("ATK-18 page %d of %q: %s\n%s", pages, tenant, a.Raw, w.log)
					}
					for _, one := range page.Tasks {
						got = append(got, one.ID)
					}
					token = page.Next
				}
				if !slices.Equal(got, tasks) {
					t.Errorf("ATK-18 listed in %q: %v; want %v", tenant, got, tasks)
				}
			}
			for tenant, all := range whose {
				context := map[string]any{"contextId": "c1"} // of the first task in each
				a := c.inTenant(holds[c], tenant, "a2a.task.read", map[string]any{"context": "c1"}, rpc("ListTasks", context))
				var page listed
				_ = json.Unmarshal(a.Result, &page)
				if mine := all[0] == c; a.Error != nil || (len(page.Tasks) == 1) != mine {
					t.Errorf("ATK-18 the first context of %q: %s", tenant, a.Raw)
				}
			}
			if page, a := list(c, "t3", map[string]any{}); a.Error != nil || len(page.Tasks) > 0 {
				t.Errorf("ATK-18 in a tenant that has none: %s", a.Raw)
			}
		}
	})
}

// TestATK18_CapabilitiesForATaskOfATenant asks for a capability for one task in one
// tenant, as in SEP-22: it is for no task of that number in another one, ends with
// its own, and a token that its holder binds to a task is for no tenant that it does
// not name.
func TestATK18_CapabilitiesForATaskOfATenant(t *testing.T) {
	inTenants(t, options{}, func(t *testing.T, w *town) {
		alice := w.caller(aliceToken)
		held := alice.reports()
		for _, tenant := range []string{"t1", "t2"} {
			if task, _ := alice.begins(held, tenant, "words"); task != "1" {
				t.Fatalf("task %s", task)
			}
		}
		ask := func(tenant, task string) answer {
			return alice.call("documents", "a2a/capabilities/request", map[string]any{
				"grants": []string{"documents:read"}, "purpose": "p", "task": task, "tenant": tenant, "resourceQuery": quarter("2025-Q1"),
			})
		}
		for _, tenant := range []string{"", "t3"} {
			if a := ask(tenant, "1"); a.reason() != "task_unknown" {
				t.Errorf("SEP-22 for a task of %q: %s", tenant, a.Raw)
			}
		}
		asked := ask("t1", "1")
		if asked.Error != nil || !strings.Contains(string(asked.Raw), `"tenant":"t1"`) {
			t.Fatalf("SEP-22 %s", asked.Raw)
		}
		forTask := capabilities(t, asked)[0]
		read := func(with granted, tenant string) answer {
			return alice.inTenant(with, tenant, "a2a.task.read", map[string]any{"task": "1"}, rpc("GetTask", map[string]any{"id": "1"}))
		}
		if a := read(forTask, "t1"); a.Error != nil {
			t.Errorf("SEP-22 its own task: %s", a.Raw)
		}
		if a := read(forTask, "t2"); a.Error == nil {
			t.Errorf("SEP-22 the task of that number in another tenant: %s", a.Raw)
		} else if w.apart != "" {
			_ = a // whose records come later
		} else if r := w.decided(a); !r.has("task_not_the_capabilitys") || !r.has("task_foreign") {
			t.Errorf("SEP-22 recorded as %+v", r.Powerbox.Reasons)
		}
		// A token that its holder has bound to a task names no tenant of it: the task
		// of that number which is in none is meant, whatever a proof says.
		if task, _ := alice.begins(held, "", "words"); task != "1" {
			t.Fatalf("task %s", task)
		}
		bound := held
		bound.Token = token.JoinChain(alice.keepFor(alice.key.Public(), []string{held.Token}, func(c powerbox.Clause) (powerbox.Clause, bool) {
			if c.Pattern.Name() == "a2a.task.read" {
				c.Shape = boundTo(t, map[string]string{"task": "1"})
			}
			return c, true
		}))
		for tenant, mine := range map[string]bool{"t1": false, "": true} {
			for _, args := range []map[string]any{{"task": "1"}, {"task": "1", "tenant": tenant}} {
				if tenant == "" {
					delete(args, "tenant")
				}
				a := alice.present("documents", in(tenant, rpc("GetTask", map[string]any{"id": "1"})),
					proven{chain: strings.Split(bound.Token, ","), operation: "a2a.task.read", arguments: args})
				if (a.Error == nil) != mine {
					t.Errorf("ATK-18 bound to a task, in tenant %q with %v: %s", tenant, args, a.Raw)
				}
			}
		}
		// The end of a task in one tenant ends nothing of another's.
		if a := ask("t2", "1"); a.Error != nil {
			t.Fatalf("SEP-22 %s", a.Raw)
		}
		end := func(tenant string) {
			if a := alice.inTenant(held, tenant, "a2a.task.cancel", map[string]any{"task": "1"}, rpc("CancelTask", map[string]any{"id": "1"})); a.Error != nil {
				t.Errorf("SEP-22 %s", a.Raw)
			}
		}
		end("t2")
		if a := read(forTask, "t1"); a.Error != nil {
			t.Errorf("SEP-22 after the end in another tenant: %s", a.Raw)
		}
		end("t1")
		eventually(t, atOnce, func() string { return "SEP-22 it goes on after its task" }, func() bool { return read(forTask, "t1").reason() == "revoked" })
	})
}

// TestATK18_HeldCallsOfTenants has calls of one caller wait for a person in two tenants:
// each is there in its own tenant, as a task of its agent would be, and in no other.
func TestATK18_HeldCallsOfTenants(t *testing.T) {
	inTenants(t, options{search: ", approval: true"}, func(t *testing.T, w *town) {
		alice := w.caller(aliceToken)
		held := alice.reports()
		asks := func(tenant string) (task, context string) {
			args := map[string]any{"query": "in " + tenant}
			one := heldIn(t, alice.present("documents", in(tenant, data("search_documents", args)), proven{chain: []string{held.Token}, operation: opSearch, arguments: args}))
			return one.ID, one.Context
		}
		tasks, contexts := map[string]string{}, map[string]string{}
		for _, tenant := range []string{"t1", "t2", ""} {
			tasks[tenant], contexts[tenant] = asks(tenant)
		}
		read := func(tenant, task string) answer {
			return alice.inTenant(held, tenant, "a2a.task.read", map[string]any{"task": task}, rpc("GetTask", map[string]any{"id": task}))
		}
		for tenant, task := range tasks {
			for elsewhere := range tasks {
				if a := read(elsewhere, task); (a.Error == nil) != (tenant == elsewhere) {
					t.Errorf("ATK-18 what waits in %q is asked for in %q: %s", tenant, elsewhere, a.Raw)
				}
				a := alice.inTenant(held, elsewhere, "a2a.task.cancel", map[string]any{"task": task}, rpc("CancelTask", map[string]any{"id": task}))
				if tenant != elsewhere && (a.Error == nil || a.Error.Code != -32001) {
					t.Errorf("ATK-18 what waits in %q is ended in %q: %s", tenant, elsewhere, a.Raw)
				}
			}
			var page listed
			a := alice.inTenant(held, tenant, "a2a.task.read", nil, rpc("ListTasks", map[string]any{}))
			if err := json.Unmarshal(a.Result, &page); err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != task {
				t.Errorf("ATK-18 listed in %q: %s", tenant, a.Raw)
			}
		}
		if a := alice.inTenant(held, "t2", opMessage, map[string]any{"context": contexts["t1"]}, about("SendMessage", map[string]any{"contextId": contexts["t1"]})); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("ATK-18 its context in another tenant: %s", a.Raw)
		}
	})
}

// TestATK18_GatewaysWithoutTenants has a gateway of the version before ask whose a task
// is, as it would for a task of any tenant. Nothing is told to it, and nothing taken but
// the records of what it decided before.
func TestATK18_GatewaysWithoutTenants(t *testing.T) {
	w := start(t, options{})
	g := w.gatewayOf("documents")
	for _, question := range []struct {
		path string
		body any
		old  int // what a gateway of before is answered
	}{
		{link.PathTasks, link.TaskQuery{Do: "owner", Task: "1"}, http.StatusUnauthorized},
		{link.PathTasks, link.TaskQuery{Do: "bind", Task: "1", Owner: link.Owner{Holder: "key:a"}}, http.StatusUnauthorized},
		{link.PathShip, link.Shipment{Records: []json.RawMessage{}}, http.StatusOK},
	} {
		body, err := json.Marshal(question.body)
		if err != nil {
			t.Fatal(err)
		}
		for scheme, want := range map[string]int{link.OldScheme: question.old, link.Scheme: http.StatusOK, "v3 ": http.StatusUnauthorized} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+question.path, bytes.NewReader(body))
			if err == nil {
				err = g.client.Sign(req, body)
			}
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(link.HeaderGateway, scheme+strings.TrimPrefix(req.Header.Get(link.HeaderGateway), link.Scheme))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != want || (scheme == link.OldScheme && want != http.StatusOK) != strings.Contains(string(said), "older than the server") {
				t.Errorf("ATK-18 %s %s by %q: %d %s", question.path, body, scheme, res.StatusCode, said)
			}
		}
	}
}

// boundTo is a shape that takes these arguments alone.
func boundTo(t *testing.T, args map[string]string) powerbox.Shape {
	t.Helper()
	var fields []powerbox.Field
	for name, text := range args {
		fields = append(fields, powerbox.Field{Name: name, Constraint: powerbox.ExactValue{Value: powerbox.String(text)}, Required: true})
	}
	s, err := powerbox.NewShape(powerbox.RestNone, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
