package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// stdioServer is the argument with which this binary is an MCP server that speaks by
// its standard input, as its author would write it on the go-sdk.
const stdioServer = "mcp-server"

// serveStdio is that server. Its tools tell what it knows of its surroundings.
func serveStdio() {
	server := mcp.NewServer(&mcp.Implementation{Name: "documents", Version: "1"}, nil)
	for _, name := range []string{"retrieve_document", "search_documents", "delete_document"} {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := fmt.Sprintf("pid %d; did %s with %s; environment %s", os.Getpid(), name, r.Params.Arguments, strings.Join(os.Environ(), " "))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	fmt.Fprintln(os.Stderr, "the server speaks to its operator")
	_ = server.Run(context.Background(), &mcp.StdioTransport{}) // it ends with its input
}

// pidOf is that of the server which said something.
func pidOf(t *testing.T, said string) (pid int) {
	t.Helper()
	if _, err := fmt.Sscanf(said, "pid %d;", &pid); err != nil || pid == 0 {
		t.Fatalf("%q names no process", said)
	}
	return pid
}

// TestGATE9_ServersByTheirStandardInput has the gateway run an MCP server that is
// started as a command: its callers speak Streamable HTTP, each session has a process
// of its own, and everything is decided as for a server that listens.
func TestGATE9_ServersByTheirStandardInput(t *testing.T) {
	t.Setenv("SERVERS_SECRET", "not for the server")
	t.Setenv("SERVERS_WANTED", "named by the operator")
	w, gateways := startRemote(t, 1, options{on: wire{overMCP, "2025-11-25"}}, "--mcp-env", "SERVERS_WANTED", "--mcp-exec", "--", os.Args[0], stdioServer)
	alice := w.caller(aliceToken)
	c := alice.reports()
	via := presenting{alice, func() string { return c.ID }}
	var asked []string
	s := connectIn(t, "2025-11-25", w.agentURL("documents"), via, &asked)
	if got := toolNames(t, s); !slices.Equal(got, []string{"retrieve_document", "search_documents"}) {
		t.Errorf("GATE-9 listed %v", got)
	}
	handle := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
	said := toolSaid(t, s, "retrieve_document", handle)
	if !strings.Contains(said, "did retrieve_document with") || !strings.Contains(said, c.ResourceHandles[0].Handle) {
		t.Errorf("GATE-9 %s", said)
	}
	if strings.Contains(said, "SERVERS_SECRET") || strings.Contains(said, "POWERBOX") || !strings.Contains(said, "SERVERS_WANTED=named by the operator") {
		t.Errorf("GATE-9 the server's environment: %s", said)
	}
	if !strings.Contains(gateways[0].log.String(), "the server speaks to its operator") {
		t.Errorf("GATE-9 the server's standard error is not passed on:\n%s", gateways[0].log)
	}
	for tool, arguments := range map[string]map[string]any{"delete_document": handle, "retrieve_document": {"resourceHandle": "rh_guessed"}} {
		if got := toolSaid(t, s, tool, arguments); strings.Contains(got, "did ") {
			t.Errorf("GATE-9 %s: %s", tool, got)
		}
	}

	// Another session is another process, for its caller alone.
	other := connectIn(t, "2025-11-25", w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, &asked)
	if theirs := toolSaid(t, other, "search_documents", map[string]any{}); pidOf(t, theirs) == pidOf(t, said) {
		t.Errorf("GATE-9 two sessions in one process: %s", theirs)
	}
	bob := w.caller(bobToken)
	if a := bob.raw("", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, "Mcp-Session-Id", s.ID()); a.Error == nil {
		t.Errorf("ATK-18 a session of somebody else: %s", a.Raw)
	}

	// A server that dies takes its session with it, and not the gateway.
	if err := syscall.Kill(pidOf(t, said), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_documents"}); err == nil {
		t.Error("GATE-9 a server that was killed answers")
	}
	again := connectIn(t, "2025-11-25", w.agentURL("documents"), via, &asked)
	last := pidOf(t, toolSaid(t, again, "search_documents", map[string]any{}))
	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	eventually(t, stepTime, func() string { return "a revoked capability still serves" }, func() bool {
		return !strings.Contains(toolSaid(t, again, "search_documents", map[string]any{}), "did ")
	})

	// With the gateway the servers end.
	gateway := gateways[0].process.Process
	if err := gateway.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, browserTime, func() string { return "the server is there after its gateway" }, func() bool { return syscall.Kill(last, 0) != nil })
}

