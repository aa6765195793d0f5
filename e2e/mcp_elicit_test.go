package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// searching is an MCP server on the SDK whose tool counts its calls.
func searching(t *testing.T, stateless bool) (url string, calls *atomic.Int64) {
	calls = &atomic.Int64{}
	server := mcp.NewServer(&mcp.Implementation{Name: "documents", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search_documents", Description: "searches", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done " + string(r.Params.Arguments) + r.Params.RequestState}}}, nil
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// eliciting is a client of the SDK. Its user goes to URLs where opened is not nil, which
// gets what the user is shown and says what the user did.
func eliciting(t *testing.T, revision, url string, via http.RoundTripper, opened func(*mcp.ElicitParams) string) *mcp.ClientSession {
	t.Helper()
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}}}
	options.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: opened(r.Params)}, nil
	}
	if opened != nil {
		options.Capabilities.Elicitation.URL = &mcp.URLElicitationCapabilities{}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, options).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: via}}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// requiredBy reads the pages out of the error of revision 2025-11-25.
func requiredBy(t *testing.T, err error) []*mcp.ElicitParams {
	t.Helper()
	var wire *jsonrpc.Error
	var data struct{ Elicitations []*mcp.ElicitParams }
	if !errors.As(err, &wire) || wire.Code != mcp.CodeURLElicitationRequired || json.Unmarshal(wire.Data, &data) != nil || len(data.Elicitations) == 0 {
		t.Fatalf("GATE-9 the call ended with %v; want the error of URL elicitation", err)
	}
	return data.Elicitations
}

// sentTo wants the page of the one question that waits for alice, and nothing else in it.
func (w *town) sentTo(p *mcp.ElicitParams) (id string) {
	w.t.Helper()
	open := w.waiting("alice", "confirmations")
	if len(open) != 1 || p.Mode != "url" || p.URL != w.url+"/approve/"+open[0] || !strings.Contains(p.Message, "search_documents") {
		w.t.Fatalf("GATE-9 the user is shown %+v, and %v waits", p, open)
	}
	return open[0]
}

// approvable are gateways in front of an MCP server whose tool a person has to approve:
// in the server's process, and apart from it.
func approvable(t *testing.T, stateless bool, test func(t *testing.T, w *town, calls *atomic.Int64)) {
	for _, where := range []string{"in the server", "apart"} {
		t.Run(where, func(t *testing.T) {
			upstream, calls := searching(t, stateless)
			o := options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, search: ", approval: true"}
			var w *town
			if where == "apart" {
				w, _ = startRemote(t, 1, o)
			} else {
				w = start(t, o)
			}
			test(t, w, calls)
		})
	}
}

// TestGATE9_ClientsGoToTheApprovalPage has the client of the Go SDK, unchanged, call a tool
// that a person has to approve, in revision 2026-07-28: it sends its user to the page, and
// the call is made once, after the approval.
func TestGATE9_ClientsGoToTheApprovalPage(t *testing.T) {
	approvable(t, true, func(t *testing.T, w *town, calls *atomic.Int64) {
		alice := w.caller(aliceToken)
		c := alice.reports()
		via := presenting{alice, func() string { return c.ID }}
		var pages []string
		answer := map[string]any{}
		s := eliciting(t, "", w.agentURL("documents"), via, func(p *mcp.ElicitParams) string {
			id := w.sentTo(p)
			pages = append(pages, id)
			if n := calls.Load(); n != int64(len(pages)-1) {
				t.Errorf("GATE-9 the tool ran %d times before %d approvals", n, len(pages))
			}
			w.answers("alice", id, answer)
			return "accept"
		})
		if got := s.InitializeResult().ProtocolVersion; got != "2026-07-28" {
			t.Fatalf("GATE-9 revision %s", got)
		}
		for n := range 2 { // an approval is for one call
			if got := toolSaid(t, s, "search_documents", map[string]any{"query": "q1"}); got != `done {"query":"q1"}` || calls.Load() != int64(n+1) || len(pages) != n+1 {
				t.Fatalf("GATE-9 call %d ended with %s after %d pages, the tool ran %d times", n, got, len(pages), calls.Load())
			}
		}
		allowed := w.records("agent=documents&decision=ALLOW&limit=20")
		if !slices.ContainsFunc(allowed, func(r recorded) bool { return r.Action == "mcp.tools.call" && r.Powerbox.Capability != c.ID }) {
			t.Errorf("GATE-9 no record says that the call was made under what the person gave: %+v", allowed)
		}
		answer["deny"] = true
		if got := toolSaid(t, s, "search_documents", map[string]any{"query": "q2"}); !strings.Contains(got, "a person has refused this call") || calls.Load() != 2 {
			t.Errorf("GATE-9 after a no: %s", got)
		}
		declining := eliciting(t, "", w.agentURL("documents"), via, func(*mcp.ElicitParams) string { return "decline" })
		if got := toolSaid(t, declining, "search_documents", map[string]any{"query": "q3"}); !strings.Contains(got, "a person has to approve this call") || calls.Load() != 2 {
			t.Errorf("GATE-9 after the user declined to open the page: %s", got)
		}
		forms := eliciting(t, "", w.agentURL("documents"), via, nil)
		if got := toolSaid(t, forms, "search_documents", map[string]any{"query": "q4"}); !strings.Contains(got, "a person has to approve this call") || strings.Contains(got, "/approve/") {
			t.Errorf("GATE-9 a client without URLs: %s", got)
		}
	})
}

