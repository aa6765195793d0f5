package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestATK1_NoAmbientAuthority makes an agent that has broad rights act for one
// that has few: the presented capability counts, not the identity of the
// caller.
func TestATK1_NoAmbientAuthority(t *testing.T) { everywhere(t, tryATK1NoAmbientAuthority) }

func tryATK1NoAmbientAuthority(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice, deputy := w.caller(aliceToken), w.caller(aliceToken)
	own := deputy.request("documents", map[string]any{
		"grants": []string{"documents:read", "documents:write"}, "purpose": "the deputy's own work",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{}},
	})
	c := alice.reports()
	chain := alice.derive("documents", []string{c.Token}, token.Narrowing{Holder: deputy.key.Public()})
	handle := own[1].ResourceHandles[0].Handle
	args := map[string]any{"resourceHandle": handle}
	remove := invoke("delete_document", args, "")
	named := []byte(strings.Replace(string(remove), `"skill"`, `"capabilityId":"`+own[0].ID+`","skill"`, 1))
	w.repel(t,
		attack{"ATK-1 with the session alone", "capability_required", func() answer { return deputy.send("documents", remove) }},
		attack{"ATK-1 what was handed over does not have it", "operation_not_granted", func() answer {
			return deputy.present("documents", remove, proven{chain: chain, operation: opDelete, arguments: args})
		}},
		attack{"ATK-1 two capabilities are not joined", "operation_not_granted", func() answer {
			h := deputy.proof("documents", named, proven{chain: chain, operation: opDelete, arguments: args})
			for name, v := range deputy.headers(w.agentURL("documents")) {
				h[name] = v
			}
			return w.post(w.agentURL("documents"), named, h)
		}},
		attack{"ATK-1 the deputy's handle under the other's capability", "handle_not_granted", func() answer { return deputy.under(chain, handle) }},
		attack{"ATK-1 free text", "capability_required", func() answer { return deputy.send("documents", text("SendMessage", injection)) }},
	)
	declared := deputy.headers(w.agentURL("documents"))
	declared.Set("Powerbox-Ambient", "1")
	w.repel(t, attack{"ATK-1 ambient, declared", "capability_required", func() answer { return w.post(w.agentURL("documents"), remove, declared) }})
}

// TestATK3_TheStricterOfTwoHolds gives one caller a permissive scope and a
// stricter capability, and the reverse.
func TestATK3_TheStricterOfTwoHolds(t *testing.T) { overTools(t, tryATK3TheStricterOfTwoHolds) }

func tryATK3TheStricterOfTwoHolds(t *testing.T, on wire) {
	key := newKey(t)
	w := start(t, options{on: on, extra: named(t, map[string]*token.PrivateKey{"orchestrator": key}) + "scopes:\n  orchestrator:\n    documents: [documents:read/search]\n"})
	c := &caller{w, key, aliceToken}
	held := c.reports()
	w.repel(t, attack{"ATK-3 the scope is stricter", "outside_caller_scope", func() answer { return c.under([]string{held.Token}, held.ResourceHandles[0].Handle) }})
	narrow := c.keep([]string{held.Token}, func(cl powerbox.Clause) (powerbox.Clause, bool) { return cl, cl.Pattern.Name() != opSearch })
	w.repel(t, attack{"ATK-3 the capability is stricter", "operation_not_granted", func() answer {
		return c.present("documents", data("search_documents", nil), proven{chain: narrow, operation: opSearch})
	}})
	header, payload, _ := parts(t, held.Token)
	twice := changed(t, payload, `"`+opSearch+`":{}`, `"`+opSearch+`":{"query":{"constraint_type":"exact","value":"x"}},"`+opSearch+`":{}`)
	w.repel(t, attack{"ATK-3 an operation twice in one token", "malformed", func() answer {
		return c.search(signedBy(t, w.agentKey("documents"), header, twice))
	}})
}

// TestATK4_NothingIsTruncated sends names, handles and lists that are longer than
// anything that a reader might cut.
func TestATK4_NothingIsTruncated(t *testing.T) { overTools(t, tryATK4NothingIsTruncated) }

