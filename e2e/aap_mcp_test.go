package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpHost is an MCP host that talks to the program over a pipe.
type mcpHost struct {
	*agentHost
	session *mcp.ClientSession

	mu       sync.Mutex
	progress []string
}

// newMCPHost starts "powerbox mcp". Elicit answers what the person is asked; nil is
// a host that cannot ask.
func newMCPHost(t *testing.T, elicit func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error), args ...string) *mcpHost {
	t.Helper()
	h := &mcpHost{agentHost: newAgentHost(t)}
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	cmd.Env = h.env()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: elicit,
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.progress = append(h.progress, r.Params.Message)
		},
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the server did not end well: %v", err)
		}
	})
	h.session = session
	return h
}

// tool calls a tool; what it says is JSON, and failing an answer, too.
func (h *mcpHost) tool(name string, arguments fact) (raw string, failed bool) {
	h.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(name)
	out, err := h.session.CallTool(h.t.Context(), params)
	if err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
	return out.Content[0].(*mcp.TextContent).Text, out.IsError
}

// does calls a tool that must not fail.
func (h *mcpHost) does(name string, arguments fact) fact {
	h.t.Helper()
	raw, failed := h.tool(name, arguments)
	if failed {
		h.t.Fatalf("%s %v: %s", name, arguments, raw)
	}
	var out fact
	_ = json.Unmarshal([]byte(raw), &out) // a list is none
	return out
}

// fails calls a tool that must fail, and returns what it says.
func (h *mcpHost) fails(name, code string, arguments fact) fact {
	h.t.Helper()
	raw, failed := h.tool(name, arguments)
	var out fact
	if err := json.Unmarshal([]byte(raw), &out); err != nil || !failed || out["error"] != code {
		h.t.Fatalf("%s %v: %s; want error %s", name, arguments, raw, code)
	}
	return out
}

// TestAAPCL1_ToolsOfAnMCPHost goes through every tool of the protocol, as a model
// in an MCP host would (AAP-CL2).
func TestAAPCL1_ToolsOfAnMCPHost(t *testing.T) {
	asGiven(t)
	bank := startExampleBank(t)
	directory := newPretender(t)
	directory.says("GET /api/search", 200, `{"providers":[{"issuer":"`+bank+`"}],"intent":"x","count":1}`)
	h := newMCPHost(t, nil, "--allow-provider", bank, "--directory", directory.URL)
	tools, err := h.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{
		"list_providers", "search_providers", "discover_provider", "list_capabilities", "describe_capability", "connect_agent", "sign_jwt", "request_capability",
		"disconnect_agent", "reactivate_agent", "agent_status", "execute_capability",
		"batch_execute_capabilities", "rotate_agent_key", "rotate_host_key",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s in %q", want, names)
		}
	}
	if raw, _ := h.tool("list_providers", fact{}); raw != "[]" {
		t.Errorf("%s", raw)
	}
	if raw, failed := h.tool("search_providers", fact{"intent": "bank"}); failed || !strings.Contains(raw, `"issuer":"`+bank+`"`) {
		t.Errorf("%s", raw)
	}
	if p := h.does("discover_provider", fact{"url": bank}); p["name"] != "bank" || p["issuer"] != bank {
		t.Errorf("%v", p)
	}
	if list := h.does("list_capabilities", fact{"provider": "bank"}); len(list["capabilities"].([]any)) != 6 {
		t.Errorf("%v", list)
	}
	if c := h.does("describe_capability", fact{"provider": "bank", "name": "check_balance"}); c["input"] == nil {
		t.Errorf("%v", c)
	}
	h.fails("describe_capability", "capability_not_found", fact{"provider": "bank", "name": "fly"})
	unknown := h.fails("connect_agent", "invalid_capabilities", fact{"provider": "bank", "name": "Model", "capabilities": []any{"fly"}})
	if available, _ := unknown["available_capabilities"].([]any); !slices.Contains(available, any("check_balance")) {
		t.Errorf("%v", unknown)
	}
	waiting := h.does("connect_agent", fact{"provider": "bank", "name": "Model", "reason": "rent", "capabilities": []any{
		"check_balance", "slow_job", "ticker", fact{"name": "transfer_money", "constraints": fact{"amount": fact{"max": 50}}},
	}})
	if waiting["status"] != "pending" {
		t.Fatalf("%v", waiting)
	}
	h.answer("approve", bank, waiting)
	id := waiting["agent_id"].(string)
	if agent := h.does("agent_status", fact{"agent_id": id, "wait_seconds": 60}); agent["status"] != "active" || len(agent["agent_capability_grants"].([]any)) != 4 {
		t.Fatalf("%v", agent)
	}
	executesEverything(h, id)
	asksForMore(h, bank, id)
}

// executesEverything goes through the ways in which a capability answers.
func executesEverything(h *mcpHost, id string) {
	t := h.t
	t.Helper()
	execute := func(capability string, arguments fact) fact {
		t.Helper()
		return h.does("execute_capability", fact{"agent_id": id, "capability": capability, "arguments": arguments})
	}
	if out := execute("check_balance", fact{"account_id": "acc_123"}); out["data"].(fact)["balance"] != 4280.13 {
		t.Errorf("%v", out)
	}
	if out := execute("slow_job", nil); out["data"].(fact)["report"] != "4 pages" {
		t.Errorf("%v", out)
	}
	if out := execute("ticker", nil); len(out["events"].([]any)) != 3 || out["data"].(fact)["ticks"] != 3.0 {
		t.Errorf("%v", out)
	}
	h.mu.Lock()
	if len(h.progress) == 0 {
		t.Error("the stream was not shown as it came")
	}
	h.mu.Unlock()
	pay := fact{"amount": 51, "currency": "USD", "destination_account": "acc_456"}
	refused := h.fails("execute_capability", "constraint_violated", fact{"agent_id": id, "capability": "transfer_money", "arguments": pay})
	if v, _ := refused["violations"].([]any); len(v) != 1 || v[0].(fact)["field"] != "amount" {
		t.Errorf("%v", refused)
	}
	batch := h.does("batch_execute_capabilities", fact{"agent_id": id, "requests": []any{
		fact{"capability": "check_balance", "arguments": fact{"account_id": "acc_456"}}, fact{"capability": "transfer_money", "arguments": pay}, fact{"capability": "slow_job"},
	}})
	var how []any
	for _, one := range batch["responses"].([]any) {
		how = append(how, one.(fact)["status"])
	}
	if !slices.Equal(how, []any{"completed", "failed", "completed"}) {
		t.Errorf("%v", batch)
	}
}

