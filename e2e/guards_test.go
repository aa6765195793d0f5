package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const guardToken = "guard-token-of-the-test-0123456789abcdef"

// guardTown is a server whose agents are inside programs that ask it.
func guardTown(t *testing.T, mode string) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("guard.token", guardToken+"\n")
	w.write("other.token", strings.ToUpper(guardToken))
	w.write("policies.cedar", certificationPolicies)
	w.write("powerbox.yaml", fmt.Sprintf(guardedConfiguration, port, w.url, aliceToken, mode))
	w.migrate()
	w.boot()
	return w
}

// certificationPolicies are what the certification scenario of AuthZEN asks for.
const certificationPolicies = `
permit(principal == User::"user:alice", action == Action::"records/records/read", resource in Collection::"records/record");
permit(principal == User::"user:alice", action == Action::"records/records/delete", resource in Collection::"records/record");
permit(principal == User::"user:alice", action == Action::"records/records/write", resource in Collection::"records/record") unless { resource.attributes.status == "archived" };
permit(principal == User::"user:bob", action == Action::"records/records/read", resource in Collection::"records/record");
permit(principal in Role::"admin", action == Action::"records/records/write", resource in Collection::"records/record") when { resource.attributes.status == "archived" };
permit(principal == User::"user:alice", action, resource == Agent::"files");
`

const guardedConfiguration = `listen: 127.0.0.1:%s
issuer: {url: "%s"}
identity:
  dev: [{name: alice, token: %s}]
  guards:
    - {name: helpdesk, token_file: guard.token, agents: [triage, refunds], users: true}
    - {name: other, token_file: other.token, agents: [mailer]}
defaults: {mode: %s}
limits: {denials: 0}
agents:
  - {id: triage, protocol: local, required: [desk/sort]}
  - {id: refunds, protocol: local, required: [refund/look]}
  - {id: mailer, protocol: local, required: [mail/send]}
  - {id: files, protocol: local}
  - {id: records, protocol: local}
offers:
  triage: [{id: desk, operations: [sort]}]
  refunds: [{id: refund, operations: [look, pay]}]
  mailer: [{id: mail, operations: [send]}]
  files: [{id: files, operations: [read, delete]}]
  records: [{id: records, operations: [read, write, delete]}]
skills:
  triage: [{skill: sort, grant: desk, operation: sort}]
  refunds:
    - {skill: look_up, grant: refund, operation: look, effect: read}
    - {skill: pay, grant: refund, operation: pay}
  mailer: [{skill: mail.send, grant: mail, operation: send}]
  files:
    - {skill: read_file, grant: files, operation: read, effect: read}
    - {skill: delete_file, grant: files, operation: delete}
  records:
    - {skill: read, grant: records, operation: read, effect: read}
    - {skill: write, grant: records, operation: write}
    - {skill: delete, grant: records, operation: delete, arguments: {soft: {constraint_type: exact, value: true}}}
resources:
  records:
    items:
      - {collection: record, id: record-1, name: One, attributes: {status: active}}
      - {collection: record, id: record-2, name: Two, attributes: {status: archived}}
scopes:
  triage: {refunds: [refund/look], files: [files/read]}
  refunds: {files: [files/read], mailer: [mail/send]}
policies: [policies.cedar]
`

// opinion is what a guard is answered.
type opinion struct {
	status      int
	raw         string
	header      http.Header
	Decision    *bool `json:"decision"`
	Evaluations []struct {
		Decision *bool           `json:"decision"`
		Context  json.RawMessage `json:"context"`
	} `json:"evaluations"`
	Context struct {
		ID       string   `json:"id"`
		Text     string   `json:"text"`
		Origin   string   `json:"origin"`
		Target   string   `json:"target"`
		Required []string `json:"required"`
		Missing  []string `json:"missing"`
		Skills   []string `json:"skills"`
		Reasons  []struct {
			Code string `json:"code"`
		} `json:"reasons"`
	} `json:"context"`
}

