package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/fill"
	"github.com/powerbox-project/powerbox/internal/freeport"
)

// town is the built powerbox over a store that grows.
type town struct {
	dir, binary, listen string
	program             built.Program
	agents              *httptest.Server // all of them
	console             *http.Client     // with the session of an operator
	operator            string           // the operator's token
	capability          string           // that calls use
	have                amounts
	speaks              *speaker
	revoked             int64  // the number of the last revocation
	read                int    // records that the program has read for Graph
	middle              string // id of a record
}

// patience is how long the program may take to be ready.
const patience = 5 * time.Minute

func agentName(n int) string { return fmt.Sprintf("agent-%04d", n) }

// configure writes the configuration with this many agents.
func (t *town) configure(agents int) error {
	var b strings.Builder
	fmt.Fprintf(&b, `listen: %[1]s
issuer: {url: "http://%[1]s", directory: state, maximum_lifetime: 24h, feed: {streams: 2000}}
identity:
  dev: [{name: alice, token: alice-session-token}, {name: carol, token: carol-session-token}]
evidence: {origin: %[2]s}
policies: [policies.cedar]
approvals: {operators: ["user:carol"]}
defaults: {request_rate: 0}
limits: {denials: 0, streams: 20000, connections_per_address: 0}
`, t.listen, origin)
	var offers, skills strings.Builder
	b.WriteString("agents:\n")
	for n := range agents {
		fmt.Fprintf(&b, "  - {id: %[1]s, upstream: \"http://%[2]s/%[1]s\", mode: require}\n", agentName(n), t.agents.Listener.Addr())
		fmt.Fprintf(&offers, "  %s: [{id: \"data:use\", operations: [search], maximum_lifetime: 24h}]\n", agentName(n))
		fmt.Fprintf(&skills, "  %s: [{skill: search, grant: \"data:use\", operation: search, effect: read}]\n", agentName(n))
	}
	b.WriteString("offers:\n" + offers.String() + "skills:\n" + skills.String())
	return errors.Join(os.WriteFile(filepath.Join(t.dir, "powerbox.yaml"), []byte(b.String()), 0o600),
		os.WriteFile(filepath.Join(t.dir, "policies.cedar"), []byte("permit(principal, action, resource);\n"), 0o600))
}

// begin starts the agents, and has the program make its keys.
func (t *town) begin(ctx context.Context) (err error) {
	t.speaks = &speaker{next: make(chan struct{})}
	t.agents = httptest.NewServer(t.speaks)
	if t.listen, err = freeport.Lasting(); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(t.dir, 0o700), t.configure(few.agents), t.program.Serve(ctx, t.binary, t.dir, t.listen, patience), t.program.End())
}

// card is that of an agent, by its name and its address.
const card = `{"name":%[1]q,"description":"An agent","version":"1.0.0","supportedInterfaces":[{"url":"http://%[2]s/%[1]s","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
	"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"search","name":"Search","description":"Searches data","tags":["data"]}]}`

// answer is every agent.
func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		fmt.Fprintf(w, card, name, r.Host) //nolint:gosec // JSON, which no browser reads
		return
	}
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`)
}

func (t *town) serve(ctx context.Context) error {
	return t.program.Serve(ctx, t.binary, t.dir, t.listen, patience)
}

// login opens the session of an operator, and requests the capability that calls use.
func (t *town) login(ctx context.Context) error {
	token, err := os.ReadFile(filepath.Join(t.dir, "state", "keys", "operator.secret"))
	if err != nil {
		return err
	}
	t.operator = strings.TrimSpace(string(token))
	if t.console, err = fill.Login(ctx, t.listen, "carol"); err != nil {
		return err
	}
	wanted := t.call(`{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["data:use"],"purpose":"Measure"}}`)
	wanted.answered = func(body []byte) error {
		var a struct {
			Result struct{ Capabilities []struct{ ID string } }
		}
		if err := json.Unmarshal(body, &a); err != nil || len(a.Result.Capabilities) != 1 {
			return fmt.Errorf("no capability: %s", body)
		}
		t.capability = a.Result.Capabilities[0].ID
		return nil
	}
	return t.ask(ctx, wanted)
}

// request is one kind of request to the program.
type request struct {
	name, method, path, body string
	by                       *http.Client
	header                   http.Header
	status                   int
	answered                 func(body []byte) error // checks the answer
}

// call is a message to the first agent.
func (t *town) call(body string) request {
	return request{
		name: "governed call", by: http.DefaultClient, method: http.MethodPost, path: "/agents/" + agentName(0), status: http.StatusOK, body: body,
		header: http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Authorization": {"Bearer alice-session-token"}},
	}
}

// graph is the page that reads the log behind it after a restart.
const graph = "Graph"

// requests are those that are measured.
func (t *town) requests() []request {
	v1 := func(name, path string) request {
		return request{name: name, by: http.DefaultClient, method: http.MethodGet, path: path, status: http.StatusOK, header: http.Header{"Authorization": {"Bearer " + t.operator}}}
	}
	page := func(name, path string) request {
		return request{name: name, by: t.console, method: http.MethodGet, path: path, status: http.StatusOK}
	}
	call := t.call(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"data":{"skill":"search","arguments":{"query":"sales"}}}]}}}`)
	call.header.Set("Powerbox-Capability", t.capability)
	call.answered = func(body []byte) error {
		if !strings.Contains(string(body), `"done"`) {
			return fmt.Errorf("the call was not forwarded: %s", body)
		}
		return nil
	}
	return []request{
		v1("list of records, first page of 50", "/v1/records?limit=50"),
		v1("list of records, 50 in the middle", "/v1/records?limit=50&before="+t.middle),
		v1("record by id", "/v1/records/"+t.middle),
		v1("proof of a record", "/v1/evidence/proof/"+t.middle),
		v1("list of capabilities, first 50", "/v1/capabilities?limit=50"),
		page("Home", "/admin"),
		page("Activity", "/activity"),
		page("Evidence", "/admin/evidence"),
		page("Agents", "/admin/agents"),
		page("Capabilities", "/admin/capabilities"),
		page(graph, "/admin/graph"),
		call,
	}
}

// ask makes a request and checks its answer.
func (t *town) ask(ctx context.Context, one request) error {
	r, err := http.NewRequestWithContext(ctx, one.method, "http://"+t.listen+one.path, strings.NewReader(one.body))
	if err != nil {
		return err
	}
	if one.header != nil {
		r.Header = one.header
	}
	res, err := one.by.Do(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.StatusCode != one.status {
		return fmt.Errorf("HTTP %d: %s", res.StatusCode, body[:min(len(body), 1000)])
	}
	if one.answered != nil {
		return one.answered(body)
	}
	return nil
}

func (t *town) close() error {
	if t.console != nil {
		t.console.CloseIdleConnections()
	}
	err := t.program.End()
	if t.agents != nil {
		t.agents.Close()
	}
	return err
}