// TestGATE9_ThePersonTakesTime has a user who opens the page and answers it later: the call
// waits at the gateway meanwhile.
func TestGATE9_ThePersonTakesTime(t *testing.T) {
	upstream, calls := searching(t, true)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, search: ", approval: true"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	var pages atomic.Int64
	opened := make(chan string, 1)
	s := eliciting(t, "", w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, func(p *mcp.ElicitParams) string {
		if pages.Add(1) == 1 {
			opened <- w.sentTo(p)
		}
		return "accept"
	})
	var all sync.WaitGroup
	all.Go(func() {
		id := <-opened
		abstained := func() int { return len(w.records("agent=documents&decision=ABSTAIN&limit=20")) }
		w.soon("the second try of the call", func() bool { return abstained() == 2 })
		w.answers("alice", id, map[string]any{})
	})
	if got := toolSaid(t, s, "search_documents", map[string]any{}); got != "done {}" || pages.Load() != 1 || calls.Load() != 1 {
		t.Errorf("GATE-9 the call ended with %s, the user was sent to the page %d times", got, pages.Load())
	}
	all.Wait()
}

// TestGATE9_URLElicitationIsRequired is the same in revision 2025-11-25, where the client
// gets an error that names the page and makes the call again.
func TestGATE9_URLElicitationIsRequired(t *testing.T) {
	approvable(t, false, func(t *testing.T, w *town, calls *atomic.Int64) {
		alice := w.caller(aliceToken)
		c := alice.reports()
		via := presenting{alice, func() string { return c.ID }}
		begin := func(opened func(*mcp.ElicitParams) string) *mcp.ClientSession {
			return eliciting(t, "2025-11-25", w.agentURL("documents"), via, opened)
		}
		s := begin(func(*mcp.ElicitParams) string { return "accept" })
		call := func(s *mcp.ClientSession, query string) (string, error) {
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_documents", Arguments: map[string]any{"query": query}})
			if err != nil {
				return "", err
			}
			return r.Content[0].(*mcp.TextContent).Text, nil
		}
		_, err := call(s, "q1")
		asked := requiredBy(t, err)
		id := w.sentTo(asked[0])
		if asked[0].ElicitationID != id {
			t.Errorf("GATE-9 the elicitation is %+v", asked[0])
		}
		if _, err = call(s, "q1"); requiredBy(t, err)[0].ElicitationID != id {
			t.Error("GATE-9 the same call asks another question")
		}
		w.answers("alice", id, map[string]any{})
		forms := begin(nil)
		if _, err = call(forms, "q1"); err == nil || strings.Contains(err.Error(), "/approve/") || calls.Load() != 0 {
			t.Errorf("GATE-9 a client without URLs: %v", err)
		}
		if _, err = call(s, "q2"); requiredBy(t, err)[0].ElicitationID == id || calls.Load() != 0 {
			t.Error("ATK-46 an approval serves other arguments")
		}
		if got, err := call(s, "q1"); err != nil || got != `done {"query":"q1"}` || calls.Load() != 1 {
			t.Errorf("GATE-9 after the approval: %s %v", got, err)
		}
		if _, err = call(s, "q1"); requiredBy(t, err)[0].ElicitationID == id || calls.Load() != 1 {
			t.Error("ATK-46 an approval serves twice")
		}
	})
}

