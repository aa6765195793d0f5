// Package e2e runs the powerbox binary in front of a stock A2A agent and tries
// it from outside, as callers and attackers would. It imports nothing of what
// it tests but the codecs that a client needs.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// binary is the program under test, built once. programs is a folder for others.
var binary, programs string

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == stdioServer {
		serveStdio()
		return
	}
	if len(os.Args) > 3 && os.Args[1] == heldDisk {
		fmt.Fprintln(os.Stderr, superviseSync(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "powerbox-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary, programs = filepath.Join(dir, "powerbox"), cmp.Or(os.Getenv("E2E_PROGRAMS"), dir)
	if built := os.Getenv("E2E_PROGRAM"); built != "" {
		binary = built
	} else if out, err := exec.Command("go", "build", "-C", "..", "-o", binary, "./cmd/powerbox").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the binary: %v\n%s", err, out)
		os.Exit(1)
	}
	if os.Getenv("GOGC") == "" { // most programs live for a second: they collect little of their garbage
		if err := os.Setenv("GOGC", "400"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	closeChromium()
	closeClients()
	_ = databases.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// stock is an A2A agent as its author would build it, on a2a-go. It keeps what
// reached it.
type stock struct {
	url   string
	close func() // makes it unreachable

	mu       sync.Mutex
	requests []received
	instead  http.HandlerFunc     // answers calls in its place; nil for itself
	before   http.HandlerFunc     // sees calls whose body was read, before they are answered; nil for nothing
	says     func(*a2a.AgentCard) // changes a copy of its card; nil for nothing
}

// answers has calls answered by something else, and by the agent itself with nil.
func (s *stock) answers(instead http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

// sees has calls looked at before they are answered, and no longer with nil.
func (s *stock) sees(before http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// answerFirst answers before the SDK does, whose own answer is cut off. The server ends such
// a connection, so it is not to be used again: a call that comes then would be lost.
func answerFirst(rw http.ResponseWriter, answer string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	rw.Header().Set("Connection", "close")
	_, _ = io.WriteString(rw, answer)
}

type received struct {
	body   []byte
	header http.Header
}

func newStock(t *testing.T, skills ...string) *stock {
	t.Helper()
	return newStockWith(t, nil, skills...)
}

// newStockWith is newStock for an agent with further options.
func newStockWith(t *testing.T, options []a2asrv.RequestHandlerOption, skills ...string) *stock {
	t.Helper()
	// It lists the tasks of everybody for everybody.
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "anybody", nil }})
	return newStockOf(t, func(card *a2a.AgentCard, done <-chan struct{}) a2asrv.RequestHandler {
		return a2asrv.NewHandler(echo{done}, append(options, a2asrv.WithExtendedAgentCard(card), a2asrv.WithTaskStore(store))...)
	}, skills...)
}

// newStockOf is newStock for an agent of one's own, which has its card, and a channel
// that is closed in the end.
func newStockOf(t *testing.T, made func(card *a2a.AgentCard, done <-chan struct{}) a2asrv.RequestHandler, skills ...string) *stock {
	t.Helper()
	s := &stock{}
	mux := http.NewServeMux()
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	s.url, s.close = srv.URL, srv.Close
	at := strings.TrimPrefix(srv.URL, "http://")
	card := &a2a.AgentCard{
		Name: "Documents", Description: "Keeps documents", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface(srv.URL+"/invoke", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface(srv.URL+"/rest", a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(at, a2a.TransportProtocolGRPC),
			{URL: srv.URL + "/old", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version},
			{URL: srv.URL + "/oldrest", ProtocolBinding: a2a.TransportProtocolHTTPJSON, ProtocolVersion: a2av0.Version},
			{URL: at, ProtocolBinding: a2a.TransportProtocolGRPC, ProtocolVersion: a2av0.Version},
		},
		DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true, ExtendedAgentCard: true},
	}
	for _, name := range skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: name, Name: name, Description: name, Tags: []string{"test"}})
	}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	handler := made(card, done)
	services := grpc.NewServer()
	v1.RegisterA2AServiceServer(services, grpcOf{a2agrpcv1.NewHandler(handler), handler})
	a2agrpcv0.NewHandler(handler).RegisterWith(services)
	for path, h := range map[string]http.Handler{
		"/invoke": a2asrv.NewJSONRPCHandler(handler), "/rest/": http.StripPrefix("/rest", restOf(handler)),
		"/old": a2av0.NewJSONRPCHandler(handler), "/oldrest/": http.StripPrefix("/oldrest", a2av0.NewRESTHandler(handler)),
		"/lf.a2a.v1.A2AService/": services, "/a2a.v1.A2AService/": services,
	} {
		mux.Handle(path, s.noting(h))
	}
	mux.Handle("/mcp", s.noting(tools(skills)))
	mux.HandleFunc(a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		said := *card
		if s.says != nil {
			s.says(&said)
		}
		s.mu.Unlock()
		a2asrv.NewStaticAgentCardHandler(&said).ServeHTTP(w, r)
	})
	return s
}