// asks posts a body as a guard, with further headers.
func (w *town) asks(path, token, body string, header ...string) opinion {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/access/v1/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for n := 0; n+1 < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	s := opinion{status: answer.StatusCode, raw: string(raw), header: answer.Header}
	if err := json.Unmarshal(raw, &s); err != nil {
		w.t.Fatalf("%s: %v: %s", path, err, raw)
	}
	return s
}

// The requests of the certification scenario of AuthZEN 1.0 (openid/authzen,
// certification/authorization-api-1_0-scenario.md), Basic, with its sections.
func TestGATE1_AuthZENBasic(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	subject := func(id, more string) string { return fmt.Sprintf(`"subject":{"type":"user","id":"%s"%s}`, id, more) }
	action := func(name, more string) string { return fmt.Sprintf(`"action":{"name":"%s"%s}`, name, more) }
	record := func(id, more string) string { return fmt.Sprintf(`"resource":{"type":"record","id":"%s"%s}`, id, more) }
	const archived, admin = `,"properties":{"status":"archived"}`, `,"properties":{"role":"admin"}`
	for name, q := range map[string]struct {
		body string
		want bool
	}{
		"2.2.1 permit":                {subject("alice", "") + "," + action("read", "") + "," + record("record-1", ""), true},
		"rule 2":                      {subject("alice", "") + "," + action("write", "") + "," + record("record-1", ""), true},
		"rule 3":                      {subject("bob", "") + "," + action("read", "") + "," + record("record-1", ""), true},
		"2.2.2 deny":                  {subject("bob", "") + "," + action("write", "") + "," + record("record-1", ""), false},
		"2.2.3 context":               {subject("alice", "") + "," + action("read", "") + "," + record("record-1", "") + `,"context":{"time":"2025-06-27T18:03-07:00","ip":"192.168.1.1"}`, true},
		"2.2.4 resource properties":   {subject("alice", "") + "," + action("write", "") + "," + record("record-2", archived), false},
		"rule 5 by what is said":      {subject("alice", "") + "," + action("write", "") + "," + record("record-1", archived), false},
		"2.2.5 subject properties":    {subject("bob", admin) + "," + action("write", "") + "," + record("record-2", archived), true},
		"2.2.6 action properties":     {subject("alice", "") + "," + action("delete", `,"properties":{"soft":true}`) + "," + record("record-1", ""), true},
		"2.2.7 action properties":     {subject("alice", "") + "," + action("delete", `,"properties":{"soft":false}`) + "," + record("record-1", ""), false},
		"2.2.8 additional properties": {subject("alice", `,"properties":{"department":"Sales","role":"manager"}`) + "," + action("read", `,"properties":{"method":"GET"}`) + "," + record("record-1", `,"properties":{"status":"active","owner":"bob"}`), true},
		"2.2.9 unknown fields":        {subject("alice", "") + "," + action("read", "") + "," + record("record-1", "") + `,"foo":"bar","futureField":{"nested":true}`, true},
	} {
		for range 3 { // section 2.6
			if got := w.asks("evaluation", guardToken, "{"+q.body+"}", "X-Request-ID", "id-1"); got.status != http.StatusOK || got.Decision == nil || *got.Decision != q.want || got.header.Get("X-Request-ID") != "id-1" {
				t.Errorf("%s: %d %s; want %v", name, got.status, got.raw, q.want)
			}
		}
	}
	good := []string{subject("alice", ""), action("read", ""), record("record-1", "")}
	wrong := []string{"", "{", "[]", `"x"`, `{"subject":"alice",` + good[1] + "," + good[2] + "}", "{" + good[0] + `,"action":{"name":123},` + good[2] + "}"}
	for i, bad := range [][]string{{"", `"subject":{"id":"alice"}`, `"subject":{"type":"user"}`}, {"", `"action":{}`}, {"", `"resource":{"id":"record-1"}`, `"resource":{"type":"record"}`}} {
		for _, part := range bad {
			parts := slices.Clone(good)
			if parts[i] = part; part == "" {
				parts = slices.Delete(parts, i, i+1)
			}
			wrong = append(wrong, "{"+strings.Join(parts, ",")+"}")
		}
	}
	for _, body := range wrong {
		if got := w.asks("evaluation", guardToken, body); got.status != http.StatusBadRequest {
			t.Errorf("2.4 %s: %d %s; want 400", body, got.status, got.raw)
		}
	}
	whole := "{" + strings.Join(good, ",") + "}"
	if got := w.asks("evaluation", guardToken, whole, "Content-Type", "text/plain"); got.status != http.StatusBadRequest {
		t.Errorf("2.4.3: %d; want 400", got.status)
	}
	for _, token := range []string{"", "guard", guardToken + "x"} {
		if got := w.asks("evaluation", token, whole); got.status != http.StatusUnauthorized {
			t.Errorf("token %q: %d %s; want 401", token, got.status, got.raw)
		}
	}
	if got := w.asks("evaluation", strings.ToUpper(guardToken), whole); got.status != http.StatusOK || *got.Decision || got.Context.Reasons[0].Code != "caller_not_spoken_for" {
		t.Errorf("a guard that may not ask about users: %s", got.raw)
	}
}

