package doors_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// asked is an answer of AuthZEN.
type asked struct {
	status   int
	header   http.Header
	raw      string
	Decision bool
	Context  struct {
		ID, Reason, Text string
		EvaluationID     string `json:"evaluation_id"`
		Missing          []string
		Required         []string
		Reasons          []struct{ Code, Operation string }
		Request          *struct {
			Endpoint string
			Expires  string `json:"expires_at"`
			Form     string `json:"form_url"`
		} `json:"access_request"`
	}
	Results []struct{ Type, ID, Name string }
	Page    struct {
		Next string `json:"next_token"`
	}
	Task struct {
		ID, Status string
		Endpoint   string `json:"status_endpoint"`
	}
	Type string
}

// names are what a search found.
func (a asked) names() []string {
	out := []string{}
	for _, r := range a.Results {
		out = append(out, r.ID+r.Name)
	}
	return out
}

// guardAsks asks as a program.
func (w *town) guardAsks(t testing.TB, method, path, token, body string) asked {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-ID", "id-1")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := asked{status: a.StatusCode, header: a.Header, raw: string(raw)}
	if err := json.Unmarshal(raw, &out); err != nil && a.StatusCode < 400 {
		t.Fatalf("%s: %v: %s", path, err, raw)
	}
	if a.Header.Get("X-Request-ID") != "id-1" {
		t.Errorf("%s: X-Request-ID is not returned", path)
	}
	return out
}

// TestAuthZENSearch: the requests of the certification scenario, Search Core and Properties,
// with their sections.
func TestAuthZENSearch(t *testing.T) {
	w := newTown(t, "scoped")
	const (
		user, alice, bob = `"subject":{"type":"user"}`, `"subject":{"type":"user","id":"alice"}`, `"subject":{"type":"user","id":"bob","properties":{"role":"admin"}}`
		read, write      = `"action":{"name":"read"}`, `"action":{"name":"write"}`
		one, record      = `"resource":{"type":"record","id":"record-1"}`, `"resource":{"type":"record"}`
		archived         = `"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}}`
	)
	records := len(w.records(t))
	for name, q := range map[string]struct {
		kind, body string
		want       []string
	}{
		"4.2.1":                      {"subject", user + "," + read + "," + one, []string{"alice", "bob"}},
		"4.2.2 context":              {"subject", user + "," + read + "," + one + `,"context":{"ip":"1"}`, []string{"alice", "bob"}},
		"4.2.4":                      {"subject", user + "," + write + "," + archived, []string{"bob"}},
		"4.3.1":                      {"resource", alice + "," + read + "," + record, []string{"record-1", "record-2"}},
		"4.3.3":                      {"resource", bob + "," + write + "," + record, []string{"record-2"}},
		"4.4.1":                      {"action", alice + "," + one, []string{"read", "write"}},
		"4.4.3":                      {"action", bob + "," + archived, []string{"read", "write"}},
		"4.6.1 an unknown user":      {"action", `"subject":{"type":"user","id":"nobody"},` + one, []string{}},
		"4.6.2 an unknown type":      {"subject", `"subject":{"type":"spaceship"},` + read + "," + one, []string{}},
		"an unknown collection":      {"resource", alice + "," + read + `,"resource":{"type":"ship"}`, []string{}},
		"agents that may read":       {"subject", `"subject":{"type":"agent"},"action":{"name":"read_note"},"resource":{"type":"agent","id":"notes"}`, []string{"assistant"}},
		"agents that may delete":     {"subject", `"subject":{"type":"agent"},"action":{"name":"delete_note"},"resource":{"type":"agent","id":"notes"}`, []string{}},
		"where the assistant writes": {"resource", `"subject":{"type":"agent","id":"assistant"},"action":{"name":"read_note"},"resource":{"type":"agent"}`, []string{"notes"}},
		"what the assistant may do":  {"action", `"subject":{"type":"agent","id":"assistant"},"resource":{"type":"agent","id":"notes"}`, []string{"read_note"}},
		"what a stranger may do":     {"action", `"subject":{"type":"agent","id":"robot"},"resource":{"type":"agent","id":"notes"}`, []string{}},
	} {
		a := w.guardAsks(t, http.MethodPost, "/access/v1/search/"+q.kind, guardToken, "{"+q.body+"}")
		if got := a.names(); a.status != http.StatusOK || !slices.Equal(got, q.want) || a.Results == nil {
			t.Errorf("%s: %d %v; want %v\n%s", name, a.status, got, q.want, a.raw)
		}
	}
	first := w.guardAsks(t, http.MethodPost, "/access/v1/search/subject", guardToken, "{"+user+","+read+","+one+`,"page":{"limit":1}}`)
	next := w.guardAsks(t, http.MethodPost, "/access/v1/search/subject", guardToken, "{"+user+","+read+","+one+`,"page":{"token":"`+first.Page.Next+`"}}`)
	if !slices.Equal(first.names(), []string{"alice"}) || first.Page.Next == "" || !slices.Equal(next.names(), []string{"bob"}) || next.Page.Next != "" {
		t.Errorf("4.5 pages: %s and %s", first.raw, next.raw)
	}
	for name, q := range map[string][2]string{
		"4.7.1 no action": {"subject", user + "," + one}, "4.7.1 no subject": {"resource", read + "," + record}, "4.7.1 no resource": {"action", alice},
		"4.7.2 no id of the resource": {"subject", user + "," + read + "," + record}, "4.7.2 no id of the subject": {"resource", user + "," + read + "," + record},
		"a capability": {"resource", `"subject":{"type":"capability","id":"x"},` + read + "," + record}, "no type": {"subject", `"subject":{},` + read + "," + one},
		"a token that is none": {"subject", user + "," + read + "," + one + `,"page":{"token":5}`},
		"a page that is none":  {"subject", user + "," + read + "," + one + `,"page":{"limit":0}`},
	} {
		if a := w.guardAsks(t, http.MethodPost, "/access/v1/search/"+q[0], guardToken, "{"+q[1]+"}"); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s; want 400", name, a.status, a.raw)
		}
	}
	if a := w.guardAsks(t, http.MethodPost, "/access/v1/search/subject", "", "{"+user+","+read+","+one+"}"); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", a.status)
	}
	if a := w.guardAsks(t, http.MethodPost, "/access/v1/search/subject", strings.ToUpper(guardToken), "{"+user+","+read+","+one+"}"); a.status != http.StatusOK || len(a.Results) != 0 {
		t.Errorf("a guard that may not ask about users finds %s", a.raw)
	}
	if now := len(w.records(t)); now != records {
		t.Errorf("searches left %d records", now-records)
	}
}

