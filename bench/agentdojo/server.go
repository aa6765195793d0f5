package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// patience is how long the binary may take to be ready, and to end.
const patience = 30 * time.Second

// session is the user's, with which capabilities are asked for.
const session = "a-session-of-the-user"

const configuration = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity:
  dev: [{name: user, token: ` + session + `}]
  callers: [{agent: desk, key: "%[6]s"}]
data: {mode: %[7]s, delegates: [desk]}
agents:
  - {id: %[2]s, protocol: mcp, upstream: "%[3]s", mode: require}
offers:
  %[2]s: [{id: "%[2]s:use", description: Use the tools, operations: [%[4]s], maximum_depth: 2}]
skills:
  %[2]s:
%[5]s
policies: [policies.cedar]
# One caller makes all calls, as fast as it can, and most of them are denied.
defaults: {request_rate: 0}
limits: {denials: 0}
`

// tools is an MCP server with the tools of a suite, which do nothing but note
// that they were called.
type tools struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	calls []string // names, in order
}

// serveTools starts one on loopback.
func serveTools(ctx context.Context, s *suite) (*tools, error) {
	t := &tools{}
	server := mcp.NewServer(&mcp.Implementation{Name: s.Name, Version: "1"}, nil)
	for _, one := range s.Tools {
		server.AddTool(&mcp.Tool{Name: one.Name, Description: one.Description, InputSchema: one.Parameters}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.calls = append(t.calls, r.Params.Name)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.url = "http://" + listener.Addr().String()
	t.server = &http.Server{
		Handler:           mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = t.server.Serve(listener) }() // until it is closed
	return t, nil
}

// called says how often a tool was called so far, and which one last.
func (t *tools) called() (int, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.calls) == 0 {
		return 0, ""
	}
	return len(t.calls), t.calls[len(t.calls)-1]
}

// gateway is the running binary in front of the tools.
type gateway struct {
	url     string // of the MCP server, as its clients know it
	process *exec.Cmd
	log     bytes.Buffer
	ended   chan struct{}
}

// serveGateway starts powerbox serve in its own folder.
func serveGateway(ctx context.Context, binary, dir string, s *suite, upstream, desk string, labels bool) (*gateway, error) {
	at, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	var names []string
	var skills strings.Builder
	for _, t := range s.Tools {
		effect, flow, trust := "write", fmt.Sprintf(", accepts: {untrusted: ask, deciding: [%s]}", strings.Join(t.deciding(), ", ")), "untrusted"
		if t.reads() {
			effect, flow = "read", ""
		}
		if t.trusted() {
			trust = "trusted"
		}
		names = append(names, fmt.Sprintf("%q", t.Name))
		fmt.Fprintf(&skills, "    - {skill: %q, grant: %q, operation: %q, effect: %s, yields: {trust: %s}%s}\n", t.Name, s.Name+":use", t.Name, effect, trust, flow)
	}
	mode := "off"
	if labels {
		mode = "enforce"
	}
	for file, text := range map[string]string{
		"powerbox.yaml":  fmt.Sprintf(configuration, at, s.Name, upstream, strings.Join(names, ", "), strings.TrimRight(skills.String(), "\n"), desk, mode),
		"policies.cedar": "permit(principal, action, resource);\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	g := &gateway{url: "http://" + at + "/agents/" + s.Name, ended: make(chan struct{})}
	g.process = exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "-c", "powerbox.yaml", "--dev")
	g.process.Dir, g.process.Stdout, g.process.Stderr = dir, &g.log, &g.log
	if err := g.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = g.process.Wait() // how it ended is in its log
		close(g.ended)
	}()
	if err := g.ready(ctx, "http://"+at+"/readyz"); err != nil {
		return nil, errors.Join(err, g.end())
	}
	return g, nil
}

// ready waits until a URL answers.
func (g *gateway) ready(ctx context.Context, url string) error {
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.ended:
			return fmt.Errorf("powerbox serve ended:\n%s", g.log.Bytes())
		case <-deadline:
			return fmt.Errorf("powerbox serve is not ready after %v", patience)
		case <-tick.C:
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			if res, err := http.DefaultClient.Do(r); err == nil {
				_ = res.Body.Close()
				if res.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
	}
}

// end stops the process and waits for its end.
func (g *gateway) end() error {
	err := g.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
		return nil
	case <-time.After(patience):
		return errors.Join(err, g.process.Process.Kill())
	}
}

// toolCall is the body of a tool call, with the arguments as the file has them.
func toolCall(c call) ([]byte, error) {
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": c.Function, "arguments": c.Args}})
}