// TestGATE9_HostsThatStartCommands has a stock client start the gateway as it would
// the server: calls are made under the capability in a file, and decided and
// recorded as any.
func TestGATE9_HostsThatStartCommands(t *testing.T) {
	w, _ := startRemote(t, 1, options{on: wire{overMCP, "2025-11-25"}}, "--mcp-exec", "--", os.Args[0], stdioServer)
	host := &replica{w: w, state: filepath.Join(t.TempDir(), "state")}
	host.enroll()
	dir := t.TempDir()
	if out, exit := shell(t, dir, "powerbox keys new key.jwk && powerbox request "+w.agentURL("documents")+
		" --grant documents:read --operation search --collection reports --purpose 'Look around' --key key.jwk --session "+aliceToken+" --out c.json"); exit != 0 {
		t.Fatalf("GATE-9 no capability: %s", out)
	}
	log := &programtest.Log{}
	speak := func(revision string) *mcp.ClientSession {
		command := exec.CommandContext(t.Context(), binary, "gateway", "--state", host.state, "--dev", "--stdio",
			"--capability", filepath.Join(dir, "c.json"), "--key", filepath.Join(dir, "key.jwk"), "--mcp-exec", "--", os.Args[0], stdioServer)
		command.Stderr = log
		client := mcp.NewClient(&mcp.Implementation{Name: "a desktop", Version: "1"}, nil)
		s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil || s.InitializeResult().ProtocolVersion != revision {
			t.Fatalf("GATE-9 %v\n%s", err, log)
		}
		return s
	}
	older := speak("2025-11-25")
	if got := toolSaid(t, older, "search_documents", map[string]any{"query": "q0"}); !strings.Contains(got, `did search_documents with {"query":"q0"}`) {
		t.Errorf("GATE-9 in a session: %s\n%s", got, log)
	}
	if err := older.Close(); err != nil {
		t.Errorf("GATE-9 the gateway ends with %v\n%s", err, log)
	}
	s := speak("2026-07-28")
	if got := toolNames(t, s); !slices.Equal(got, []string{"search_documents"}) {
		t.Errorf("GATE-9 listed %v\n%s", got, log)
	}
	said := toolSaid(t, s, "search_documents", map[string]any{"query": "q1"})
	if !strings.Contains(said, `did search_documents with {"query":"q1"}`) {
		t.Errorf("GATE-9 %s\n%s", said, log)
	}
	if got := toolSaid(t, s, "delete_document", map[string]any{"resourceHandle": "rh_guessed"}); !strings.Contains(got, "is not granted") {
		t.Errorf("GATE-9 deleted: %s", got)
	}
	if err := s.Close(); err != nil {
		t.Errorf("GATE-9 the gateway ends with %v\n%s", err, log)
	}
	if pid := pidOf(t, said); syscall.Kill(pid, 0) == nil {
		t.Errorf("GATE-9 the server %d is there after the host has gone", pid)
	}
	eventually(t, stepTime, func() string { return "the refusal is not on record" }, func() bool {
		return slices.ContainsFunc(w.records("agent=documents&limit=50"), func(r recorded) bool { return r.Action == "mcp.tools.call" && r.Decision == "DENY" })
	})
	for _, wrong := range []string{"--stdio --mcp-exec -- true", "--mcp-exec", "-- true", "--mcp-exec --mcp-env A=B -- true"} {
		if out, exit := shell(t, dir, "powerbox gateway --state "+host.state+" "+wrong); exit != 2 {
			t.Errorf("GATE-9 gateway %s: exit %d\n%s", wrong, exit, out)
		}
	}
}

// TestGATE9_CommandsWithoutSessions has callers speak revision 2026-07-28 to a server that
// is a command: each has its own process, and everything is decided as for a server
// that listens. A host speaks both revisions.
func TestGATE9_CommandsWithoutSessions(t *testing.T) {
	w, _ := startRemote(t, 1, options{on: wire{overMCP, "2025-11-25"}}, "--mcp-exec", "--", os.Args[0], stdioServer)
	alice := w.caller(aliceToken)
	c, other := alice.reports(), alice.reports()
	var asked []string
	s := connect(t, w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, &asked)
	if got := s.InitializeResult().ProtocolVersion; got != "2026-07-28" || s.ID() != "" {
		t.Fatalf("GATE-9 revision %s, session %q", got, s.ID())
	}
	if got := toolNames(t, s); !slices.Equal(got, []string{"retrieve_document", "search_documents"}) {
		t.Errorf("GATE-9 listed %v", got)
	}
	said := toolSaid(t, s, "search_documents", map[string]any{"query": "q1"})
	if again := toolSaid(t, s, "search_documents", map[string]any{"query": "q2"}); pidOf(t, said) != pidOf(t, again) {
		t.Errorf("GATE-9 a caller's requests: %s and %s", said, again)
	}
	theirs := connect(t, w.agentURL("documents"), presenting{alice, func() string { return other.ID }}, &asked)
	if got := toolSaid(t, theirs, "search_documents", map[string]any{}); pidOf(t, got) == pidOf(t, said) {
		t.Errorf("GATE-9 requests under two capabilities in one process: %s", got)
	}
	if got := toolSaid(t, s, "delete_document", map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}); strings.Contains(got, "did ") {
		t.Errorf("GATE-9 deleted: %s", got)
	}
	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	eventually(t, stepTime, func() string { return "a revoked capability still serves" }, func() bool {
		return !strings.Contains(toolSaid(t, s, "search_documents", map[string]any{}), "did ")
	})
}
