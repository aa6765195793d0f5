package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

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
	// Trailer is the metadata that a call of gRPC ended with.
	Trailer http.Header `json:"-"`
	Raw     []byte
	Result  json.RawMessage `json:"result"`
	Error   *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Data    []errorData `json:"data"`
}

type errorData struct {
	Metadata map[string]string `json:"metadata"`
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
	if r, ok := w.encode(url, body); ok {
		h := header.Clone()
		if h == nil {
			h = http.Header{}
		}
		return w.deliver(r, h)
	}
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
	client := http.DefaultClient
	if w.client != nil {
		client = w.client
	}
	r, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{Status: r.StatusCode, Header: r.Header, Raw: raw}
	_ = json.Unmarshal(event(a), &a)
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
	sign := func(method, url string) string {
		u, _, _ := strings.Cut(url, "?")
		proof, err := token.SignDPoP(c.key, token.DPoPRequest{Method: method, URL: u, AccessToken: c.session, Now: time.Now()}, nonce())
		if err != nil {
			c.w.t.Fatal(err)
		}
		return proof
	}
	proof := sign(http.MethodPost, url)
	c.w.sign.keep(proof, sign)
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
	draft := token.Draft02
	if u, err := token.ParseChain(p.chain); err == nil {
		draft = u.Draft()
	}
	compact, err := token.Proof{
		ID: p.id, IssuedAt: p.at, TokenID: p.tokenID, TokenHash: signedHash(p.chain[len(p.chain)-1]), Operation: p.operation,
		Arguments: value(c.w.t, p.arguments), Audience: p.audience, Request: c.w.proofOf(p.url, p.body),
	}.Sign(p.key, draft)
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

// signedHash is the hash of a token's signing input, which proofs name.
func signedHash(compact string) string {
	if i := strings.LastIndexByte(compact, '.'); i >= 0 {
		compact = compact[:i]
	}
	return token.DigestOf([]byte(compact))
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
