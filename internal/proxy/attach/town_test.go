package attach_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/proxy/attach"
	"github.com/powerbox-project/powerbox/token"
)

// town is an agent with an attach beside it, its gateway as far as attach sees
// that, and one peer, which keeps what comes.
type town struct {
	tenant  string // in which calls come in
	t       *testing.T
	now     time.Time
	issuing *token.PrivateKey // of the gateway, for the agent and for the peer
	key     *token.PrivateKey // of the agent
	gateway *httptest.Server  // serves keys, and is the peer
	agent   *httptest.Server
	attach  *attach.Attach
	out     *httptest.Server // for the agent's calls
	in      *httptest.Server // for the gateway's
	log     bytes.Buffer

	mu      sync.Mutex
	agentIn []http.Header
	peerIn  []http.Header
	bodies  []string
	answer  string           // of the agent
	serve   http.HandlerFunc // of the peer, instead of a plain answer
}

const (
	opRead  = "peer/notes:read/read"
	opWrite = "peer/notes:read/write"
)

var discard = slog.New(slog.DiscardHandler)

func newKey(t *testing.T) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newTown(t *testing.T, change func(*town, *attach.Config)) *town {
	t.Helper()
	w := &town{
		t: t, now: time.Unix(1_800_000_000, 0), issuing: newKey(t), key: newKey(t),
		answer: `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}}`,
	}
	w.gateway = httptest.NewServer(http.HandlerFunc(w.serveGateway))
	w.agent = httptest.NewServer(http.HandlerFunc(w.serveAgent))
	w.out = httptest.NewUnstartedServer(nil)
	w.in = httptest.NewUnstartedServer(nil)
	inURL := "http://" + w.in.Listener.Addr().String()
	c := attach.Config{
		Client:    &holder.Client{Key: w.key, HTTP: http.DefaultClient, Now: func() time.Time { return w.now }, Random: rand.Reader},
		Peers:     []attach.Peer{{Name: "peer", Card: w.gateway.URL + "/agents/peer"}},
		Inbound:   &attach.Inbound{ID: "own", Agent: w.gateway.URL + "/agents/own", Forward: w.agent.URL, URL: inURL},
		Transport: http.DefaultTransport, HTTP2: http.DefaultTransport,
		Log: slog.New(slog.NewJSONHandler(&w.log, nil)),
	}
	if change != nil {
		change(w, &c)
	}
	var err error
	if w.attach, err = attach.New(c); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Second) // contexts of the second before may have been used
	w.out.Config.Handler, w.in.Config.Handler = w.attach.Handler(), w.attach.Inbound()
	for _, s := range []*httptest.Server{w.out, w.in} {
		s.Start()
		t.Cleanup(s.Close)
	}
	t.Cleanup(w.gateway.Close)
	t.Cleanup(w.agent.Close)
	return w
}