// TestGATE9_TheJavaScriptSDKGoesToTheApprovalPage has a client on the SDK for JavaScript,
// which can set headers and sign nothing, go to the page and continue.
func TestGATE9_TheJavaScriptSDKGoesToTheApprovalPage(t *testing.T) {
	upstream, calls := searching(t, false)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, search: ", approval: true"})
	w.write("alice.session", aliceToken)
	out := w.must("request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "p", "--collection", "reports", "--filter", "quarter=2025-Q1",
		"--by-reference", "--session-file", filepath.Join(w.dir, "alice.session"), "--out", "c.json")
	_, id, _ := strings.Cut(out, "Powerbox-Capability: ")
	id, _, _ = strings.Cut(id, "\n")
	headers := jsonOf(t, map[string]string{"Authorization": "Bearer " + aliceToken, "Powerbox-Capability": id})
	cmd := exec.CommandContext(t.Context(), node(t), filepath.Join("..", "bench", "differential", "agents", "elicit.mjs"), w.agentURL("documents"), "search_documents", `{"query":"q1"}`, headers)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var wrong strings.Builder
	cmd.Stderr = &wrong
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	var page mcp.ElicitParams
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &page) != nil {
		_ = cmd.Wait()
		t.Fatalf("GATE-9 the client says %q; npm ci in bench/differential/agents installs its packages\n%s", lines.Text(), wrong.String())
	}
	question := w.sentTo(&page)
	if page.ElicitationID != question || calls.Load() != 0 {
		t.Errorf("GATE-9 the elicitation is %+v", page)
	}
	w.answers("alice", question, map[string]any{})
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	rest := []string{}
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if err := cmd.Wait(); err != nil || !slices.Equal(rest, []string{`done {"query":"q1"}`}) || calls.Load() != 1 {
		t.Errorf("GATE-9 %v, %v\n%s", rest, err, wrong.String())
	}
}

// TestATK46_ApprovalsOfToolCalls: what a person approved for a tool call serves that call
// of that caller alone. No other caller, no state for the server and no second try of the
// same moment uses it, and what ends the caller's authority ends it.
func TestATK46_ApprovalsOfToolCalls(t *testing.T) {
	upstream, calls := searching(t, true)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, search: ", approval: true"})
	alice, other := w.caller(aliceToken), w.caller(aliceToken)
	c, theirs := alice.reports(), other.reports()
	try := func(by *caller, capability, more string) answer {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}},"name":"search_documents","arguments":{"query":"q1"}` + more + `}}`
		return by.raw(capability, body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "search_documents")
	}
	asks := func(what string, a answer) {
		t.Helper()
		if !strings.Contains(string(a.Result), `"powerbox_approval"`) || a.Header.Get("Powerbox-Outcome") != "held" {
			t.Errorf("ATK-46 %s: %d %s", what, a.Status, a.Raw)
		}
	}
	asks("a first call", try(alice, c.ID, ""))
	id := w.waiting("alice", "confirmations")[0]
	w.answers("alice", id, map[string]any{})
	asks("another caller of the same user", try(other, theirs.ID, ""))
	denied(t, try(other, c.ID, ""), "capability_unknown")
	for what, more := range map[string]string{
		"state for the server":      `,"requestState":"forged"`,
		"an answer for the server":  `,"inputResponses":{"own":{"action":"accept","content":{"said":"x"}}}`,
		"one beside the gateway's":  `,"inputResponses":{"powerbox_approval":{"action":"accept"},"own":{"action":"accept"}}`,
		"the user has cancelled it": `,"inputResponses":{"powerbox_approval":{"action":"cancel"}}`,
	} {
		if a := try(alice, c.ID, more); a.Error == nil || calls.Load() != 0 {
			t.Errorf("ATK-46 %s: %d %s", what, a.Status, a.Raw)
		}
	}
	made := make(chan bool, 6)
	var all sync.WaitGroup
	for range cap(made) {
		all.Go(func() { made <- strings.Contains(string(try(alice, c.ID, "").Raw), "done") })
	}
	all.Wait()
	close(made)
	n := 0
	for yes := range made {
		if yes {
			n++
		}
	}
	if n != 1 || calls.Load() != 1 {
		t.Errorf("ATK-46 an approval was used %d times, the tool ran %d times", n, calls.Load())
	}
	for _, open := range w.waiting("alice", "confirmations") {
		w.answers("alice", open, map[string]any{})
	}
	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	denied(t, try(alice, c.ID, ""), "revoked")
	w.run("freeze", "user:alice", "--reason", "r")
	if a := try(other, theirs.ID, ""); a.Error == nil || calls.Load() != 1 {
		t.Errorf("ATK-46 under a freeze: %d %s", a.Status, a.Raw)
	}
}
