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

// TestATK22_BytesAreForwardedAsChecked compares the sent bytes with those that arrive:
// the proof is for the bytes that were sent, and the agent gets the message that the
// gateway writes from what it decided on.
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
	written := `{"id":9007199254740993,"jsonrpc":"2.0","method":"SendMessage","params":{"message":{"messageId":"m","parts":[{"data":{"arguments":` +
		`{"e":1E2,"f":1.10,"n":9007199254740992,"neg":-1.50,"nested":{"a":[1,2,{}],"b":1},"query":"a\"b/c 😀","z":"\u0000"},"skill":"search_documents"}}],"role":"ROLE_USER"}}}`
	if len(got) != 1 || string(got[0].body) != written {
		t.Fatalf("ATK-22 sent\n%s\narrived %q\n%s", body, got, a.Raw)
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
	proof, err := token.SignProof(chain, c.key, token.Proof{
		ID: nonce(), IssuedAt: time.Now(), Operation: operation, Arguments: v, Audience: url,
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
		{"skill to its first end", `"skill":`, `"skill\u0000":"delete_document","skill":`, "member_ambiguous"},
		{"a name that ends before its end", `"role":`, `"metadata":{"x\u0000y":1},"role":`, "member_ambiguous"},
		{"skill twice", `"skill":`, `"skill":"delete_document","skill":`, "syntax"},
		{"TaskId alone", `"role":`, `"TaskId":"t","role":`, "member_ambiguous"},
		{"taskId and task_id", `"role":`, `"taskId":"t","task_id":"t","role":`, "member_ambiguous"},
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

// TestATK27_TasksByTheFieldOfProtobuf names a task by task_id alone, which counts as
// taskId: a foreign one is refused as one that does not exist, and the caller's own
// arrives as taskId.
func TestATK27_TasksByTheFieldOfProtobuf(t *testing.T) {
	w := start(t, options{agent: "    enforces: context"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	held := alice.reports()
	foreign, _ := bob.open(bob.reports())
	own, _ := alice.open(held)
	say := func(task string) answer {
		return alice.present("documents", about("SendMessage", map[string]any{"task_id": task}), proven{chain: []string{held.Token}, operation: opMessage, arguments: map[string]any{"task": task}})
	}
	w.documents.forget()
	a := say(foreign)
	if a.Error == nil || a.Error.Code != -32001 || len(w.documents.got()) > 0 {
		t.Errorf("a foreign task: %s", a.Raw)
	}
	if d := w.decided(a); d.Decision != "DENY" || !d.has("task_foreign") {
		t.Errorf("the record says %+v", d.Powerbox.Reasons)
	}
	allowed(t, say(own))
	if got := w.documents.got(); len(got) != 1 || !bytes.Contains(got[0].body, []byte(`"taskId":"`+own+`"`)) || bytes.Contains(got[0].body, []byte("task_id")) {
		t.Errorf("the caller's own task arrived as %q", got)
	}
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
func TestATK35_CredentialsAreConsumed(t *testing.T) { overTools(t, tryATK35CredentialsAreConsumed) }

func tryATK35CredentialsAreConsumed(t *testing.T, on wire) {
	w := start(t, options{on: on})
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
func TestATK38_PathsAreNoHandles(t *testing.T) { overTools(t, tryATK38PathsAreNoHandles) }

func tryATK38PathsAreNoHandles(t *testing.T, on wire) {
	w := start(t, options{on: on})
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
	if on.binding == overMCP {
		return // it has one URL
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
func TestATK39_NumbersAreExact(t *testing.T) { everywhere(t, tryATK39NumbersAreExact) }

func tryATK39NumbersAreExact(t *testing.T, on wire) {
	w := start(t, options{on: on})
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
		return func() answer {
			return alice.with("documents", body, []string{c.Token}, signedBy(t, alice.key, header, p))
		}
	}
	id := between(payload, `"jti":"`, `"`)
	fresh := strings.Replace(payload, id, nonce(), 1)
	w.repel(t,
		attack{"ATK-40 the composed for the decomposed", "proof_arguments", again(changed(t, fresh, "e\u0301", "\u00e9"))},
		attack{"ATK-40 two members that only escapes tell apart", "malformed", again(changed(t, fresh, `"hta":{`, `"hta":{"\u006d":5,`))},
		attack{"ATK-40 a replay written otherwise", "proof_replayed", again(" " + changed(t, payload, `,"iat"`, ` , "iat"`))},
	)
}

// TestATK55_CapsComeFirst sends messages that are too deep or too long, or have too many parts.
func TestATK55_CapsComeFirst(t *testing.T) { everywhere(t, tryATK55CapsComeFirst) }

func tryATK55CapsComeFirst(t *testing.T, on wire) {
	w := start(t, options{on: on})
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
		attack{"ATK-55 a chain of 400", "too_deep", func() answer {
			return alice.inBody(strings.Split(many(400, func(i int) string { return fmt.Sprintf("a.b.%d", i) }), ",")...)
		}},
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
