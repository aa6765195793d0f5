package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// town is the built powerbox in front of one server of every SDK, and what its
// two callers hold there.
type town struct {
	dir, url  string
	grpc      map[string]string            // address of the gateway's gRPC by agent
	callers   map[string]string            // bearer tokens by client
	bindings  []string                     // the bindings to try; they decide which servers must run
	real      map[string]map[string]string // by agent and placeholder
	processes []*exec.Cmd
	seen      chan seen
	closers   []func()
	reading   sync.WaitGroup // of what processes print
	closed    bool
}

// patience is how long a process may take to be ready.
const patience = 2 * time.Minute

// The agents of the town, by id.
const (
	agentGo    = "go"
	agentJS    = "js"
	agentMCPGo = "mcpgo"
	agentMCPJS = "mcpjs"
)

// Both callers are clients of one login server. The other one owns the tasks that
// the main one must not reach.
const mainCaller, otherCaller = "main", "other"

const configurationHead = `listen: %[1]s
issuer: {url: "http://%[1]s", maximum_lifetime: 24h}
identity:
  providers:
    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}
policies: [policies.cedar]
evidence: {arguments: full, signatures: batch}
defaults: {request_rate: 0}
limits: {denials: 1, streams: 100000}
`

// newTown starts everything that the bindings need.
func newTown(ctx context.Context, dir, powerbox string, bindings []string) (*town, error) {
	t := &town{dir: dir, grpc: map[string]string{}, callers: map[string]string{}, bindings: bindings, real: map[string]map[string]string{}, seen: make(chan seen, 1<<16)}
	if err := t.start(ctx, powerbox); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *town) start(ctx context.Context, powerbox string) error {
	listen, err := freeport.Lasting()
	if err != nil {
		return err
	}
	t.url = "http://" + listen
	if err := t.login(); err != nil {
		return err
	}
	var agents, offers, skills strings.Builder
	for _, id := range t.agents() {
		upstream, err := t.agent(ctx, id)
		if err != nil {
			return fmt.Errorf("agent %s: %w", id, err)
		}
		for _, id := range []string{id, id + narrow} {
			more := "protocol: mcp, mcp: {methods: {resources/read: \"data:use/read\", prompts/get: \"data:use/prompt\"}}"
			if !isMCP(id) {
				if t.grpc[id], err = freeport.Lasting(); err != nil {
					return err
				}
				more = fmt.Sprintf("grpc: {listen: %q}, required: [\"data:use/export\"]", t.grpc[id])
			}
			shape := ""
			if strings.HasSuffix(id, narrow) {
				shape = ", arguments: {dry_run: {constraint_type: exact, value: true}, collection: {constraint_type: exact, value: public}}"
			}
			fmt.Fprintf(&agents, "  - {id: %s, upstream: %q, mode: require, %s}\n", id, upstream, more)
			fmt.Fprintf(&offers, "  %s: [{id: \"data:use\", operations: [export, search, read, prompt], maximum_lifetime: 24h}]\n", id)
			fmt.Fprintf(&skills, "  %s:\n    - {skill: export, grant: \"data:use\", operation: export%s}\n    - {skill: search, grant: \"data:use\", operation: search}\n", id, shape)
		}
	}
	configuration := fmt.Sprintf(configurationHead, listen) + "agents:\n" + agents.String() + "offers:\n" + offers.String() + "skills:\n" + skills.String()
	for name, text := range map[string]string{"powerbox.yaml": configuration, "policies.cedar": "permit(principal, action, resource);\n"} {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := t.serve(ctx, powerbox); err != nil {
		return err
	}
	return t.settle(ctx)
}

// agents are those that the bindings need.
func (t *town) agents() []string {
	var ids []string
	for _, id := range []string{agentGo, agentJS, agentMCPGo, agentMCPJS} {
		for _, b := range t.bindings {
			if agentOf(b) == id {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

func isMCP(agent string) bool { return strings.HasPrefix(agent, "mcp") }

// agent starts the server of an SDK and returns its URL.
func (t *town) agent(ctx context.Context, id string) (string, error) {
	listen, err := freeport.Lasting()
	if err != nil {
		return "", err
	}
	switch id {
	case agentGo:
		return "http://" + listen, t.inProcess(listen, goAgent(listen, t.tell))
	case agentMCPGo:
		return "http://" + listen + "/mcp", t.inProcess(listen, goMCP(t.tell))
	case agentJS:
		grpc, err := freeport.Lasting()
		if err != nil {
			return "", err
		}
		return "http://" + listen, t.node(ctx, "a2a", listen, grpc)
	default:
		return "http://" + listen + "/mcp", t.node(ctx, "mcp", listen)
	}
}

func (t *town) tell(s seen) { t.seen <- s }

func (t *town) inProcess(listen string, h http.Handler) error {
	l, err := listenOn(listen)
	if err != nil {
		return err
	}
	server := quietServer(h)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC
	t.closers = append(t.closers, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // how it ends is of no interest
	return nil
}

// node starts the servers in JavaScript, whose lines are what their handlers saw.
func (t *town) node(ctx context.Context, args ...string) error {
	folder, err := agentsFolder(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{"server.mjs"}, args...)...) //nolint:gosec // the words are ours
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	t.processes = append(t.processes, cmd)
	ready := make(chan error, 1)
	t.reading.Go(func() { t.lines(out, ready) })
	select {
	case err := <-ready:
		return err
	case <-time.After(patience):
		return errors.New("node is not ready; install its packages with npm ci in bench/differential/agents")
	}
}

func (t *town) lines(out io.Reader, ready chan<- error) {
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			select {
			case ready <- fmt.Errorf("node ended; install its packages with npm ci in bench/differential/agents: %w", err):
			default:
			}
			return
		}
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			s = seen{Agent: "unreadable", Other: 1, Message: string(line)}
		}
		if s.Ready {
			ready <- nil
			continue
		}
		t.tell(s)
	}
}

// agentsFolder is where the servers in JavaScript are.
func agentsFolder(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/powerbox-project/powerbox/bench/differential").Output()
	if err != nil {
		return "", fmt.Errorf("finding the folder of the harness; run it inside bench: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "agents"), nil
}

// serve runs powerbox until the town is closed.
func (t *town) serve(ctx context.Context, powerbox string) error {
	log, err := os.Create(filepath.Join(t.dir, "powerbox.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has it
	cmd := exec.CommandContext(ctx, powerbox, "serve", "--dev")
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	t.processes = append(t.processes, cmd)
	for start := time.Now(); time.Since(start) < patience; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the program says readiness by HTTP alone
		if status, _ := t.call(ctx, http.MethodGet, "/readyz", nil, ""); status == http.StatusOK {
			return nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("powerbox is not ready after %v:\n%s", patience, text[max(0, len(text)-2000):])
}

// login makes the key of the login server, and a token of each caller.
func (t *town) login() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.dir, "keys.json"), set, 0o600); err != nil {
		return err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "one", "typ": "at+jwt"}})
	if err != nil {
		return err
	}
	now := time.Now()
	for _, client := range []string{mainCaller, otherCaller} {
		claims := fmt.Sprintf(`{"iss":"https://login.example.org","aud":"https://agents.example.org","sub":%q,"client_id":%q,"iat":%d,"exp":%d}`,
			client, client, now.Unix(), now.Add(23*time.Hour).Unix())
		signed, err := signer.Sign([]byte(claims))
		if err != nil {
			return err
		}
		if t.callers[client], err = signed.CompactSerialize(); err != nil {
			return err
		}
	}
	return nil
}

// call makes one request of the harness's own.
func (t *town) call(ctx context.Context, method, path string, body []byte, bearer string) (int, []byte) {
	r, err := http.NewRequestWithContext(ctx, method, t.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Accept": {"application/json, text/event-stream"}}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return res.StatusCode, out
}

// close ends everything that was started.
func (t *town) close() {
	if t.closed {
		return
	}
	t.closed = true
	for _, p := range t.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	t.reading.Wait()
	for _, p := range t.processes {
		_ = p.Wait()
	}
	for _, c := range t.closers {
		c()
	}
}