// TestAuthZENDiscovery: the document names every path, at the public URL.
func TestAuthZENDiscovery(t *testing.T) {
	w := newTown(t, "scoped")
	a := w.guardAsks(t, http.MethodGet, "/.well-known/authzen-configuration", "", "")
	var all map[string]string
	if err := json.Unmarshal([]byte(a.raw), &all); err != nil || a.header.Get("Content-Type") != "application/json" || all["policy_decision_point"] != w.url {
		t.Fatalf("%v %s", err, a.raw)
	}
	for name, path := range map[string]string{
		"access_evaluation_endpoint": "evaluation", "access_evaluations_endpoint": "evaluations", "search_subject_endpoint": "search/subject",
		"search_resource_endpoint": "search/resource", "search_action_endpoint": "search/action", "access_request_endpoint": "requests",
	} {
		if all[name] != w.url+"/access/v1/"+path {
			t.Errorf("%s is %q", name, all[name])
		}
		if got := w.guardAsks(t, http.MethodPost, "/access/v1/"+path, guardToken, "{}"); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s; want 400 for an empty question", path, got.status, got.raw)
		}
	}
}

// TestAuthZENAccessRequests: a denial names where access is asked for, the task tells what
// became of it, and no other program learns of it.
func TestAuthZENAccessRequests(t *testing.T) {
	w := newTown(t, "scoped")
	question := `"subject":{"type":"agent","id":"assistant"},"action":{"name":"archive_note","properties":{"arguments":{"title":"a"}}},"resource":{"type":"agent","id":"notes"}`
	ask := func() asked {
		return w.guardAsks(t, http.MethodPost, "/access/v1/evaluation", guardToken, "{"+question+"}")
	}
	denied := ask()
	c := denied.Context
	if denied.Decision || c.Reason != "approval_required" || c.EvaluationID == "" || c.Request == nil || c.Request.Endpoint != w.url+"/access/v1/requests" || !strings.HasPrefix(c.Request.Form, w.url) {
		t.Fatalf("%s", denied.raw)
	}
	submit := func(question, evaluation, expires string) asked {
		return w.guardAsks(t, http.MethodPost, "/access/v1/requests", guardToken, fmt.Sprintf(`{%s,"denial":{"evaluation_id":%q,"expires_at":%q}}`, question, evaluation, expires))
	}
	task := submit(question, c.EvaluationID, c.Request.Expires)
	if task.status != http.StatusAccepted || task.Task.Status != "pending" || task.header.Get("Location") != task.Task.Endpoint {
		t.Fatalf("%d %s", task.status, task.raw)
	}
	if again := submit(question, c.EvaluationID, c.Request.Expires); again.Task.ID != task.Task.ID {
		t.Errorf("the same request is another task: %s", again.raw)
	}
	for name, wrong := range map[string]asked{
		"another denial":   submit(question, "rec_other", c.Request.Expires),
		"another end":      submit(question, c.EvaluationID, "2100-01-01T00:00:00Z"),
		"another question": submit(strings.Replace(question, `"a"`, `"b"`, 1), c.EvaluationID, c.Request.Expires),
		"nothing to ask":   submit(strings.Replace(question, "archive_note", "read_note", 1), c.EvaluationID, c.Request.Expires),
	} {
		if wrong.status != http.StatusBadRequest || wrong.Type != "urn:openid:authzen:access-request:error:invalid_denial_binding" {
			t.Errorf("%s: %d %s", name, wrong.status, wrong.raw)
		}
	}
	path := strings.TrimPrefix(task.Task.Endpoint, w.url)
	if got := w.guardAsks(t, http.MethodGet, path, guardToken, ""); got.Task.Status != "pending" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.raw)
	}
	for token, status := range map[string]int{"": http.StatusUnauthorized, strings.ToUpper(guardToken): http.StatusNotFound} {
		if got := w.guardAsks(t, http.MethodGet, path, token, ""); got.status != status {
			t.Errorf("another program: %d %s; want %d", got.status, got.raw, status)
		}
	}
	w.approve(t, c.Request.Form)
	if got := w.guardAsks(t, http.MethodGet, path, guardToken, ""); got.Task.Status != "approved" || !strings.Contains(got.raw, `"mode":"reevaluate"`) {
		t.Errorf("%d %s", got.status, got.raw)
	}
	if got := ask(); !got.Decision {
		t.Errorf("the approved attempt is denied: %s", got.raw)
	}
	if got := ask(); got.Decision {
		t.Errorf("one approval is used twice: %s", got.raw)
	}
}