func tryATK4NothingIsTruncated(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	handle := c.ResourceHandles[0].Handle
	long := strings.Repeat("x", 70000)
	w.repel(t,
		attack{"ATK-4 a handle with a tail", "handle_not_granted", func() answer { return alice.under([]string{c.Token}, handle+"x") }},
		attack{"ATK-4 a handle cut short", "handle_not_granted", func() answer { return alice.under([]string{c.Token}, handle[:len(handle)-1]) }},
		attack{"ATK-4 a handle and NUL", "handle_not_granted", func() answer { return alice.under([]string{c.Token}, handle+"\x00") }},
		attack{"ATK-4 a skill with a tail", "skill_unmapped", func() answer {
			return alice.present("documents", invoke("search_documents"+strings.Repeat(" ", 4096), nil, ""), proven{chain: []string{c.Token}, operation: opSearch})
		}},
		attack{"ATK-4 a grant with a tail", "grant_unknown", func() answer {
			return alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:read" + strings.Repeat("x", 300)}, "purpose": "p"})
		}},
	)
	a := alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": long})
	if a.Error == nil {
		for _, r := range w.records("agent=documents&limit=5") {
			if r.Powerbox.Capability == capabilities(t, a)[0].ID && r.Intent.Purpose != long {
				t.Error("ATK-4 a purpose was cut in the record")
			}
		}
	}
}

// TestATK5_AbsentIsNothing leaves out, empties and nulls what a capability or a
// request says.
func TestATK5_AbsentIsNothing(t *testing.T) { overTools(t, tryATK5AbsentIsNothing) }

func tryATK5AbsentIsNothing(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	ours := w.agentKey("documents")
	header, payload, _ := parts(t, c.Token)
	tools := between(payload, `"tools":`, `,"type"`)
	with := func(before, after string) func() answer {
		return func() answer { return alice.search(signedBy(t, ours, header, changed(t, payload, before, after))) }
	}
	w.repel(t,
		attack{"ATK-5 no tools", "operation_not_granted", with(tools, `{}`)},
		attack{"ATK-5 null tools", "malformed", with(tools, `null`)},
		attack{"ATK-5 a list of tools", "malformed", with(tools, `["*"]`)},
		attack{"ATK-5 no entry", "empty_capability", func() answer {
			i, j := strings.Index(payload, `"authorization_details":[`), strings.Index(payload, `"cnf"`)
			return alice.search(signedBy(t, ours, header, payload[:i]+`"authorization_details":[],`+payload[j:]))
		}},
		attack{"ATK-5 no expiry", "missing_claim", with(`"exp":`, `"exq":`)},
		attack{"ATK-5 no holder", "missing_claim", with(`"cnf":`, `"cnx":`)},
		attack{"ATK-5 an argument that is left out", "argument_missing", func() answer {
			return alice.present("documents", invoke("retrieve_document", nil, ""), proven{chain: []string{c.Token}, operation: opRetrieve})
		}},
	)
	for name, params := range map[string]map[string]any{
		"no grants": {"purpose": "p"}, "empty grants": {"grants": []string{}, "purpose": "p"}, "no purpose": {"grants": []string{"documents:read"}},
		"every grant": {"grants": []string{"*"}, "purpose": "p"}, "empty operations": {"grants": []string{"documents:read"}, "operations": []string{}, "purpose": "p"},
		"an empty handle set": nil,
	} {
		a := alice.call("documents", "a2a/capabilities/request", params)
		if params == nil {
			a = alice.attenuate(c.ID, map[string]any{"resourceHandles": []string{}})
		}
		if a.Error == nil {
			t.Errorf("ATK-5 %s: %s", name, a.Raw)
		}
	}
	bob := w.caller(bobToken)
	a := bob.call("documents", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "payroll", "filter": map[string]any{}},
	})
	if a.Error == nil && len(capabilities(t, a)) > 0 {
		got := capabilities(t, a)[0]
		if len(got.ResourceHandles) > 0 {
			t.Errorf("ATK-5 nothing was found and something was given: %s", a.Raw)
		}
	}
}

// open begins a task that stays open and returns its id and context.
func (c *caller) open(held granted) (task, context string) {
	c.w.t.Helper()
	return c.opens("SendMessage", held)
}