// noting keeps what reaches a handler.
func (s *stock) noting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, received{body, r.Header.Clone()})
		instead, before := s.instead, s.before
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if before != nil {
			before(w, r)
		}
		if instead != nil {
			instead(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// got returns what reached the agent.
func (s *stock) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// echo answers a message whose text begins with "task" with a task, and every
// other with a message.
type echo struct {
	done <-chan struct{} // until then, calls with the query "hang" continue
}

func (e echo) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, p := range x.Message.Parts {
			text += p.Text()
			if b, _ := json.Marshal(p.Data()); strings.Contains(string(b), `"query":"hang"`) {
				yield(a2a.NewSubmittedTask(x, x.Message), nil)
				<-e.done
				return
			}
		}
		if !strings.HasPrefix(text, "task") && x.StoredTask == nil {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("echo: "+text)), nil)
			return
		}
		if !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		state := a2a.TaskStateCompleted
		if strings.HasPrefix(text, "task open") {
			state = a2a.TaskStateInputRequired
		}
		yield(a2a.NewStatusUpdateEvent(x, state, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done"))), nil)
	}
}

func (echo) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

// proofs are DPoP proofs that callers made, with what makes each again for another
// URL. Calls at one time make them together; no town has to keep them.
type proofs struct{ again sync.Map }

func (p *proofs) keep(proof string, again func(method, url string) string) {
	if p != nil {
		p.again.Store(proof, again)
	}
}

// moved is the proof for another URL, or the unchanged proof if this town did not make it.
func (p *proofs) moved(proof, method, url string) string {
	if p == nil {
		return proof
	}
	again, ok := p.again.Load(proof)
	if !ok {
		return proof
	}
	return again.(func(method, url string) string)(method, url)
}

// town is a running powerbox with stock agents behind it.
type town struct {
	t         *testing.T
	dir       string
	url       string
	tls       *tls.Config
	on        wire              // how calls are said
	grpc      map[string]string // address of an agent's gRPC
	deletes   string            // further members of the skill delete_document
	sign      *proofs
	reader    *caller // an agent with a key and no session
	documents *stock
	mail      *stock
	process   *exec.Cmd
	log       *programtest.Log
	apart     string            // base URL of the documents agent's gateways, where they are apart
	fronts    map[string]string // base URLs of the gateways of other agents, where they are apart
	client    *http.Client      // that posts; nil for the default one
	env       []string          // further environment of the server
	flags     []string          // further flags of a node
	program   string            // instead of the binary; "" for that
	database  string            // URL of its PostgreSQL database; "" for a file of SQLite
	prepared  string            // URL of a database that had its schema from the beginning; "" for none
}