// asksForMore asks for more, is denied, and comes to an end.
func asksForMore(h *mcpHost, bank, id string) {
	t := h.t
	t.Helper()
	more := h.does("request_capability", fact{"agent_id": id, "capabilities": []any{"list_accounts"}, "reason": "see all"})
	if more["status"] != "pending" {
		t.Fatalf("%v", more)
	}
	h.answer("deny", bank, more)
	h.fails("agent_status", "denied", fact{"agent_id": id, "wait_seconds": 60})
	h.fails("request_capability", "denied", fact{"agent_id": id, "capabilities": []any{"list_accounts"}, "reason": "please"})
	if out, _ := h.must(0, "approval", "list", "--server", bank, "--as", "alice", "--output", "json"); len(out["approvals"].([]any)) != 0 {
		t.Errorf("a person was asked again: %v", out)
	}
	signed := h.does("sign_jwt", fact{"agent_id": id, "aud": bank + "/capability/execute", "capabilities": []any{"check_balance"}})
	if claims := (heard{bearer: signed["token"].(string)}).claims(); signed["expires_in"] != 60.0 || claims["aud"] != bank+"/capability/execute" {
		t.Errorf("%v", claims)
	}
	h.fails("sign_jwt", "failed", fact{"agent_id": id, "capabilities": []any{"list_accounts"}})
	h.does("rotate_agent_key", fact{"agent_id": id})
	h.does("rotate_host_key", fact{})
	h.does("execute_capability", fact{"agent_id": id, "capability": "check_balance", "arguments": fact{"account_id": "acc_123"}})
	if back := h.does("reactivate_agent", fact{"agent_id": id}); back["status"] != "active" {
		t.Errorf("%v", back)
	}
	h.fails("agent_status", "failed", fact{"agent_id": id, "again": true}) // members outside the schema are refused
	h.does("disconnect_agent", fact{"agent_id": id})
	h.fails("agent_status", "failed", fact{"agent_id": id})
}

// TestAAPCL11_URLsOfModels are fetched when a person says so.
func TestAAPCL11_URLsOfModels(t *testing.T) {
	asGiven(t)
	p := newPretender(t)
	never := newMCPHost(t, nil)
	for name, arguments := range map[string]fact{
		"discover_provider": {"url": p.URL}, "connect_agent": {"provider": p.URL, "name": "n"}, "list_capabilities": {"provider": p.URL},
		"describe_capability": {"provider": p.URL + "/", "name": "pay"},
	} {
		never.fails(name, "failed", arguments)
	}
	says := "decline"
	asked := 0
	h := newMCPHost(t, func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if asked++; !strings.Contains(r.Params.Message, p.URL) {
			t.Errorf("asked %q", r.Params.Message)
		}
		return &mcp.ElicitResult{Action: says, Content: map[string]any{"fetch": says == "accept"}}, nil
	})
	h.fails("discover_provider", "failed", fact{"url": p.URL})
	if n := len(p.to("")); n != 0 || asked != 1 {
		t.Fatalf("%d requests, asked %d times", n, asked)
	}
	says = "accept"
	h.does("discover_provider", fact{"url": p.URL})
	h.does("discover_provider", fact{"url": p.URL})
	if n := len(p.to("")); n != 1 || asked != 2 {
		t.Errorf("%d requests, asked %d times", n, asked)
	}
}

// TestAAPCL10_CapabilitiesAreRemembered by who looks, until an execution shows that
// they are out of date.
func TestAAPCL10_CapabilitiesAreRemembered(t *testing.T) {
	asGiven(t)
	const at = "GET /capability/describe"
	p := newPretender(t)
	h := newMCPHost(t, nil, "--allow-provider", p.URL)
	h.does("connect_agent", fact{"provider": p.URL, "name": "n", "capabilities": []any{"pay"}})
	for range 2 {
		h.does("describe_capability", fact{"provider": p.URL, "name": "pay"})
		h.does("describe_capability", fact{"provider": p.URL, "name": "pay", "agent_id": "agt_1"})
		h.does("execute_capability", fact{"agent_id": "agt_1", "capability": "pay"})
	}
	asked := p.to(at)
	if len(asked) != 2 || asked[0].claims()["sub"] != nil || asked[1].claims()["sub"] != "agt_1" {
		t.Fatalf("asked %v", asked)
	}
	for i, code := range []string{"capability_not_found", "invalid_request"} {
		p.first("POST /capability/execute", 400, `{"error":"`+code+`","message":"no"}`)
		h.fails("execute_capability", code, fact{"agent_id": "agt_1", "capability": "pay"})
		h.does("execute_capability", fact{"agent_id": "agt_1", "capability": "pay"})
		if n := len(p.to(at)); n != 3+i {
			t.Errorf("after %s asked %d times", code, n)
		}
	}
}