// The same, Batch.
func TestGATE1_AuthZENBatch(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	const (
		alice, bob = `"subject":{"type":"user","id":"alice"}`, `"subject":{"type":"user","id":"bob"}`
		read       = `"action":{"name":"read"}`
		write      = `"action":{"name":"write"}`
		one, two   = `{"resource":{"type":"record","id":"record-1"}}`, `{"resource":{"type":"record","id":"record-2"}}`
		first      = `"resource":{"type":"record","id":"record-1"}`
		archived   = `{"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}}}`
	)
	for name, q := range map[string]struct {
		body string
		want []bool
	}{
		"3.2.1":       {alice + "," + read + `,"evaluations":[` + one + "," + two + "]", []bool{true, true}},
		"3.2.2":       {bob + "," + first + `,"evaluations":[{` + read + "},{" + write + "}]", []bool{true, false}},
		"3.2.3":       {alice + "," + write + `,"evaluations":[{"resource":{"type":"record","id":"record-1","properties":{"status":"active"}}},` + archived + "]", []bool{true, false}},
		"3.2.4":       {write + `,"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}},"evaluations":[{` + alice + `},{"subject":{"type":"user","id":"bob","properties":{"role":"admin"}}}]`, []bool{false, true}},
		"3.2.5":       {`"evaluations":[{` + alice + "," + read + "," + first + "},{" + bob + "," + write + "," + first + "}]", []bool{true, false}},
		"3.2.6":       {alice + "," + read + `,"context":{"time":"x"},"evaluations":[` + one + `,{"resource":{"type":"record","id":"record-2"},"context":{"source":"batch-override"}}]`, []bool{true, true}},
		"3.2.7":       {alice + "," + write + `,"resource":{"type":"record"},"evaluations":[{"resource":{"id":"record-1","properties":{"status":"active"}}},` + archived + "]", []bool{true, false}},
		"3.4.1":       {alice + "," + read + `,"evaluations":[` + one + ",{}]", []bool{true, false}},
		"first deny":  {bob + "," + first + `,"options":{"evaluations_semantic":"deny_on_first_deny"},"evaluations":[{` + write + "},{" + read + "}]", []bool{false}},
		"first allow": {bob + "," + first + `,"options":{"evaluations_semantic":"permit_on_first_permit"},"evaluations":[{` + write + "},{" + read + "},{" + read + "}]", []bool{false, true}},
	} {
		got := w.asks("evaluations", guardToken, "{"+q.body+"}")
		var decisions []bool
		for _, e := range got.Evaluations {
			if e.Decision == nil {
				t.Fatalf("%s: %s", name, got.raw)
			}
			decisions = append(decisions, *e.Decision)
		}
		if got.status != http.StatusOK || !slices.Equal(decisions, q.want) {
			t.Errorf("%s: %d %s; want %v", name, got.status, got.raw, q.want)
		}
	}
	for name, more := range map[string]string{"3.4.2": "", "3.4.3": `,"evaluations":[]`} {
		if got := w.asks("evaluations", guardToken, "{"+alice+","+read+","+first+more+"}"); got.status != http.StatusOK || got.Decision == nil || !*got.Decision {
			t.Errorf("%s: %s", name, got.raw)
		}
	}
	for name, body := range map[string]string{
		"too many": alice + "," + read + `,"evaluations":[` + strings.Repeat(one+",", 100) + one + "]",
		"no array": alice + "," + read + "," + first + `,"evaluations":{}`,
		"semantic": alice + "," + read + `,"options":{"evaluations_semantic":"some"},"evaluations":[` + one + "]",
	} {
		if got := w.asks("evaluations", guardToken, "{"+body+"}"); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s; want 400", name, got.status, got.raw)
		}
	}
}