// options change the configuration of a town.
type options struct {
	on       wire              // how calls are said; JSON-RPC 1.0 where zero
	mode     string            // of both agents; require where empty
	agent    string            // further lines under the documents agent
	extra    string            // further top-level sections
	policies string            // instead of the default policies
	files    map[string]string // further files beside the configuration
	issuer   string            // further lines under issuer
	callers  string            // further lines under identity
	dev      string            // further built-in users, whole lines
	mail     string            // further members of the mail skill
	offer    string            // further members of the offer of mail
	reads    string            // further members of the offer of reading documents
	search   string            // further members of the skill that searches
	upstream string            // of the documents agent; "" for its own
	// callersOf makes the lines of callers once the town has its reader.
	callersOf func(*town) string
	stock     []a2asrv.RequestHandlerOption // further ones of the documents agent
	numbering bool                          // the documents agent numbers its tasks in each tenant
	says      func(*a2a.AgentCard)          // changes a copy of its card; nil for nothing
	scheme    string                        // http where empty
	host      string                        // 127.0.0.1 where empty; browsers have passkeys at localhost
	tls       *tls.Config                   // how the harness itself speaks to the server
	live      string                        // live collections of the documents agent: lines under its items
	database  string                        // URL of an empty PostgreSQL database to run on; "" for SQLite
	gateway   string                        // program of its remote gateways; the built one where empty
}

const (
	aliceToken = "alice-session-token"
	bobToken   = "bob-session-token"
)

const defaultPolicies = `
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource == Agent::"documents");
permit(principal == User::"user:alice", action in Action::"documents/documents:write", resource in Collection::"documents/reports");
permit(principal == User::"user:bob", action in Action::"documents/documents:read", resource in Collection::"documents/reports") when { resource.attributes.owner == "bob" };
permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");
`

func start(t *testing.T, o options) *town {
	t.Helper()
	if o.on.binding == apart {
		o.on = wire{}
		w, _ := startRemote(t, 1, o)
		return w
	}
	w := &town{
		t: t, dir: t.TempDir(), on: o.on, grpc: map[string]string{}, sign: new(proofs),
		documents: newStockWith(t, o.stock, "retrieve_document", "search_documents", "delete_document", "archive_document", "unmapped_skill"),
		mail:      newStock(t, "send_mail"),
	}
	if o.numbering {
		w.documents = newNumbering(t, "retrieve_document", "search_documents", "delete_document", "archive_document", "unmapped_skill")
	}
	w.documents.says = o.says
	if o.mode == "" {
		o.mode = "require"
	}
	if !strings.Contains(o.extra, "limits:") {
		// Tests deny more in a second than callers are in a day, and look at each.
		o.extra = strings.TrimRight(o.extra, "\n") + "\nlimits: {denials: 0}\n"
	}
	if o.policies == "" {
		o.policies = defaultPolicies
	}
	port := freePort(t)
	if o.scheme == "" {
		o.scheme = "http"
	}
	w.reader = w.caller("")
	if o.callersOf != nil {
		o.callers = o.callersOf(w)
	}
	if o.host == "" {
		o.host = "127.0.0.1"
	}
	w.url, w.tls = o.scheme+"://"+o.host+":"+port, o.tls
	w.write("policies.cedar", o.policies)
	for name, text := range o.files {
		w.write(name, text)
	}
	documents := cmp.Or(o.upstream, w.documents.url)
	if w.on.binding == overMCP {
		if o.upstream == "" {
			documents += "/mcp"
		}
		o.agent = "    protocol: mcp\n" + o.agent
	}
	o.agent = w.grpcLines("documents") + o.agent
	o.extra = w.storeLines(o) + o.extra
	w.write("powerbox.yaml", fmt.Sprintf(configuration, port, w.url, o.issuer, o.callers, aliceToken, bobToken, o.dev, documents, o.mode, o.agent, w.mail.url, o.mode, w.grpcLines("mail"), o.reads, o.offer, o.search, o.mail, o.live, o.extra))
	w.migrate()
	w.boot()
	t.Cleanup(h2.CloseIdleConnections)
	return w
}