// opens has a task begun by a method that sends a message.
func (c *caller) opens(method string, held granted) (task, context string) {
	c.w.t.Helper()
	a := c.present("documents", text(method, "task open"), proven{chain: []string{held.Token}, operation: opMessage})
	var result struct {
		Task struct {
			ID      string `json:"id"`
			Context string `json:"contextId"`
		} `json:"task"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
		c.w.t.Fatalf("no task: %v %s", err, a.Raw)
	}
	return result.Task.ID, result.Task.Context
}

// about is a message that names a task, a context or others' tasks.
func about(method string, more map[string]any) []byte {
	m := map[string]any{"messageId": "m", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "go on"}}}
	for k, v := range more {
		m[k] = v
	}
	return rpc(method, map[string]any{"message": m})
}

// TestATK18_ForeignTasks tries to read, cancel, follow and continue with a task of
// another user, and of another agent of the same user. The answer is the one
// for a task that does not exist, byte for byte.
func TestATK18_ForeignTasks(t *testing.T) { everywhere(t, tryATK18ForeignTasks) }

func tryATK18ForeignTasks(t *testing.T, on wire) {
	w := start(t, options{on: on, agent: "    enforces: context"})
	alice, bob, other := w.caller(aliceToken), w.caller(bobToken), w.caller(aliceToken)
	task, context := alice.open(alice.reports())
	const none = "00000000-0000-7000-8000-000000000000"
	w.documents.forget()
	tries := []struct {
		name, op string
		params   map[string]any // the operation's arguments in the proof
		body     func(task, context string) []byte
	}{
		{"GetTask", "a2a.task.read", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("GetTask", map[string]any{"id": task}) }},
		{"tasks/get", "a2a.task.read", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("tasks/get", map[string]any{"id": task}) }},
		{"GetTask by name", "a2a.task.read", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("GetTask", map[string]any{"name": "tasks/" + task}) }},
		{"CancelTask", "a2a.task.cancel", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("CancelTask", map[string]any{"id": task}) }},
		{"tasks/cancel", "a2a.task.cancel", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("tasks/cancel", map[string]any{"id": task}) }},
		{"SubscribeToTask", "a2a.task.read", map[string]any{"task": ""}, func(task, _ string) []byte { return rpc("SubscribeToTask", map[string]any{"id": task}) }},
		{"a message to it", opMessage, map[string]any{"task": ""}, func(task, _ string) []byte {
			return about("SendMessage", map[string]any{"taskId": task})
		}},
		{"message/send to it", opMessage, map[string]any{"task": ""}, func(task, _ string) []byte {
			return about("message/send", map[string]any{"taskId": task})
		}},
		{"a message to its context", opMessage, map[string]any{"context": ""}, func(_, context string) []byte {
			return about("SendMessage", map[string]any{"contextId": context})
		}},
		{"a stream to it", opMessage, map[string]any{"task": ""}, func(task, _ string) []byte {
			return about("SendStreamingMessage", map[string]any{"taskId": task})
		}},
		{"a reference to it", opMessage, map[string]any{}, func(task, _ string) []byte {
			return about("SendMessage", map[string]any{"referenceTaskIds": []string{task}})
		}},
	}
	for who, c := range map[string]*caller{"another user": bob, "another agent of the user": other} {
		held := c.reports()
		for _, try := range tries {
			t.Run("ATK-18 "+try.name+" by "+who, func(t *testing.T) {
				sent := func(task, context string) answer {
					args := map[string]any{}
					for name := range try.params {
						args[name] = map[string]string{"task": task, "context": context}[name]
					}
					return c.present("documents", try.body(task, context), proven{chain: []string{held.Token}, operation: try.op, arguments: args})
				}
				a := sent(task, context)
				w.refused(t, a, "")
				if a.Error == nil || a.Error.Code != -32001 {
					t.Errorf("%s", a.Raw)
				}
				if d := w.decided(a); d.Decision != "DENY" || !d.has("task_foreign") {
					t.Errorf("the record says %+v", d.Powerbox.Reasons)
				}
				if got, want := faceless(a), faceless(sent(none, none)); got != want {
					t.Errorf("a foreign task: %s\none that does not exist: %s", got, want)
				}
			})
		}
	}
	t.Run("ATK-18 ListTasks", func(t *testing.T) {
		if on == (wire{"JSON-RPC", "0.3"}) {
			return // in which the agent behind has no such method
		}
		held := bob.reports()
		a := bob.present("documents", rpc("ListTasks", map[string]any{}), proven{chain: []string{held.Token}, operation: "a2a.task.read"})
		if a.Error != nil || strings.Contains(string(a.Raw), task) {
			t.Errorf("%s", a.Raw)
		}
		mine := alice.reports()
		own, _ := alice.open(mine)
		a = alice.present("documents", rpc("ListTasks", map[string]any{}), proven{chain: []string{mine.Token}, operation: "a2a.task.read"})
		if a.Error != nil || !strings.Contains(string(a.Raw), own) || strings.Contains(string(a.Raw), task) {
			t.Errorf("its own is %s: %s", own, a.Raw)
		}
	})
	t.Run("ATK-18 ListTasks of its context", func(t *testing.T) {
		if on == (wire{"JSON-RPC", "0.3"}) {
			return // as above
		}
		for _, c := range []*caller{bob, other} {
			held := c.reports()
			of := func(context string) (listed, string) {
				a := c.present("documents", rpc("ListTasks", map[string]any{"contextId": context, "pageSize": 1}),
					proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: map[string]any{"context": context}})
				var page listed
				if err := json.Unmarshal(a.Result, &page); err != nil || a.Error != nil {
					t.Errorf("%v: %s", err, a.Raw)
				}
				return page, string(a.Raw)
			}
			page, foreign := of(context)
			if _, unknown := of(none); len(page.Tasks) > 0 || page.Next != "" || foreign != unknown {
				t.Errorf("another's context: %s\none that does not exist: %s", foreign, unknown)
			}
		}
		if second, _ := alice.open(alice.reports()); second == "" {
			t.Error("no second task")
		}
	})
	t.Run("ATK-18 a capability for it", func(t *testing.T) {
		for _, id := range []string{task, context, none} {
			for _, c := range []*caller{bob, other} {
				a := c.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "task": id, "resourceQuery": quarter("2025-Q1")})
				if a.reason() != "task_unknown" {
					t.Errorf("%s", a.Raw)
				}
			}
		}
	})
	w.documents.forget()
	again := alice.reports()
	a := alice.present("documents", rpc("GetTask", map[string]any{"id": task}), proven{chain: []string{again.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": task}})
	if a.Error == nil || a.Error.Code != -32001 {
		t.Errorf("ATK-18 under another root of its own: %s", a.Raw)
	}
}

// TestATK18_NobodyIsNotSomebody has two callers of whom nothing is known, in the
// mode that lets them pass: neither gets at the other's task.
func TestATK18_NobodyIsNotSomebody(t *testing.T) { everywhere(t, tryATK18NobodyIsNotSomebody) }

func tryATK18NobodyIsNotSomebody(t *testing.T, on wire) {
	w := start(t, options{on: on, mode: "prefer"})
	a := w.post(w.agentURL("documents"), text("SendMessage", "task open"), http.Header{})
	var result struct {
		Task struct {
			ID string `json:"id"`
		} `json:"task"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
		t.Fatalf("no task: %v %s", err, a.Raw)
	}
	w.documents.forget()
	for _, method := range []string{"GetTask", "CancelTask", "tasks/get"} {
		a := w.post(w.agentURL("documents"), rpc(method, map[string]any{"id": result.Task.ID}), http.Header{})
		if w.refused(t, a, ""); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("ATK-18 %s: %s", method, a.Raw)
		}
	}
	a = w.caller(aliceToken).send("documents", rpc("GetTask", map[string]any{"id": result.Task.ID}))
	if w.refused(t, a, ""); a.Error == nil || a.Error.Code != -32001 {
		t.Errorf("ATK-18 by a user: %s", a.Raw)
	}
	if a := w.post(w.agentURL("documents"), rpc("ListTasks", map[string]any{}), http.Header{}); strings.Contains(string(a.Raw), result.Task.ID) {
		t.Errorf("ATK-18 listed: %s", a.Raw)
	}
}

