package reliability

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// Config has the parts of a town. Every field is required except Migrator.
type Config struct {
	Binary   string // the program under trial
	Migrator string // the program that migrates the database; Binary where empty
	Dir      string // where its files go
	Nodes    int
	Gateways int
	Workers  int           // callers, half of them at each agent
	Lease    time.Duration // of the gateways
	Now      func() time.Time
	Random   io.Reader
	Log      func(format string, args ...any)
	// UnsafeAsynchronous has the primary wait for no standby, to see that the judge finds
	// the loss that follows.
	UnsafeAsynchronous bool
	// File has one node on a file of SQLite, without PostgreSQL.
	File bool
	// Deadline is limits.dependency_time; 5 s where zero.
	Deadline time.Duration
	Env      []string // further environment of nodes and gateways
}

// Town is a running installation.
type Town struct {
	Config
	primary, standby *pgtest.Cluster
	database         string // its name
	front            *front // of the nodes; its URL is the issuer's
	doors            *front // of the gateways
	nodes            []*node
	gateways         []*gateway
	agent            *http.Server
	upstream         string
	secret           string // of the operator
	registrar        *registrar
	operator         *http.Client
	ledger           *ledger
	load             *load
	lenient          atomic.Bool // calls may be allowed or denied at this time
}

// node is one process of `powerbox serve`.
type node struct {
	name, address, file string
	binary              string
	metrics             string // address
	*process
}

// gateway is one process of `powerbox gateway`.
type gateway struct {
	name, address, state string
	id                   string // of its key
	metrics              string // address
	*process
}

const configuration = `listen: %s
telemetry: {listen: %[7]q}
issuer:
  url: %[2]s
  feed: {heartbeat: 100ms}
store: %[3]s
identity:
  dev:
%[4]sagents:
  - {id: documents, upstream: %[5]s, mode: require, gateway_url: %[6]s}
  - {id: notes, upstream: %[5]s, mode: require}
  - id: bank
    upstream: %[5]s
    mode: require
    agent_auth:
      provider_name: bank
      description: A bank
      administrators: ['user:user0']
      requests: 0
      unknown_hosts: 0
      questions: 0
      modes: [delegated, autonomous]
      capabilities:
        - {name: list_accounts, description: List all accounts, sensitivity: read, autonomous: true}
offers:
  documents:
    - {id: documents:read, operations: [retrieve, search], maximum_depth: 3}
  notes:
    - {id: documents:read, operations: [retrieve, search], maximum_depth: 3}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
  notes:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
resources:
  documents:
    items:
      - {collection: reports, id: /vault/q1.pdf, name: Q1}
  notes:
    items:
      - {collection: reports, id: /notes/q1.txt, name: Q1}
policies: [policies.cedar]
defaults: {request_rate: 0, drain_notice: 500ms, drain: 10s}
limits: {denials: 0, dependency_time: %[8]v}
%[9]s
`

const policies = `permit(principal, action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal, action in Action::"documents/documents:read", resource == Agent::"documents");
permit(principal, action in Action::"notes/documents:read", resource in Collection::"notes/reports");
permit(principal, action in Action::"notes/documents:read", resource == Agent::"notes");
`

// user is the name of a caller's user, and session their token.
func user(n int) string    { return fmt.Sprintf("user%d", n) }
func session(n int) string { return fmt.Sprintf("session-of-user-%d", n) }

