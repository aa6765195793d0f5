package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestATK1_NoAmbientAuthority makes an agent that has broad rights act for one
// that has few: what counts is what is presented, not who presents it.
func TestATK1_NoAmbientAuthority(t *testing.T) {
	w := start(t, options{})
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
func TestATK3_TheStricterOfTwoHolds(t *testing.T) {
	key := newKey(t)
	w := start(t, options{extra: named(t, map[string]*token.PrivateKey{"orchestrator": key}) + "scopes:\n  orchestrator:\n    documents: [documents:read/search]\n"})
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
func TestATK4_NothingIsTruncated(t *testing.T) {
	w := start(t, options{})
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
func TestATK5_AbsentIsNothing(t *testing.T) {
	w := start(t, options{})
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
	a := c.present("documents", text("SendMessage", "task open"), proven{chain: []string{held.Token}, operation: opMessage})
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

// TestATK18_ForeignTasks tries to read, cancel, follow and go on with a task of
// another user, and of another agent of the same user. The answer is the one
// for a task that does not exist, byte for byte.
func TestATK18_ForeignTasks(t *testing.T) {
	w := start(t, options{agent: "    enforces: context"})
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
		{"ListTasks of its context", "a2a.task.read", map[string]any{"context": ""}, func(_, context string) []byte {
			return rpc("ListTasks", map[string]any{"contextId": context})
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
		held := bob.reports()
		a := bob.present("documents", rpc("ListTasks", map[string]any{}), proven{chain: []string{held.Token}, operation: "a2a.task.read"})
		if a.Error != nil && a.Error.Code == -31403 || strings.Contains(string(a.Raw), task) {
			t.Errorf("%s", a.Raw)
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
func TestATK18_NobodyIsNotSomebody(t *testing.T) {
	w := start(t, options{mode: "prefer"})
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
	for _, name := range []string{`"decisionId":"`, `"decision":"`, `"decision_id":"`, `"timestamp":"`} {
		if i := strings.Index(s, name); i >= 0 {
			end := strings.Index(s[i+len(name):], `"`)
			s = s[:i+len(name)] + s[i+len(name)+end:]
		}
	}
	return fmt.Sprint(a.Status, a.Header.Get("Content-Type"), a.Header.Get("Powerbox-Outcome"), s)
}

// TestATK19_Handles tries unknown, foreign, malformed and other roots' handles:
// one answer for all of them.
func TestATK19_Handles(t *testing.T) {
	w := start(t, options{})
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

// TestATK22_BytesAreForwardedAsChecked compares what was sent with what arrived.
func TestATK22_BytesAreForwardedAsChecked(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	args := `{"query":"a\u0022b\/c \ud83d\ude00","n":9007199254740993,"f":1.10,"e":1E2,"neg":-1.50,"z":"\u0000","nested":{"b":1,"a":[1,2,{}]}}`
	body := []byte("  {\n\t\"params\" : { \"x-unknown\":{\"y\":[null,1.0]}, \"message\":{\"role\":\"ROLE_USER\", \"messageId\":\"m\",\n \"parts\":[{\"data\":{\"skill\":\"search_documents\",\"arguments\":" +
		args + "}}], \"x-more\": 123456789012345678901234567890 }},\r\n \"method\":\"SendMessage\" ,\"id\":9007199254740993,\"jsonrpc\":\"2.0\"} \n")
	h, err := alice.exactProof(body, []string{c.Token}, opSearch, args)
	if err != nil {
		// Canonical form would round the number, so that no proof can say it.
		args = strings.Replace(args, "9007199254740993", "9007199254740992", 1)
		body = []byte(strings.Replace(string(body), `"n":9007199254740993`, `"n":9007199254740992`, 1))
		if h, err = alice.exactProof(body, []string{c.Token}, opSearch, args); err != nil {
			t.Fatal(err)
		}
	}
	a := w.post(w.agentURL("documents"), body, h)
	got := w.documents.got()
	if len(got) != 1 || !bytes.Equal(got[0].body, body) {
		t.Fatalf("ATK-22 sent\n%s\narrived %d\n%s", body, len(got), a.Raw)
	}
	// One that lies between: the same proof, and the body changed in one byte.
	other := bytes.Replace(body, []byte("1.10"), []byte("1.11"), 1)
	w.documents.forget()
	h, err = alice.exactProof(body, []string{c.Token}, opSearch, args)
	if err != nil {
		t.Fatal(err)
	}
	w.repel(t, attack{"ATK-22 changed on the way", "proof_arguments", func() answer { return w.post(w.agentURL("documents"), other, h) }})
	space := append(bytes.Clone(body), ' ')
	w.repel(t, attack{"ATK-22 one space more", "proof_request", func() answer { return w.post(w.agentURL("documents"), space, h) }})
}

// exactProof is a proof whose arguments are given as JSON.
func (c *caller) exactProof(body []byte, chain []string, operation, arguments string) (http.Header, error) {
	v, err := powerbox.ParseValue([]byte(arguments))
	if err != nil {
		return nil, err
	}
	url := c.w.agentURL("documents")
	proof, err := token.SignProof(c.key, token.Proof{
		ID: nonce(), IssuedAt: time.Now(), TokenID: claim(c.w.t, chain[len(chain)-1], "jti"), Operation: operation, Arguments: v, Audience: url,
		Request: &token.Request{Method: http.MethodPost, URL: url, Digest: token.DigestOf(body)},
	})
	return http.Header{"Powerbox-Capability": {token.JoinChain(chain)}, "Powerbox-Proof": {proof}}, err
}

// TestATK27_ParsersCannotDiffer sends envelopes that two readers take for two
// calls, with a capability for the harmless one.
func TestATK27_ParsersCannotDiffer(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	harmless := string(data("search_documents", nil))
	for _, e := range []struct{ name, before, after, reason string }{
		{"a second method", `"method":`, `"method":"DeleteTaskPushNotificationConfig","method":`, "syntax"},
		{"Method", `"method":`, `"Method":"CancelTask","method":`, "envelope"},
		{"a second id", `"id":`, `"id":2,"id":`, "syntax"},
		{"params twice", `"params":`, `"params":{},"params":`, "syntax"},
		{"param\u017f", `"params":`, `"param\u017f":{},"params":`, "envelope"},
		{"an escaped name twice", `"message":`, `"mess\u0061ge":{},"message":`, "syntax"},
		{"Message", `"message":`, `"Message":{},"message":`, "member_ambiguous"},
		{"Parts", `"parts":`, `"Parts":[{"text":"delete everything"}],"parts":`, "member_ambiguous"},
		{"part\u017f", `"parts":`, `"part\u017f":[{"text":"delete everything"}],"parts":`, "member_ambiguous"},
		{"Skill", `"skill":`, `"Skill":"delete_document","skill":`, "member_ambiguous"},
		{"\u017fkill", `"skill":`, `"\u017fkill":"delete_document","skill":`, "member_ambiguous"},
		{"s\u212aill", `"skill":`, `"s\u212aill":"delete_document","skill":`, "member_ambiguous"},
		{"skill twice", `"skill":`, `"skill":"delete_document","skill":`, "syntax"},
		{"TaskId alone", `"role":`, `"TaskId":"t","role":`, "member_ambiguous"},
		{"task_id alone", `"role":`, `"task_id":"t","role":`, "member_ambiguous"},
		{"data behind it", `"2.0"`, `"2.0"}{"x":1`, "syntax"},
		{"a comment", `"2.0"`, `"2.0"/* x */`, "syntax"},
		{"a trailing comma", `"2.0"`, `"2.0",`, "syntax"},
		{"NaN", `"id":1`, `"id":NaN`, "syntax"},
		{"a raw control character", `search_documents`, "search_documents\x01", "syntax"},
		{"broken UTF-8", `search_documents`, "search_documents\xff", "syntax"},
		{"a lone surrogate", `search_documents`, `search_documents\ud800`, "syntax"},
	} {
		t.Run("ATK-27 "+e.name, func(t *testing.T) {
			body := []byte(changed(t, harmless, e.before, e.after))
			h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
			w.refused(t, w.post(w.agentURL("documents"), body, h), e.reason)
			for name, v := range alice.headers(w.agentURL("documents")) {
				h[name] = v
			}
			a := w.post(w.agentURL("documents"), body, h)
			w.refused(t, a, e.reason)
			if d := w.decided(a); d.Decision != "DENY" || !d.has(e.reason) {
				t.Errorf("the record says %+v", d.Powerbox.Reasons)
			}
		})
	}
	t.Run("ATK-27 a byte order mark", func(t *testing.T) {
		w.refused(t, alice.send("documents", append([]byte("\xef\xbb\xbf"), harmless...)), "syntax")
	})
	t.Run("ATK-27 UTF-16", func(t *testing.T) {
		var wide []byte
		for _, b := range []byte(harmless) {
			wide = append(wide, b, 0)
		}
		w.refused(t, alice.send("documents", wide), "syntax")
	})
	header, payload, _ := parts(t, c.Token)
	for name, p := range map[string]string{
		"exp twice": changed(t, payload, `"exp":`, `"exp":9999999999,"exp":`), "an operation twice": changed(t, payload, `"tools":{`, `"tools":{"`+opSearch+`":{},`),
	} {
		w.repel(t, attack{"ATK-27 in a token, " + name, "malformed", func() answer { return alice.search(signedBy(t, w.agentKey("documents"), header, p)) }})
	}
	for _, kind := range []string{"text/plain", "application/json; charset=utf-7", "application/json; charset=gbk", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json, text/plain", ""} {
		t.Run("ATK-27 sent as "+kind, func(t *testing.T) {
			body, h := alice.searching(c.Token)
			a := w.typed(body, h, kind)
			if a.Status != http.StatusUnsupportedMediaType || len(w.documents.got()) > 0 {
				t.Errorf("%d %s", a.Status, a.Raw)
			}
		})
	}
	body, h := alice.searching(c.Token)
	allowed(t, w.typed(body, h, "application/json; charset=UTF-8"))
}

// typed sends a body as that content type, which may be none.
func (w *town) typed(body []byte, h http.Header, kind string) answer {
	w.t.Helper()
	h = h.Clone()
	h["Content-Type"] = []string{kind}
	req, err := http.NewRequest(http.MethodPost, w.agentURL("documents"), bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = h
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{Status: r.StatusCode, Header: r.Header, Raw: raw}
}

// TestATK28_Batches hides a call in an array, and a call without an answer.
func TestATK28_Batches(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	one := string(data("search_documents", nil))
	worse := string(invoke("archive_document", nil, ""))
	notification := changed(t, one, `"id":1,`, "")
	send := func(body string) func() answer {
		return func() answer {
			h := alice.proof("documents", []byte(body), proven{chain: []string{c.Token}, operation: opSearch})
			for name, v := range alice.headers(w.agentURL("documents")) {
				h[name] = v
			}
			return w.post(w.agentURL("documents"), []byte(body), h)
		}
	}
	w.repel(t,
		attack{"ATK-28 a batch", "batch_not_accepted", send("[" + one + "," + worse + "]")},
		attack{"ATK-28 a batch of one", "batch_not_accepted", send("[" + one + "]")},
		attack{"ATK-28 an empty batch", "batch_not_accepted", send("[]")},
		attack{"ATK-28 a nested batch", "batch_not_accepted", send("[[" + one + "]]")},
		attack{"ATK-28 a notification", "envelope", send(notification)},
		attack{"ATK-28 a null id", "envelope", send(changed(t, one, `"id":1`, `"id":null`))},
		attack{"ATK-28 lines", "syntax", send(one + "\n" + worse)},
		attack{"ATK-28 params as an array", "params", send(changed(t, one, `"params":{`, `"params":[{`)[:len(one)] + "]}")},
		attack{"ATK-28 a string", "envelope", send(`"SendMessage"`)},
		attack{"ATK-28 another method", "method_unknown", send(`{"jsonrpc":"2.0","id":1,"method":"rpc.batch","params":{}}`)},
	)
}

// TestATK35_CredentialsAreConsumed looks at what the agent behind gets of what
// callers prove themselves with.
func TestATK35_CredentialsAreConsumed(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	body, h := alice.searching(c.Token)
	for name, v := range alice.headers(w.agentURL("documents")) {
		h[name] = v
	}
	h.Set("Powerbox-Context", "forged")
	h["Powerbox_Context"] = []string{"forged"}
	h["powerbox-Decision"] = []string{"forged"}
	h.Set("Powerbox-Anything", "forged")
	h.Set("X-Agent-Id", "orchestrator")
	h.Set("Connection", "Powerbox-Proof, upgrade")
	h.Set("Upgrade", "h2c")
	allowed(t, w.post(w.agentURL("documents"), body, h))
	body, foreign := alice.searching(c.Token)
	foreign.Set("Authorization", "Bearer the-agents-own-key")
	allowed(t, w.post(w.agentURL("documents"), body, foreign))
	got := w.documents.got()
	if len(got) != 2 {
		t.Fatalf("%d calls arrived", len(got))
	}
	for name, values := range got[0].header {
		folded := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if name != "Powerbox-Context" && strings.HasPrefix(folded, "powerbox-") || folded == "authorization" || folded == "dpop" || folded == "upgrade" || folded == "connection" {
			t.Errorf("ATK-35 the agent behind got %s: %s", name, values)
		}
		for _, v := range values {
			if v == "forged" || strings.Contains(v, aliceToken) || strings.Contains(v, c.Token) {
				t.Errorf("ATK-35 the agent behind got %s: %s", name, v)
			}
		}
	}
	if v := got[1].header.Get("Authorization"); v != "Bearer the-agents-own-key" {
		t.Errorf("ATK-35 a foreign Authorization arrived as %q", v)
	}
	context, err := token.VerifyContext(got[0].header.Get("Powerbox-Context"), token.NewKeySet(w.agentKey("documents").Public()), "documents", time.Now(), got[0].body)
	if err != nil || context.Holder != "key:"+alice.key.Public().Thumbprint() {
		t.Errorf("ATK-35 the context says %s, %v", context.Holder, err)
	}
	w.documents.forget()
	// What names a caller beside a proof decides nothing.
	lies := http.Header{"X-Agent-Id": {"orchestrator"}, "X-Forwarded-User": {"alice"}, "X-Forwarded-For": {"127.0.0.1"}, "Powerbox-Context": {got[0].header.Get("Powerbox-Context")}}
	w.refused(t, w.post(w.agentURL("documents"), data("search_documents", nil), lies), "capability_required")
	// A session of this server passed on to another audience is no session here.
	mail := alice.headers(w.agentURL("mail"))
	w.refused(t, w.post(w.agentURL("documents"), rpc("a2a/capabilities/list", map[string]any{}), mail), "unauthenticated")
}

// TestATK38_PathsAreNoHandles gives paths where handles are wanted, and bends the
// path of the URL itself.
func TestATK38_PathsAreNoHandles(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	one := c.ResourceHandles[0].Handle
	for _, h := range []string{
		"/vault/q1-financial.pdf", "../vault/salaries.pdf", one + "/../salaries.pdf", "./" + one, one + "/", one + "%2e%2e", strings.ToUpper(one), " " + one, one + "\n",
		"file:///vault/salaries.pdf", `\vault\salaries.pdf`, one + "?x", one + "#x", "\u2024\u2024/" + one,
	} {
		w.repel(t, attack{"ATK-38 " + h, "handle_not_granted", func() answer { return alice.under([]string{c.Token}, h) }})
	}
	body, h := alice.searching(c.Token)
	for _, path := range []string{
		"/agents/documents/../mail", "/agents/documents/x", "/agents/documents/skills", "/agents/documents/skills/x/y", "/agents/Documents",
		"/agents/documents%2fskills%2fdelete_document", "/agents/%2e%2e/v1/records", "/agents/documents;x", "/agents/documents/skills/../../mail", "/agents/documents%00",
	} {
		a := w.post(w.url+path, body, h)
		if n := len(w.documents.got()) + len(w.mail.got()); n > 0 {
			t.Fatalf("ATK-38 POST %s: %d calls arrived\n%d %s", path, n, a.Status, a.Raw)
		}
	}
	w.refused(t, w.post(w.agentURL("documents")+"/skills/delete_document", body, h), "skill_ambiguous")
	w.refused(t, w.post(w.agentURL("documents")+"/skills/search_documents", body, h), "proof_request")
	w.refused(t, w.post(w.agentURL("documents")+"/skills/search%5fdocuments", body, h), "proof_request")
	w.refused(t, w.post(w.agentURL("documents")+"/skills/no_such_skill", text("SendMessage", "x"), h), "skill_unmapped")
}

func decimal(t *testing.T, s string) powerbox.Decimal {
	t.Helper()
	d, err := powerbox.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestATK39_NumbersAreExact gives amounts that lose their value in a float64.
func TestATK39_NumbersAreExact(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	least, most := decimal(t, "0"), decimal(t, "9007199254740992")
	chain := alice.keep([]string{alice.reports().Token}, func(cl powerbox.Clause) (powerbox.Clause, bool) {
		if cl.Pattern.Name() != opSearch {
			return cl, true
		}
		shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: "limit", Constraint: powerbox.Range{Min: &least, Max: &most}, Required: true})
		if err != nil {
			t.Fatal(err)
		}
		return powerbox.Clause{Pattern: cl.Pattern, Shape: shape}, true
	})
	send := func(limit string) answer {
		body := []byte(changed(t, string(invoke("search_documents", map[string]any{"limit": "LIMIT"}, "")), `"LIMIT"`, limit))
		h, err := alice.exactProof(body, chain, opSearch, `{"limit":`+limit+`}`)
		if err != nil {
			// The number cannot be proven; say so with one that can.
			if h, err = alice.exactProof(body, chain, opSearch, `{"limit":9007199254740992}`); err != nil {
				t.Fatal(err)
			}
		}
		return w.post(w.agentURL("documents"), body, h)
	}
	for _, v := range []string{"9007199254740993", "9007199254740992.5", "-1", "1e400", "1e-400", "-0.0000001", "NaN", "Infinity", `"7"`, `"9007199254740992"`, "[1]", "null", "true", "1e99999999", "0x10", "01"} {
		t.Run("ATK-39 "+v, func(t *testing.T) {
			a := send(v)
			if a.Error == nil || len(w.documents.got()) > 0 {
				t.Errorf("%s", a.Raw)
			}
		})
	}
	for _, v := range []string{"9007199254740992", "0", "1.0", "1e3"} {
		allowed(t, send(v))
	}
}

// TestATK40_OneCanonicalForm signs proofs whose payload is written in another
// way than canonical, and reads the record of a decision back.
func TestATK40_OneCanonicalForm(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	query := map[string]any{"query": "\u20ac\u0001\"\\/\u2028 \U0001F600 \u00e9 e\u0301", "n": 1e21, "m": 0.000001, "\U0001F600": 1, "\ufb33": 2}
	body := invoke("search_documents", query, "")
	h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch, arguments: query})
	a := w.post(w.agentURL("documents"), body, h)
	allowed(t, a)
	record := string(w.operator(http.MethodGet, "/v1/records/"+a.Header.Get("Powerbox-Decision"), nil))
	if !json.Valid([]byte(record)) {
		t.Errorf("ATK-40 the record is no JSON: %s", record)
	}
	w.documents.forget()
	header, payload, _ := parts(t, h.Get("Powerbox-Proof"))
	again := func(p string) func() answer {
		return func() answer { return alice.with("documents", body, []string{c.Token}, signedBy(t, alice.key, header, p)) }
	}
	id := between(payload, `"jti":"`, `"`)
	fresh := strings.Replace(payload, id, nonce(), 1)
	w.repel(t,
		attack{"ATK-40 the composed for the decomposed", "proof_arguments", again(changed(t, fresh, "e\u0301", "\u00e9"))},
		attack{"ATK-40 two members that only escapes tell apart", "malformed", again(changed(t, fresh, `"hta":{`, `"hta":{"\u006d":5,`))},
		attack{"ATK-40 a replay written otherwise", "proof_replayed", again(" " + changed(t, payload, `,"iat"`, ` , "iat"`))},
	)
}

// TestATK55_CapsComeFirst sends what is too deep, too long or too many.
func TestATK55_CapsComeFirst(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	ours := w.agentKey("documents")
	header, payload, _ := parts(t, c.Token)
	tools := between(payload, `"tools":`, `,"type"`)
	with := func(tools2 string) func() answer {
		return func() answer { return alice.inBody(signedBy(t, ours, header, changed(t, payload, tools, tools2))) }
	}
	many := func(n int, f func(i int) string) string {
		s := make([]string, n)
		for i := range s {
			s[i] = f(i)
		}
		return strings.Join(s, ",")
	}
	deep := `{"constraint_type":"wildcard"}`
	for range 40 {
		deep = `{"constraint_type":"all","constraints":[` + deep + `]}`
	}
	chain := []string{c.Token}
	for i := range 17 {
		chain = append(chain, chain[i]+"x")
	}
	started := time.Now()
	w.repel(t,
		attack{"ATK-55 a chain of 18", "too_deep", func() answer { return alice.inBody(chain...) }},
		attack{"ATK-55 a chain of 10,000", "too_deep", func() answer { return alice.inBody(strings.Split(many(10000, func(i int) string { return fmt.Sprintf("a.b.%d", i) }), ",")...) }},
		attack{"ATK-55 300 operations", "too_large", with("{" + many(300, func(i int) string { return fmt.Sprintf(`"o%d":{}`, i) }) + "}")},
		attack{"ATK-55 65 arguments", "too_large", with(`{"` + opSearch + `":{` + many(65, func(i int) string { return fmt.Sprintf(`"a%d":{"constraint_type":"wildcard"}`, i) }) + "}}")},
		attack{"ATK-55 a constraint 40 deep", "too_deep", with(`{"` + opSearch + `":{"a":` + deep + `}}`)},
		attack{"ATK-55 10,000 values", "too_large", with(`{"` + opSearch + `":{"a":{"constraint_type":"one_of","values":[` + many(10000, func(i int) string { return fmt.Sprintf(`"v%d"`, i) }) + "]}}}")},
		attack{"ATK-55 a token of 64 KiB and one", "too_large", func() answer { return alice.inBody(c.Token + strings.Repeat("A", 64<<10)) }},
		attack{"ATK-55 JSON 10,000 deep in a token", "malformed", with(strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000))},
		attack{"ATK-55 a regular expression that explodes", "proof_missing", func() answer {
			return alice.with("documents", data("search_documents", map[string]any{"query": strings.Repeat("a", 100000) + "!"}), []string{c.Token}, "")
		}},
	)
	for name, body := range map[string][]byte{
		"100,000 deep":  []byte(strings.Repeat("[", 100000)),
		"100 deep":      []byte(changed(t, string(data("search_documents", map[string]any{"q": "DEEP"})), `"DEEP"`, strings.Repeat("[", 100)+strings.Repeat("]", 100))),
		"a huge number": []byte(changed(t, string(data("search_documents", map[string]any{"q": "N"})), `"N"`, strings.Repeat("9", 200000))),
		"an exponent":   []byte(changed(t, string(data("search_documents", map[string]any{"q": "N"})), `"N"`, "1e2147483647")),
	} {
		t.Run("ATK-55 a body with "+name, func(t *testing.T) {
			a := alice.send("documents", body)
			w.refused(t, a, "syntax")
		})
	}
	t.Run("ATK-55 a body of 64 MiB", func(t *testing.T) {
		a := w.post(w.agentURL("documents"), bytes.Repeat([]byte(" "), 64<<20), http.Header{})
		if a.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", a.Status)
		}
	})
	t.Run("ATK-55 a compressed body", func(t *testing.T) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(bytes.Repeat([]byte(" "), 32<<20))
		_ = z.Close()
		if a := w.post(w.agentURL("documents"), b.Bytes(), http.Header{"Content-Encoding": {"gzip"}}); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%d", a.Status)
		}
	})
	t.Run("ATK-55 headers of 2 MiB", func(t *testing.T) {
		r, err := http.NewRequest(http.MethodPost, w.agentURL("documents"), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Powerbox-Capability", strings.Repeat("a", 2<<20))
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%d", resp.StatusCode)
			}
		}
	})
	t.Run("ATK-55 a flood of bad proofs", func(t *testing.T) {
		body := data("search_documents", nil)
		for range 200 {
			h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch, key: newKey(t)})
			w.refused(t, w.post(w.agentURL("documents"), body, h), "proof_signature")
		}
	})
	if d := time.Since(started); d > 2*time.Minute {
		t.Errorf("ATK-55 refusing took %s", d)
	}
	body, h := alice.searching(c.Token)
	allowed(t, w.post(w.agentURL("documents"), body, h))
}

// inBody presents a chain that is too long for a header.
func (c *caller) inBody(chain ...string) answer {
	c.w.t.Helper()
	body := rpc("SendMessage", map[string]any{
		"message":  map[string]any{"messageId": "m", "role": "ROLE_USER", "parts": []any{map[string]any{"data": map[string]any{"skill": "search_documents"}}}},
		"metadata": map[string]any{extension: map[string]any{"chain": chain, "proof": "a.b.c"}},
	})
	return c.w.post(c.w.agentURL("documents"), body, http.Header{})
}