// faceless is an answer without what differs from one call to the next.
func faceless(a answer) string {
	s := string(a.Raw)
	for _, name := range []string{`"decisionId":"`, `"decision":"`, `"decision_id":"`, `"timestamp":"`, `"taskId":"`, "map[decision:"} {
		if i := strings.Index(s, name); i >= 0 {
			end := strings.IndexAny(s[i+len(name):], `"]`)
			s = s[:i+len(name)] + s[i+len(name)+end:]
		}
	}
	return fmt.Sprint(a.Status, a.Header.Get("Content-Type"), a.Header.Get("Powerbox-Outcome"), s)
}

// TestATK19_Handles tries unknown, foreign, malformed and other roots' handles:
// one answer for all of them.
func TestATK19_Handles(t *testing.T) { overTools(t, tryATK19Handles) }

func tryATK19Handles(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	c, second, bobs := alice.reports(), alice.reports(), bob.reports()
	one := c.ResourceHandles[0].Handle
	flipped := []byte(one)
	flipped[len(flipped)-2] ^= 1
	var want string
	for _, h := range []struct{ name, handle string }{
		{"a random one", "rh_" + nonce() + nonce() + nonce() + nonce() + nonce()},
		{"another root's", second.ResourceHandles[0].Handle},
		{"another user's", bobs.ResourceHandles[0].Handle},
		{"a flipped one", string(flipped)},
		{"two as one", one + "," + c.ResourceHandles[1].Handle},
		{"a real id", "/vault/q1-financial.pdf"},
		{"one of another kind", c.ID},
		{"nothing", ""},
		{"percent-encoded", strings.Replace(one, "_", "%5F", 1)},
	} {
		w.repel(t, attack{"ATK-19 " + h.name, "handle_not_granted", func() answer {
			a := alice.under([]string{c.Token}, h.handle)
			if want == "" {
				want = faceless(a)
			}
			if got := faceless(a); got != want {
				t.Errorf("%s: %s\na random one: %s", h.name, got, want)
			}
			return a
		}})
	}
	for _, v := range []any{[]string{one}, map[string]any{"handle": one}, 7, nil, true} {
		args := map[string]any{"resourceHandle": v}
		w.repel(t, attack{fmt.Sprintf("ATK-19 of type %T", v), "handle_not_granted", func() answer {
			return alice.present("documents", invoke("retrieve_document", args, ""), proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
		}})
	}
}