func (w *town) serveGateway(rw http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/jwks.json"):
		_, _ = rw.Write(token.JWKS(w.issuing.Public()).AppendJSON(nil))
	case strings.HasSuffix(r.URL.Path, "/agent-card.json"):
		at := w.gateway.URL + "/agents/peer"
		fmt.Fprintf(rw, `{"name":"peer","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
			"capabilities":{"extensions":[{"uri":%q,"params":{"issuer":%q,"holder":%s,
			"skills":{"read":{"operation":%q},"write":{"operation":%q}},"capabilityGrants":[{"id":"notes:read","operations":["read","write"]}]}}]}}`,
			at, holder.ExtensionURI, at, w.issuing.Public().JWK(), opRead, opWrite)
	default:
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.peerIn, w.bodies = append(w.peerIn, r.Header.Clone()), append(w.bodies, string(body))
		serve := w.serve
		w.mu.Unlock()
		if serve != nil {
			serve(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}

func (w *town) serveAgent(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(rw, `{"name":"own","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{}}`, w.agent.URL+"/a2a")
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agentIn, w.bodies = append(w.agentIn, r.Header.Clone()), append(w.bodies, string(body))
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprint(rw, w.answer)
}

// chain is a capability of the peer for the key of the agent.
func (w *town) chain(id string, tools string) string {
	w.t.Helper()
	clauses, err := token.ParseTools([]byte(tools))
	if err != nil {
		w.t.Fatal(err)
	}
	root, err := token.Mint(w.issuing, token.Root{
		ID: id, Issuer: w.gateway.URL + "/agents/peer", IssuedAt: w.now, Expires: w.now.Add(time.Hour), MaxDepth: 3, Holder: w.key.Public(), Tools: clauses,
		Private: &token.Private{Capability: id, Grant: "notes:read", Principal: "p-1"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return root
}

const canRead = `{"` + opRead + `":{},"a2a.message":{},"a2a.task.read":{}}`

// context signs what a gateway would say of a body.
func (w *town) context(body []byte, change func(*token.Context)) string {
	w.t.Helper()
	c := token.Context{
		Issuer: w.gateway.URL + "/agents/own", Audience: "own", IssuedAt: w.now, Expires: w.now.Add(time.Minute),
		Principal: "p-1", Holder: "key:x", Mode: "require", Basis: "capability", Decision: rand.Text(), Digest: token.DigestOf(body),
	}
	if change != nil {
		change(&c)
	}
	compact, err := token.SignContext(w.issuing, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return compact
}

func call(skill, context string) []byte {
	message := map[string]any{"messageId": rand.Text(), "role": "ROLE_USER", "parts": []any{map[string]any{"data": map[string]any{"skill": skill, "arguments": map[string]any{}}}}}
	if context != "" {
		message["contextId"] = context
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": map[string]any{"message": message}})
	if err != nil {
		panic(err)
	}
	return body
}

// post sends a call and returns the reason of its denial, "" for none.
func (w *town) post(target string, body []byte, h http.Header) string {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if h != nil {
		r.Header = h.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Error *struct {
			Data []struct{ Metadata map[string]string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		w.t.Fatal(err)
	}
	if answer.Error == nil {
		return ""
	}
	return answer.Error.Data[0].Metadata["code"]
}

// comes has one call come in from the gateway, with a capability handed over,
// and returns the headers that the agent got.
func (w *town) comes(capability, named string, h http.Header, change func(*token.Context)) http.Header {
	w.t.Helper()
	if h == nil {
		h = http.Header{}
	}
	body := call("work", named)
	if w.tenant != "" {
		body = []byte(strings.Replace(string(body), `"params":{`, `"params":{"tenant":"`+w.tenant+`",`, 1))
	}
	h.Set("Powerbox-Context", w.context(body, func(c *token.Context) {
		c.Tenant = w.tenant
		if change != nil {
			change(c)
		}
	}))
	if capability != "" {
		h.Set("Powerbox-Delegation", w.chain(capability, canRead))
	}
	if reason := w.post(w.in.URL, body, h); reason != "" {
		w.t.Fatalf("refused: %s\n%s", reason, &w.log)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agentIn[len(w.agentIn)-1]
}

// goes has the agent call the peer, and returns the id of the capability that
// was presented, or the reason why the call was not made.
func (w *town) goes(body []byte, h http.Header) (presented, refused string) {
	w.t.Helper()
	w.mu.Lock()
	before := len(w.peerIn)
	w.mu.Unlock()
	if refused := w.post(w.out.URL+"/agents/peer", body, h); refused != "" {
		return "", refused
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.peerIn) != before+1 {
		w.t.Fatalf("%d calls came to the peer", len(w.peerIn)-before)
	}
	u, err := token.ParseChain(token.SplitChain(w.peerIn[before].Get("Powerbox-Capability")))
	if err != nil {
		return "", "nothing presented"
	}
	return u.Describe()[0].ID, ""
}
