// Package e2e runs the powerbox binary in front of a stock A2A agent and tries
// it from outside, as callers and attackers would. It imports nothing of what
// it tests but the codecs that a client needs.
package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "powerbox-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "powerbox")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/powerbox")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the binary: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// stock is an A2A agent as its author would build it, on a2a-go. It keeps what
// reached it.
type stock struct {
	url string

	mu       sync.Mutex
	requests []received
}

type received struct {
	body   []byte
	header http.Header
}

func newStock(t *testing.T, skills ...string) *stock {
	t.Helper()
	s := &stock{}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	card := &a2a.AgentCard{
		Name: "Documents", Description: "Keeps documents", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(srv.URL+"/invoke", a2a.TransportProtocolJSONRPC)},
		DefaultInputModes:   []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true},
	}
	for _, name := range skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: name, Name: name, Description: name, Tags: []string{"test"}})
	}
	rpc := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echo{}))
	mux.Handle("/invoke", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, received{body, r.Header.Clone()})
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		rpc.ServeHTTP(w, r)
	}))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	return s
}

// got returns what reached the agent.
func (s *stock) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// echo answers a message whose text begins with "task" with a task, and every
// other with a message.
type echo struct{}

func (echo) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, p := range x.Message.Parts {
			text += p.Text()
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

// town is a running powerbox with stock agents behind it.
type town struct {
	t         *testing.T
	dir       string
	url       string
	tls       *tls.Config
	documents *stock
	mail      *stock
	process   *exec.Cmd
	log       *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// options change the configuration of a town.
type options struct {
	mode     string            // of both agents; require where empty
	agent    string            // further lines under the documents agent
	extra    string            // further top-level sections
	policies string            // instead of the default policies
	files    map[string]string // further files beside the configuration
	issuer   string            // further lines under issuer
	callers  string            // further lines under identity
	scheme   string            // http where empty
	tls      *tls.Config       // how the harness itself speaks to the server
}

const aliceToken = "alice-session-token"
const bobToken = "bob-session-token"

const defaultPolicies = `
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource == Agent::"documents");
permit(principal == User::"user:alice", action in Action::"documents/documents:write", resource in Collection::"documents/reports");
permit(principal == User::"user:bob", action in Action::"documents/documents:read", resource in Collection::"documents/reports") when { resource.attributes.owner == "bob" };
permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");
`

func start(t *testing.T, o options) *town {
	t.Helper()
	w := &town{
		t: t, dir: t.TempDir(),
		documents: newStock(t, "retrieve_document", "search_documents", "delete_document", "archive_document", "unmapped_skill"),
		mail:      newStock(t, "send_mail"),
	}
	if o.mode == "" {
		o.mode = "require"
	}
	if o.policies == "" {
		o.policies = defaultPolicies
	}
	port := freePort(t)
	if o.scheme == "" {
		o.scheme = "http"
	}
	w.url, w.tls = o.scheme+"://127.0.0.1:"+port, o.tls
	w.write("policies.cedar", o.policies)
	for name, text := range o.files {
		w.write(name, text)
	}
	w.write("powerbox.yaml", fmt.Sprintf(configuration, port, w.url, o.issuer, o.callers, aliceToken, bobToken, w.documents.url, o.mode, o.agent, w.mail.url, o.mode, o.extra))
	w.boot()
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
agents:
  - id: documents
    upstream: %s
    mode: %s
    required: [documents:read/retrieve]
%s
  - id: mail
    upstream: %s
    mode: %s
offers:
  documents:
    - {id: documents:read, description: Read documents, operations: [retrieve, search], maximum_depth: 3}
    - {id: documents:write, description: Change documents, operations: [delete], requires: [documents:read]}
    - {id: documents:admin, description: Full access (legacy wrapper), operations: ["*"], attenuable: false, legacy: true}
  mail:
    - {id: mail:send, operations: [send]}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
    - {skill: delete_document, grant: documents:write, operation: delete, handle: resourceHandle}
    - {skill: archive_document, grant: documents:admin, operation: archive}
  mail:
    - {skill: send_mail, grant: mail:send, operation: send}
resources:
  documents:
    items:
      - {collection: reports, id: /vault/q1-financial.pdf, name: Q1 Financial Summary, attributes: {quarter: 2025-Q1, owner: alice}}
      - {collection: reports, id: /vault/q1-sales.pdf, name: Q1 Sales Report, attributes: {quarter: 2025-Q1, owner: bob}}
      - {collection: reports, id: /vault/q2-financial.pdf, name: Q2 Financial Summary, attributes: {quarter: 2025-Q2, owner: alice}}
      - {collection: payroll, id: /vault/salaries.pdf, name: Salary table, attributes: {quarter: 2025-Q1, owner: hr}}
policies: [policies.cedar]
%s
`

func (w *town) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// boot starts the binary and waits until it is ready.
func (w *town) boot() {
	w.t.Helper()
	w.log = &lockedBuffer{}
	w.process = exec.Command(binary, "serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev")
	w.process.Stderr = w.log
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
func (w *town) agentURL(agent string) string { return w.url + "/agents/" + agent }

// caller is an agent that calls: a key, and the session of a user.
type caller struct {
	w       *town
	key     *token.PrivateKey
	session string // access token, "" for none
}

func (w *town) caller(session string) *caller {
	w.t.Helper()
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	return &caller{w, key, session}
}

func nonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// answer is a JSON-RPC answer with the HTTP around it.
type answer struct {
	Status int
	Header http.Header
	Raw    []byte
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    []struct {
		Metadata map[string]string `json:"metadata"`
	} `json:"data"`
}

// reason is the stable code of a denial, "" where the call was not denied.
func (a answer) reason() string {
	if a.Error == nil {
		return ""
	}
	if len(a.Error.Data) == 0 {
		return fmt.Sprint(a.Error.Code)
	}
	return a.Error.Data[0].Metadata["code"]
}

// post sends one body with headers and reads the answer.
func (w *town) post(url string, body []byte, header http.Header) answer {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("A2A-Version") == "" {
		req.Header.Set("A2A-Version", "1.0")
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{Status: r.StatusCode, Header: r.Header, Raw: raw}
	payload := raw
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		payload = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("data: "))
		if i := bytes.Index(payload, []byte("\n")); i >= 0 {
			payload = payload[:i]
		}
	}
	_ = json.Unmarshal(payload, &a)
	return a
}

func rpc(method string, params any) []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	return b
}

// headers returns the session headers for one request.
func (c *caller) headers(url string) http.Header {
	c.w.t.Helper()
	h := http.Header{}
	proof, err := token.SignDPoP(c.key, token.DPoPRequest{Method: http.MethodPost, URL: url, AccessToken: c.session, Now: time.Now()}, nonce())
	if err != nil {
		c.w.t.Fatal(err)
	}
	h.Set("DPoP", proof)
	if c.session != "" {
		h.Set("Authorization", "DPoP "+c.session)
	}
	return h
}

// call makes a JSON-RPC call with the session.
func (c *caller) call(agent, method string, params any) answer {
	c.w.t.Helper()
	url := c.w.agentURL(agent)
	return c.w.post(url, rpc(method, params), c.headers(url))
}

// granted is one capability of a result.
type granted struct {
	ID              string `json:"id"`
	Grant           string `json:"grant"`
	Token           string `json:"token"`
	ResourceHandles []struct {
		Handle      string `json:"handle"`
		DisplayName string `json:"displayName"`
	} `json:"resourceHandles"`
	Operations   []string  `json:"operations"`
	Expires      time.Time `json:"expires"`
	RevocationID string    `json:"revocationId"`
	Principal    string    `json:"principal"`
}

// request asks for capabilities and expects them.
func (c *caller) request(agent string, params map[string]any) []granted {
	c.w.t.Helper()
	a := c.call(agent, "a2a/capabilities/request", params)
	if a.Error != nil {
		c.w.t.Fatalf("request: %s\n%s", a.Raw, c.w.log)
	}
	return capabilities(c.w.t, a)
}

func capabilities(t *testing.T, a answer) []granted {
	t.Helper()
	var result struct {
		Capabilities []granted `json:"capabilities"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		t.Fatalf("%v: %s", err, a.Raw)
	}
	return result.Capabilities
}

// reports asks for documents:read on the reports of 2025-Q1.
func (c *caller) reports() granted {
	c.w.t.Helper()
	return c.request("documents", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Summarize quarterly reports",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})[0]
}

// proven is a call under a chain of tokens with its proof.
type proven struct {
	chain     []string
	operation string
	arguments map[string]any
	url       string // "" for the agent's own
	audience  string // "" for the agent's URL
	key       *token.PrivateKey
	at        time.Time
	tokenID   string // "" for that of the last token
	body      []byte // what the proof is about; nil for the body that is sent
	id        string // jti of the proof; "" for a fresh one
}

// present makes a call under a chain.
func (c *caller) present(agent string, body []byte, p proven) answer {
	c.w.t.Helper()
	h := c.proof(agent, body, p)
	url := p.url
	if url == "" {
		url = c.w.agentURL(agent)
	}
	return c.w.post(url, body, h)
}

// proof makes the headers of a call under a chain.
func (c *caller) proof(agent string, body []byte, p proven) http.Header {
	c.w.t.Helper()
	if p.key == nil {
		p.key = c.key
	}
	if p.at.IsZero() {
		p.at = time.Now()
	}
	if p.audience == "" {
		p.audience = c.w.agentURL(agent)
	}
	if p.url == "" {
		p.url = c.w.agentURL(agent)
	}
	if p.body == nil {
		p.body = body
	}
	if p.tokenID == "" {
		p.tokenID = claim(c.w.t, p.chain[len(p.chain)-1], "jti")
	}
	if p.id == "" {
		p.id = nonce()
	}
	compact, err := token.SignProof(p.key, token.Proof{
		ID: p.id, IssuedAt: p.at, TokenID: p.tokenID, Operation: p.operation, Arguments: value(c.w.t, p.arguments),
		Audience: p.audience, Request: &token.Request{Method: http.MethodPost, URL: p.url, Digest: token.DigestOf(p.body)},
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	h := http.Header{}
	h.Set("Powerbox-Capability", token.JoinChain(p.chain))
	h.Set("Powerbox-Proof", compact)
	return h
}

func value(t *testing.T, v map[string]any) powerbox.Value {
	t.Helper()
	if v == nil {
		v = map[string]any{}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := powerbox.ParseValue(b)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// claim reads one text claim of a compact token.
func claim(t *testing.T, compact, name string) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(compact, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	s, _ := claims[name].(string)
	return s
}

// data is a SendMessage body whose one part calls a skill.
func data(skill string, arguments map[string]any) []byte {
	return rpc("SendMessage", map[string]any{"message": map[string]any{
		"messageId": nonce(), "role": "ROLE_USER",
		"parts": []any{map[string]any{"data": map[string]any{"skill": skill, "arguments": arguments}}},
	}})
}

// text is a SendMessage body with free text.
func text(method, s string) []byte {
	return rpc(method, map[string]any{"message": map[string]any{
		"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": s}},
	}})
}

// invoke is an a2a/skill/invoke body.
func invoke(skill string, arguments map[string]any, capability string) []byte {
	params := map[string]any{"skill": skill, "arguments": arguments}
	if capability != "" {
		params["capabilityId"] = capability
	}
	return rpc("a2a/skill/invoke", params)
}

const (
	opRetrieve = "documents/documents:read/retrieve"
	opSearch   = "documents/documents:read/search"
	opDelete   = "documents/documents:write/delete"
)
