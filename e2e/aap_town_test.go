package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// bank is a running Agent Auth provider in front of a service that notes what
// reaches it.
type bank struct {
	*town
	mu      sync.Mutex
	reached []string // capabilities that the service was asked for
	last    received // that reached it
	polls   int
	refused map[string]bool // capabilities that the service says no to
	wait    chan struct{}   // what the stream of the service waits for after its first event
	asked   func()          // called when the service is asked about a job; nil for nothing
	works   func()          // called when the service is asked for a capability; nil for nothing
}

// bankOptions change the provider.
type bankOptions struct {
	conf         string // further lines under agent_auth
	capabilities string // further capabilities
	clocks       string // instead of the usual ones
	database     string // URL of a database of PostgreSQL
}

const bankConfiguration = `listen: 127.0.0.1:%s
issuer: {url: "%s"}
identity:
  dev:
    - {name: alice, token: %s}
    - {name: bob, token: %s}
    - {name: root, token: root-session-token}
agents:
  - id: bank
    upstream: %s
    mode: require
    agent_auth:
      provider_name: bank
      description: A bank
      administrators: ["user:root"]
      poll_interval: 1s
      requests: 0
      unknown_hosts: 0
      questions: 0
%s
      capabilities:
        - {name: check_balance, description: See the balance, sensitivity: read, default: true, public: true,
           input: {type: object, required: [account_id], additionalProperties: false, properties: {account_id: {type: string}}}}
        - {name: list_accounts, description: List all accounts, sensitivity: read, autonomous: true}
        - {name: transfer_money, description: Move money, sensitivity: write, public: true, constraints: {amount: {max: 10000}},
           input: {type: object, additionalProperties: false, properties: {amount: {type: number}, currency: {type: string}, to: {type: string}}}}
        - {name: close_account, description: Close the account for good, sensitivity: high}
        - {name: internal_audit, description: For nobody, sensitivity: read, blocked: true}
        - {name: slow_job, description: A report, sensitivity: read}
        - {name: ticker, description: Prices, sensitivity: read}
        - {name: statement, description: Elsewhere, sensitivity: read, location: "https://statements.example/run"}
%s
`

func newBank(t *testing.T, o bankOptions) *bank {
	t.Helper()
	b := &bank{wait: make(chan struct{})}
	service := httptest.NewServer(b)
	t.Cleanup(service.Close)
	port := freePort(t)
	b.town = &town{t: t, dir: t.TempDir(), url: "http://127.0.0.1:" + port}
	if o.clocks == "" {
		o.clocks = "      session_ttl: 30m\n      max_lifetime: 24h\n      absolute_lifetime: 168h"
	}
	if !strings.Contains(o.conf, "modes:") {
		o.conf += "\n      modes: [delegated, autonomous]\n      autonomous_hosts: any"
	}
	b.write("powerbox.yaml", fmt.Sprintf(bankConfiguration, port, b.url, aliceToken, bobToken, service.URL, o.clocks+"\n"+o.conf, o.capabilities)+b.storeLines(options{database: o.database}))
	b.migrate()
	b.boot()
	return b
}

// ServeHTTP is the service behind.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/jobs/1" {
		b.mu.Lock()
		b.polls++
		done, asked := b.polls >= 2, b.asked
		b.mu.Unlock()
		if asked != nil {
			asked()
		}
		w.Header().Set("Content-Type", "application/json")
		if done {
			fmt.Fprint(w, `{"status":"completed","result":{"pages":4}}`)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"status":"pending"}`)
		return
	}
	var in struct{ Capability string }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in)
	b.mu.Lock()
	b.reached = append(b.reached, in.Capability)
	b.last = received{body, r.Header.Clone()}
	works := b.works
	b.mu.Unlock()
	if works != nil {
		works()
	}
	if b.refuses(in.Capability) {
		http.Error(w, `{"error":"invalid_request","message":"not today"}`, http.StatusBadRequest)
		return
	}
	switch in.Capability {
	case "slow_job", "reports":
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"status":"pending","status_url":"http://%s/jobs/1"}`, r.Host)
	case "ticker", "prices":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"price\":1}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-b.wait:
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, "event: other\ndata: two\n\n")
	default:
		fmt.Fprint(w, `{"data":{"did":"`+in.Capability+`"}}`)
	}
}

func (b *bank) refuses(capability string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused[capability]
}

// refuse has the service say no to a capability.
func (b *bank) refuse(capability string, no bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = map[string]bool{capability: no}
}

// did counts how often the service was asked for a capability.
func (b *bank) did(capability string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.reached {
		if c == capability {
			n++
		}
	}
	return n
}

// okp is an Ed25519 key as in the protocol.
type okp struct {
	key   ed25519.PrivateKey
	jwk   map[string]any
	thumb string
}

func newOKP(t *testing.T) okp {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := base64.RawURLEncoding.EncodeToString(pub)
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return okp{key, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": x}, base64.RawURLEncoding.EncodeToString(sum[:])}
}

// sign makes a JWT. A nil claim takes one away.
func (k okp) sign(typ string, claims ...map[string]any) string {
	now := time.Now().Unix()
	all := map[string]any{"iat": now, "exp": now + 60, "jti": rand.Text()}
	for _, c := range claims {
		maps.Copy(all, c)
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return k.signAs(map[string]any{"alg": "EdDSA", "typ": typ}, all)
}

func (k okp) signAs(head, claims map[string]any) string {
	h, _ := json.Marshal(head)
	c, _ := json.Marshal(claims)
	input := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	return input + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.key, []byte(input)))
}