const configuration = `listen: 127.0.0.1:%s
issuer:
  url: %s
%s
identity:
%s
  dev:
    - {name: alice, token: %s}
    - {name: bob, token: %s}
%sagents:
  - id: documents
    upstream: %s
    mode: %s
    required: [documents:read/retrieve]
%s
  - id: mail
    upstream: %s
    mode: %s
%soffers:
  documents:
    - {id: documents:read, description: Read documents, operations: [retrieve, search], maximum_depth: 3%s}
    - {id: documents:write, description: Change documents, operations: [delete], requires: [documents:read]}
    - {id: documents:admin, description: Full access (legacy wrapper), operations: ["*"], attenuable: false, legacy: true}
  mail:
    - {id: mail:send, operations: [send]%s}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read%s}
    - {skill: delete_document, grant: documents:write, operation: delete, handle: resourceHandle}
    - {skill: archive_document, grant: documents:admin, operation: archive}
  mail:
    - {skill: send_mail, grant: mail:send, operation: send%s}
resources:
  documents:
    items:
      - {collection: reports, id: /vault/q1-financial.pdf, name: Q1 Financial Summary, attributes: {quarter: 2025-Q1, owner: alice}}
      - {collection: reports, id: /vault/q1-sales.pdf, name: Q1 Sales Report, attributes: {quarter: 2025-Q1, owner: bob}}
      - {collection: reports, id: /vault/q2-financial.pdf, name: Q2 Financial Summary, attributes: {quarter: 2025-Q2, owner: alice}}
      - {collection: payroll, id: /vault/salaries.pdf, name: Salary table, attributes: {quarter: 2025-Q1, owner: hr}}
%spolicies: [policies.cedar]
%s
`

func (w *town) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// A program's port is below those that the system hands out, or a connection of
// another test could take it before the program does. It is none of the ports of
// examples/premises, whose tests run beside these. Each process of tests has a share
// of its own: two that chose one port would each take the other's program for theirs.
const firstPort, portShare, portShares = 15000, 1000, 9

// ownPorts is the first port of this process's share. The lock of the share's file
// lasts as long as the process.
var ownPorts = sync.OnceValues(func() (int, error) {
	for n := range portShares {
		f, err := os.OpenFile(filepath.Join(cmp.Or(os.Getenv("E2E_LOCKS"), os.TempDir()), "powerbox-e2e-ports-"+strconv.Itoa(n)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return 0, err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			portLock = f
			return firstPort + n*portShare, nil
		}
		_ = f.Close()
	}
	return 0, fmt.Errorf("%d other processes of these tests run; want fewer", portShares)
})

// portLock keeps the lock's file from being closed as garbage.
var portLock *os.File

// handedOut are the ports that a test of this process has.
var handedOut sync.Map

func freePort(t *testing.T) string {
	t.Helper()
	first, err := ownPorts()
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		port := strconv.Itoa(first + rand.IntN(portShare))
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = l.Close()
			t.Cleanup(func() { handedOut.Delete(port) })
			return port
		}
		handedOut.Delete(port)
	}
	t.Fatal("no port is free")
	return ""
}

// boot starts the binary and waits until it is ready.
func (w *town) boot(flags ...string) {
	w.t.Helper()
	w.log = &programtest.Log{}
	w.process = exec.Command(cmp.Or(w.program, binary), append([]string{"serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev"}, flags...)...)
	w.process.Stderr = w.log
	w.process.Env = append(os.Environ(), w.env...)
	if err := w.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func(p *exec.Cmd) { exited <- p.Wait() }(w.process)
	w.t.Cleanup(func() {
		_ = w.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(15 * time.Second):
			_ = w.process.Process.Kill()
		}
	})
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			exited <- err
			w.t.Fatalf("powerbox ended: %v\n%s", err, w.log)
		case <-deadline:
			w.t.Fatalf("powerbox is not ready\n%s", w.log)
		case <-tick.C:
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.tls, DisableKeepAlives: true}, Timeout: 5 * time.Second}
			r, err := client.Get(w.url + "/readyz")
			if err == nil {
				_ = r.Body.Close()
				if r.StatusCode == http.StatusOK {
					return
				}
			}
		}
	}
}

// agentURL is the public URL of a protected agent.
func (w *town) agentURL(agent string) string {
	if agent == "documents" && w.apart != "" {
		return w.apart + "/agents/" + agent
	}
	if at := w.fronts[agent]; at != "" {
		return at + "/agents/" + agent
	}
	return w.url + "/agents/" + agent
}