// NewTown builds a town and waits until all of it is ready. The caller ends it with
// [Town.Close].
func NewTown(ctx context.Context, c Config) (*Town, error) {
	t := &Town{Config: c, ledger: newLedger(), operator: &http.Client{Timeout: 60 * time.Second}}
	if t.Migrator == "" {
		t.Migrator = t.Binary
	}
	if err := t.build(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Town) build(ctx context.Context) error {
	if err := t.databases(ctx); err != nil {
		return err
	}
	if err := t.serveAgent(ctx); err != nil {
		return err
	}
	var err error
	if t.front, err = newFront(ctx); err != nil {
		return err
	}
	if t.doors, err = newFront(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.Dir, "policies.cedar"), []byte(policies), 0o600); err != nil {
		return err
	}
	var addresses []string
	for i := range t.Nodes {
		n, err := t.newNode(fmt.Sprint("node", i), t.both())
		if err != nil {
			return err
		}
		t.nodes = append(t.nodes, n)
		addresses = append(addresses, n.address)
	}
	t.front.serves(addresses...)
	if !t.File {
		if out, err := t.run(ctx, t.Migrator, "migrate", "up", "-c", t.nodes[0].file); err != nil {
			return fmt.Errorf("migrate: %w\n%s", err, out)
		}
	}
	for _, n := range t.nodes { // the first makes the keys, which all have
		if err := t.boot(ctx, n); err != nil {
			return err
		}
	}
	secret, err := os.ReadFile(filepath.Join(t.Dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		return err
	}
	t.secret = strings.TrimSpace(string(secret))
	// The nodes may not be known to be ready yet.
	err = until(ctx, 10*time.Second, func() error {
		t.registrar, err = t.newRegistrar(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return t.buildGateways(ctx)
}

func (t *Town) buildGateways(ctx context.Context) error {
	var doors []string
	for i := range t.Gateways {
		g, err := t.newGateway(ctx, fmt.Sprint("gateway", i), filepath.Join(t.Dir, fmt.Sprint("gateway", i)))
		if err != nil {
			return err
		}
		t.gateways = append(t.gateways, g)
		doors = append(doors, g.address)
	}
	t.doors.serves(doors...)
	return nil
}

// databases starts a primary and its standby.
func (t *Town) databases(ctx context.Context) error {
	if t.File {
		return nil
	}
	var err error
	if t.primary, err = pgtest.New("fsync=on"); err != nil {
		return err
	}
	t.database = "powerbox_trial"
	if err := t.primary.Exec(ctx, "postgres", "CREATE DATABASE "+t.database); err != nil {
		return err
	}
	if t.standby, err = t.primary.Standby("standby", "fsync=on"); err != nil {
		return err
	}
	if t.UnsafeAsynchronous {
		return nil
	}
	return t.synchronous(ctx, "*")
}

// both is the URL of the databases, and nothing for a file.
func (t *Town) both() string {
	if t.File {
		return ""
	}
	return t.primary.Both(t.standby, t.database)
}

// synchronous sets whom commits wait for, at both databases.
func (t *Town) synchronous(ctx context.Context, names string) error {
	var err error
	for _, c := range []*pgtest.Cluster{t.primary, t.standby} {
		err = errors.Join(err, c.Exec(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()"))
	}
	return err
}

// newNode writes the configuration of a node.
func (t *Town) newNode(name, database string) (*node, error) {
	address, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	n := &node{name: name, address: address, file: filepath.Join(t.Dir, name+".yaml"), binary: t.Binary}
	if n.metrics, err = freeport.Lasting(); err != nil {
		return nil, err
	}
	var users strings.Builder
	for i := range t.Workers {
		fmt.Fprintf(&users, "    - {name: %s, token: %s}\n", user(i), session(i))
	}
	store, named := "{}", ""
	switch {
	case t.File:
		named = "evidence: {origin: " + logName + "}\n"
	case t.UnsafeAsynchronous:
		store = fmt.Sprintf("{postgres: %q, durability: single}", database)
	default:
		store = fmt.Sprintf("{postgres: %q, durability: strict}", database)
	}
	text := fmt.Sprintf(configuration, address, t.front.url, store, users.String(), t.upstream, t.doors.url, n.metrics, cmp.Or(t.Deadline, 5*time.Second), named)
	return n, os.WriteFile(n.file, []byte(text), 0o600)
}

// boot starts a node.
func (t *Town) boot(ctx context.Context, n *node) error {
	var err error
	if n.process, err = startProcess(ctx, t.Dir, n.name, t.Env, n.binary, "serve", "-c", n.file, "--dev"); err != nil {
		return err
	}
	return n.await(ctx, n.address)
}

// newGateway enrols a gateway and starts it.
func (t *Town) newGateway(ctx context.Context, name, state string) (*gateway, error) {
	address, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, address: address, state: state}
	if g.metrics, err = freeport.Lasting(); err != nil {
		return nil, err
	}
	// The first node may not be known to be ready yet.
	var made struct {
		Token string `json:"token"`
	}
	err = until(ctx, 10*time.Second, func() error {
		return t.operate(ctx, http.MethodPost, "/v1/gateway-tokens", map[string]any{"agent": "documents", "ttl": 600}, &made)
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(t.Dir, name+".token")
	if err := os.WriteFile(file, []byte(made.Token), 0o600); err != nil {
		return nil, err
	}
	if out, err := t.run(ctx, t.Binary, "gateway", "enroll", "--server", t.front.url, "--token-file", file, "--state", state); err != nil {
		return nil, fmt.Errorf("enroll: %w\n%s", err, out)
	}
	if g.id, err = keyID(filepath.Join(state, "keys", "gateway.secret")); err != nil {
		return nil, err
	}
	return g, t.open(ctx, g)
}

// open starts a gateway.
func (t *Town) open(ctx context.Context, g *gateway) error {
	var err error
	g.process, err = startProcess(ctx, t.Dir, g.name, t.Env, t.Binary, "gateway", "--state", g.state, "--listen", g.address, "--telemetry", g.metrics, "--dev", "--lease", t.Lease.String())
	if err != nil {
		return err
	}
	return g.await(ctx, g.address)
}

// Close ends everything.
func (t *Town) Close() error {
	var err error
	if t.load != nil {
		t.load.stop()
	}
	for _, g := range t.gateways {
		if g.process != nil && !g.ended() {
			err = errors.Join(err, g.process.stop(20*time.Second))
		}
	}
	for _, n := range t.nodes {
		if n.process != nil && !n.ended() {
			err = errors.Join(err, n.process.stop(20*time.Second))
		}
	}
	for _, f := range []*front{t.front, t.doors} {
		if f != nil {
			f.close()
		}
	}
	if t.agent != nil {
		err = errors.Join(err, t.agent.Close())
	}
	for _, c := range []*pgtest.Cluster{t.standby, t.primary} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// run runs the program once.
func (t *Town) run(ctx context.Context, binary string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the program under trial
	cmd.Dir = t.Dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// operate makes an operator's call at whichever node, or with header, of which names
// and values take turns, another party's.
func (t *Town) operate(ctx context.Context, method, path string, body, into any, header ...string) error {
	data, err := t.fetch(ctx, method, path, body, header...)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (t *Town) fetch(ctx context.Context, method, path string, body any, header ...string) ([]byte, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = strings.NewReader(string(data))
	}
	r, err := http.NewRequestWithContext(ctx, method, t.front.url+path, reader)
	if err != nil {
		return nil, err
	}
	if len(header) == 0 {
		header = []string{"Authorization", "Bearer " + t.secret}
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	response, err := t.operator.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = &statusError{response.StatusCode, path, string(answer)}
	}
	return answer, err
}

// statusError is an answer that is no success.
type statusError struct {
	status     int
	path, text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d: %s", e.path, e.status, e.text) }

// serveAgent is the agent behind all.
func (t *Town) serveAgent(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.upstream = "http://" + l.Addr().String()
	card := []byte(`{"name":"Documents","description":"Keeps documents","version":"1.0.0","protocolVersion":"1.0",` +
		`"supportedInterfaces":[{"url":"` + t.upstream + `/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` +
		`"capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[` +
		`{"id":"retrieve_document","name":"Retrieve","description":"Returns a document","tags":["documents"]},` +
		`{"id":"search_documents","name":"Search","description":"Finds documents","tags":["documents"]}]}`)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(card) // a client that has gone gets no error
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, largest)).Decode(&call); err != nil || len(call.ID) == 0 {
			call.ID = json.RawMessage("null")
		}
		t.ledger.reached(r.Header)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`, call.ID)
	})
	t.agent = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = t.agent.Serve(l) }() // until it is closed
	return nil
}