// attempt is a question about what one agent tries at another.
func attempt(from, to, action, properties string) string {
	return fmt.Sprintf(`{"subject":{"type":"agent","id":"%s"},"action":{"name":"%s","properties":{%s}},"resource":{"type":"agent","id":"%s"},"context":{"purpose":"test"}}`, from, action, properties, to)
}

// What agents inside a program try is decided by Caps(B) meet Scope(A), with the
// missing set, and recorded (GATE-10).
func TestGATE10_AttemptsInsideAProgram(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	for name, q := range map[string]struct {
		body, missing, code string
	}{
		"a hand-off":                        {attempt("triage", "refunds", "powerbox.handoff", ""), "", ""},
		"what it requires is said":          {attempt("triage", "refunds", "powerbox.handoff", `"requires":["look_up"]`), "", ""},
		"beyond the scope":                  {attempt("triage", "refunds", "powerbox.handoff", `"requires":["refund/pay","look_up"]`), "refunds/refund/pay", "outside_caller_scope"},
		"no scope at all":                   {attempt("triage", "mailer", "powerbox.handoff", ""), "a2a.message, mailer/mail/send", "outside_caller_scope"},
		"GATE-5 nothing required is known":  {attempt("triage", "files", "powerbox.handoff", ""), "", "outside_caller_scope"},
		"GATE-5 a requirement of nobody":    {attempt("triage", "refunds", "powerbox.handoff", `"requires":["fly"]`), "", "skill_unmapped"},
		"a tool":                            {attempt("triage", "files", "read_file", `"arguments":{"path":"/a"}`), "", ""},
		"a tool beyond the scope":           {attempt("triage", "files", "delete_file", `"arguments":{"path":"/a"}`), "files/files/delete", "outside_caller_scope"},
		"a tool of nobody":                  {attempt("triage", "files", "fly", ""), "", "skill_unmapped"},
		"an agent of nobody":                {attempt("triage", "nobody", "powerbox.handoff", ""), "", "agent_unknown"},
		"ATK-37 an agent of another guard":  {attempt("mailer", "files", "read_file", ""), "", "caller_not_spoken_for"},
		"a reserved operation is no skill":  {attempt("triage", "files", "a2a.task.read", ""), "", "skill_unmapped"},
		"no capability shown, and no agent": {strings.Replace(attempt("triage", "files", "read_file", ""), `"type":"agent","id":"triage"`, `"type":"capability","id":"none"`, 1), "a2a.message, files/files/read", "outside_caller_scope"},
	} {
		got := w.asks("evaluation", guardToken, q.body)
		if got.status != http.StatusOK || *got.Decision != (q.code == "") || strings.Join(got.Context.Missing, ", ") != q.missing {
			t.Errorf("%s: %d %s; want missing %q", name, got.status, got.raw, q.missing)
			continue
		}
		if q.code != "" && (len(got.Context.Reasons) == 0 || got.Context.Reasons[0].Code != q.code) {
			t.Errorf("%s: %s; want %s", name, got.raw, q.code)
		}
		if q.missing != "" && got.Context.Text != "Capability scope violation: {"+q.missing+"}" {
			t.Errorf("%s: %q", name, got.Context.Text)
		}
		r := w.record(got.Context.ID)
		if g := r.Powerbox.Gate; g.Target == "" || strings.Join(g.Missing, ", ") != q.missing || (r.Decision == "ALLOW") != (q.code == "") {
			t.Errorf("%s: on record %+v", name, r)
		}
	}
	// ATK-27: the guard does not know which of two spellings the program accepts.
	twice := attempt("triage", "files", "read_file", `"arguments":{"path":"/a","more":{"Path":"/b"}}`)
	if got := w.asks("evaluation", guardToken, twice); got.status != http.StatusOK {
		t.Errorf("names of different objects: %d %s", got.status, got.raw)
	}
	for name, more := range map[string]string{"arguments": `"arguments":{"path":"/a","Path":"/b"}`, "deeper": `"arguments":{"path":"/a","more":[{"so":1,"\u017fo":2}]}`, "members of the question": `"arguments":{"path":"/a"},"Arguments":{"path":"/b"}`} {
		one := attempt("triage", "files", "read_file", more)
		for path, body := range map[string]string{"evaluation": one, "evaluations": `{"evaluations":[` + one + `]}`} {
			if got := w.asks(path, guardToken, body); got.status != http.StatusBadRequest || got.Decision != nil || !strings.Contains(got.raw, "letter case") {
				t.Errorf("ATK-27 %s at %s: %d %s", name, path, got.status, got.raw)
			}
		}
	}
	allowed := w.asks("evaluation", guardToken, attempt("triage", "files", "read_file", `"arguments":{"path":"/a"}`))
	if r := w.record(allowed.Context.ID); r.Powerbox.Gate.Origin != "triage" || r.Powerbox.Gate.Target != "files" || r.Action != "guard.call" || r.Status != "PENDING" || r.Intent.Purpose != "test" {
		t.Errorf("%+v", r)
	}
	outcome := fmt.Sprintf(`{"id":"%s","status":"ACHIEVED"}`, allowed.Context.ID)
	if got := w.asks("outcome", strings.ToUpper(guardToken), outcome); got.status != http.StatusNotFound {
		t.Errorf("another guard tells the outcome: %s", got.raw)
	}
	if got := w.asks("outcome", guardToken, outcome); got.status != http.StatusOK {
		t.Errorf("%s", got.raw)
	}
	if got := w.asks("outcome", guardToken, outcome); got.status != http.StatusNotFound {
		t.Errorf("an outcome twice: %s", got.raw)
	}
	if got := w.outcomes(allowed.Context.ID); len(got) != 1 || got[0].Status != "ACHIEVED" {
		t.Errorf("%+v", got)
	}
	listed := w.asks("evaluation", guardToken, attempt("triage", "files", "a2a.message", ""))
	if !slices.Equal(listed.Context.Skills, []string{"read_file"}) || strings.Contains(listed.raw, `"authority"`) {
		t.Errorf("skills: %s", listed.raw)
	}
	under := w.asks("evaluation", guardToken, attempt("triage", "files", "a2a.message", `"authority":true`))
	if !strings.Contains(under.raw, `"name":"files/files/read"`) || strings.Contains(under.raw, "files/files/delete") || strings.Contains(under.raw, `"ambient"`) {
		t.Errorf("what lists are held to: %s", under.raw)
	}
	if got := w.asks("evaluation", guardToken, attempt("triage", "files", "read_file", `"authority":true`)); strings.Contains(got.raw, `"authority"`) {
		t.Errorf("the authority of a tool: %s", got.raw)
	}
}

// An agent inside a program is issued for, and nothing is forwarded to it, in any
// mode.
func TestGATE4_NothingIsForwardedIntoAProgram(t *testing.T) {
	asGiven(t)
	scoped := guardTown(t, "scoped")
	if got := scoped.post(scoped.url+"/agents/files", rpc("tools/call", map[string]any{"name": "read_file", "arguments": map[string]any{}}), http.Header{}); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("a tool is called at the gateway: %s", got.Raw)
	}
	w := guardTown(t, "observe")
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, w.url+"/agents/files", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK && !strings.Contains(string(raw), `"error"`) {
			t.Errorf("%s: %d %s", method, answer.StatusCode, raw)
		}
	}
	if got := w.asks("evaluation", guardToken, attempt("triage", "files", "delete_file", "")); !*got.Decision || !strings.Contains(got.raw, `"ambient":true`) || w.record(got.Context.ID).Decision != "ABSTAIN" {
		t.Errorf("observe: %s", got.raw)
	}
}
