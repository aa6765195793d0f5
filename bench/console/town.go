package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/fill"
	"github.com/powerbox-project/powerbox/internal/freeport"
)

// town is the built powerbox over a store with much data.
type town struct {
	dir, powerbox string
	sizes         sizes
	progress      io.Writer
	listen        string
	program       built.Program
	agents        *http.Server
	client        *http.Client // with the session of an operator
	filled        time.Duration
	began         time.Duration // from the start of the program to its readiness
	known         landmarks
}

// patience is how long the program may take to be ready.
const patience = 2 * time.Minute

// edges is how many agents each agent may call.
const edges = 5

func agentName(n int) string { return fmt.Sprintf("agent-%03d", n) }

// configuration has all agents, each also as a caller with a scope at some others.
func (t *town) configuration(agents string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nissuer: {url: \"http://%s\", directory: state, maximum_lifetime: 24h}\n", t.listen, t.listen)
	b.WriteString("identity:\n  dev:\n    - {name: carol, token: carol-session-token}\n  callers:\n")
	for n := range t.sizes.agents {
		fmt.Fprintf(&b, "    - {agent: %[1]s, client: %[1]s}\n", agentName(n))
	}
	b.WriteString("evidence: {origin: " + origin + ", signatures: batch}\npolicies: [policies.cedar]\napprovals: {operators: [\"user:carol\"], rules: [{agent: agent-000, operation: \"data:use/delete\", approvers: [\"user:carol\"]}]}\ndefaults: {request_rate: 0}\nlimits: {denials: 1}\nagents:\n")
	for n := range t.sizes.agents {
		fmt.Fprintf(&b, "  - {id: %[1]s, upstream: \"http://%[2]s/%[1]s\", mode: %[3]s}\n", agentName(n), agents, []string{"observe", "scoped", "prefer", "require"}[n%4])
	}
	b.WriteString("offers:\n")
	for n := range t.sizes.agents {
		fmt.Fprintf(&b, "  %s: [{id: \"data:use\", operations: [export, search, delete], maximum_lifetime: 24h, maximum_depth: 4}]\n", agentName(n))
	}
	b.WriteString("skills:\n")
	for n := range t.sizes.agents {
		fmt.Fprintf(&b, "  %s: [{skill: export, grant: \"data:use\", operation: export}, {skill: search, grant: \"data:use\", operation: search, effect: read}]\n", agentName(n))
	}
	b.WriteString("scopes:\n")
	for n := range t.sizes.agents {
		fmt.Fprintf(&b, "  %s: {", agentName(n))
		for e := range edges {
			fmt.Fprintf(&b, "%s: [\"data:use/search\"], ", agentName(t.callee(n, e)))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// callee is one of the agents that an agent may call.
func (t *town) callee(n, edge int) int { return (n + 1 + 7*edge) % t.sizes.agents }

// begin starts the agents and the program, with a store that is filled before.
func (t *town) begin(ctx context.Context) error {
	agents, err := t.serveAgents()
	if err != nil {
		return err
	}
	if t.listen, err = freeport.Lasting(); err != nil {
		return err
	}
	for name, text := range map[string]string{"powerbox.yaml": t.configuration(agents), "policies.cedar": "permit(principal, action, resource);\n"} {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(t.dir, "state", "powerbox.db")); errors.Is(err, os.ErrNotExist) {
		// The program makes the keys and puts them on record. These records stay at the beginning of
		// the log with today's time, so that searches since a time look as far as they ever do.
		if err := errors.Join(t.program.Serve(ctx, t.powerbox, t.dir, t.listen, patience), t.program.End()); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := t.fill(ctx); err != nil {
		return fmt.Errorf("filling the store: %w", err)
	}
	t.filled = time.Since(start)
	start = time.Now()
	if err := t.program.Serve(ctx, t.powerbox, t.dir, t.listen, patience); err != nil {
		return err
	}
	t.began = time.Since(start)
	t.client, err = fill.Login(ctx, t.listen, "carol")
	return err
}

// cardFormat is the card of an agent, by its name and its address.
const cardFormat = `{"name":%[1]q,"description":"An agent","version":"1.0.0","supportedInterfaces":[{"url":"http://%[2]s/%[1]s","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
	"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
	"skills":[{"id":"export","name":"Export","description":"Exports data","tags":["data"]},{"id":"search","name":"Search","description":"Searches data","tags":["data"]}]}`

// serveAgents serves the cards of all agents, in this process.
func (t *town) serveAgents() (address string, err error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address = l.Addr().String()
	t.agents = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if path != ".well-known/agent-card.json" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, cardFormat, name, address) //nolint:gosec // JSON, which no browser reads
	})}
	go func() { _ = t.agents.Serve(l) }() // how it ends is of no interest
	return address, nil
}

func (t *town) close() error {
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
	err := t.program.End()
	if t.agents != nil {
		err = errors.Join(err, t.agents.Close())
	}
	return err
}