type fact = map[string]any

// host is a token of a host.
func (b *bank) host(k okp, more ...map[string]any) string {
	return k.sign("host+jwt", append([]map[string]any{{"iss": k.thumb, "aud": b.url, "host_public_key": k.jwk}}, more...)...)
}

// member is an agent under a host.
type member struct {
	b         *bank
	host, key okp
	id        string
	code      string // of the open request
}

// token is a token of the agent, for an audience.
func (m *member) token(aud string, more ...map[string]any) string {
	return m.key.sign("agent+jwt", append([]map[string]any{{"iss": m.host.thumb, "sub": m.id, "aud": aud}}, more...)...)
}

// reply is an answer of the provider.
type reply struct {
	Status int
	Header http.Header
	Raw    string
	Body   map[string]any
}

func (r reply) text(name string) string { s, _ := r.Body[name].(string); return s }

// ask makes one call.
func (b *bank) ask(method, path, token string, body any, header ...string) reply {
	b.t.Helper()
	var in io.Reader
	switch v := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(v)
	default:
		data, err := json.Marshal(v)
		if err != nil {
			b.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	if !strings.HasPrefix(path, "http") {
		path = b.url + path
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, path, in)
	if err != nil {
		b.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header[http.CanonicalHeaderKey(header[i])] = strings.Split(header[i+1], "\n")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	out := reply{Status: res.StatusCode, Header: res.Header, Raw: string(data)}
	_ = json.Unmarshal(data, &out.Body) // a stream is none
	return out
}

// want fails unless an answer has a status and, where it is a refusal, a code.
func (b *bank) want(what string, r reply, status int, code string) reply {
	b.t.Helper()
	if r.Status != status || r.text("error") != code {
		b.t.Errorf("%s: %d %s; want %d %s", what, r.Status, r.Raw, status, code)
	}
	if code != "" && r.text("message") == "" {
		b.t.Errorf("%s: no message: %s", what, r.Raw)
	}
	return r
}

// register registers an agent, and returns it with the answer.
func (b *bank) register(host okp, body map[string]any, more ...map[string]any) (*member, reply) {
	b.t.Helper()
	m := &member{b: b, host: host, key: newOKP(b.t)}
	if body["name"] == nil {
		body["name"] = "Tester"
	}
	r := b.ask(http.MethodPost, "/agent/register", b.host(host, append([]map[string]any{{"agent_public_key": m.key.jwk}}, more...)...), body)
	m.id = r.text("agent_id")
	m.code = codeOf(r)
	return m, r
}

func codeOf(r reply) string {
	approval, _ := r.Body["approval"].(map[string]any)
	code, _ := approval["user_code"].(string)
	return code
}

// as answers, or looks, as a built-in user.
func (b *bank) as(user, method, path string, body any) reply {
	b.t.Helper()
	return b.ask(method, path, "", body, "Powerbox-Dev-User", user)
}

// approve has a person answer.
func (b *bank) approve(user, code string, body map[string]any) reply {
	b.t.Helper()
	return b.as(user, http.MethodPost, "/v1/approvals/"+code, body)
}

// active registers an agent for a user and has it approved whole.
func (b *bank) active(user string, capabilities ...any) *member {
	b.t.Helper()
	m, r := b.register(newOKP(b.t), map[string]any{"capabilities": capabilities})
	b.want("register", r, http.StatusOK, "")
	b.want("approve", b.approve(user, m.code, map[string]any{}), http.StatusOK, "")
	return m
}

// execute executes a capability.
func (m *member) execute(capability string, arguments any, more ...map[string]any) reply {
	m.b.t.Helper()
	return m.b.ask(http.MethodPost, "/capability/execute", m.token(m.b.url+"/capability/execute", more...), map[string]any{"capability": capability, "arguments": arguments})
}

// state is the agent's state as its host is told.
func (m *member) state() reply {
	m.b.t.Helper()
	return m.b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, m.b.host(m.host), nil)
}

// request asks for more.
func (m *member) request(capabilities ...any) reply {
	m.b.t.Helper()
	return m.b.ask(http.MethodPost, "/agent/request-capability", m.token(m.b.url), map[string]any{"capabilities": capabilities, "reason": "for a test"})
}

// grants are the states of an answer's grants, by capability; the last counts.
func grantsOf(r reply) map[string]string {
	out := map[string]string{}
	list, _ := r.Body["agent_capability_grants"].([]any)
	for _, g := range list {
		one, _ := g.(map[string]any)
		name, _ := one["capability"].(string)
		out[name], _ = one["status"].(string)
	}
	return out
}

// becomes waits until an agent is in a state: clocks decide that, and this test
// does not.
func (m *member) becomes(state string) {
	m.b.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		r := m.state()
		if r.text("status") == state {
			return
		}
		if time.Now().After(deadline) {
			m.b.t.Fatalf("the agent stays %s; want %s", r.Raw, state)
		}
	}
}

// file is the text of a file of the town.
func (b *bank) file(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func nowUnix() int64 { return time.Now().Unix() }

// sql changes the store while the program does not run.
func (b *bank) sql(statement string) {
	b.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.dir, "powerbox-data", "powerbox.db"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		b.t.Fatal(err)
	}
}
