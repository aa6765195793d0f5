package agentauth_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder/agentauth"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

const issuer = "https://bank.example"

// world answers requests without a network, by method and URL without query. It
// keeps the requests.
type world struct {
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []*http.Request
	bodies  []string
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	at, _, _ := strings.Cut(r.URL.String(), "?")
	w.mu.Lock()
	w.asked, w.bodies = append(w.asked, r), append(w.bodies, string(body))
	answer := w.answers[r.Method+" "+at]
	w.mu.Unlock()
	out := httptest.NewRecorder()
	if answer == nil {
		answer = http.NotFound
	}
	answer(out, r)
	return out.Result(), nil
}

// to returns the requests to one place.
func (w *world) to(place string) (out []*http.Request) {
	for _, r := range w.asked {
		if at, _, _ := strings.Cut(r.URL.String(), "?"); r.Method+" "+at == place {
			out = append(out, r)
		}
	}
	return out
}

// says answers with JSON and headers, given in pairs.
func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// inTurn answers with each in turn, and with the last one from then on.
func inTurn(answers ...http.HandlerFunc) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		answers[min(n, len(answers)-1)](w, r)
		n++
	}
}

// document is a discovery document, with members changed.
func document(t *testing.T, change map[string]any) string {
	t.Helper()
	d := map[string]any{
		"version": "1.0-draft", "provider_name": "bank", "description": "A bank", "issuer": issuer, "algorithms": []string{"Ed25519"},
		"modes": []string{"delegated"}, "approval_methods": []string{"device_authorization"},
		"endpoints": map[string]string{
			"register": "/agent/register", "capabilities": "/capability/list", "describe_capability": "/capability/describe", "execute": "/capability/execute",
			"request_capability": "/agent/request-capability", "status": "/agent/status", "reactivate": "/agent/reactivate", "revoke": "/agent/revoke",
			"rotate_key": "/agent/rotate-key", "rotate_host_key": "/host/rotate-key", "batch_execute": "/capability/batch-execute",
		},
	}
	for name, value := range change {
		if d[name] = value; value == nil {
			delete(d, name)
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const discovery = "GET " + issuer + "/.well-known/agent-configuration"

// active and waiting are an agent on the wire.
const (
	active  = `{"agent_id": "agt_1", "host_id": "hst_1", "name": "n", "mode": "delegated", "status": "active", "agent_capability_grants": [{"capability": "pay", "status": "active"}]}`
	waiting = `{"agent_id": "agt_1", "host_id": "hst_1", "name": "n", "mode": "delegated", "status": "pending", "agent_capability_grants": [{"capability": "pay", "status": "pending"}],
		"approval": {"method": "device_authorization", "verification_uri": "https://bank.example/approve", "user_code": "AB-CD", "expires_in": 300, "interval": 5}}`
	rejected = `{"agent_id": "agt_1", "host_id": "hst_1", "name": "n", "mode": "delegated", "status": "rejected", "agent_capability_grants": [{"capability": "pay", "status": "denied", "reason": "no"}]}`
)

// newWorld is a bank with one capability, at which everybody is active at once.
func newWorld(t *testing.T) (*world, *agentauth.Client) {
	t.Helper()
	w := &world{answers: map[string]http.HandlerFunc{
		discovery:                                      says(200, document(t, nil)),
		"POST " + issuer + "/agent/register":           says(200, active),
		"GET " + issuer + "/agent/status":              says(200, active),
		"GET " + issuer + "/capability/describe":       says(200, `{"name": "pay", "description": "Pay"}`),
		"POST " + issuer + "/capability/execute":       says(200, `{"data": {"paid": true}}`),
		"POST " + issuer + "/agent/revoke":             says(200, `{"agent_id": "agt_1", "status": "revoked"}`),
		"GET " + issuer + "/capability/list":           says(200, `{"capabilities": [{"name": "pay", "description": "Pay"}], "has_more": false}`),
		"POST " + issuer + "/agent/rotate-key":         says(200, `{"agent_id": "agt_1", "status": "active"}`),
		"POST " + issuer + "/host/rotate-key":          says(200, `{"host_id": "hst_1", "status": "active"}`),
		"POST " + issuer + "/agent/request-capability": says(200, active),
	}}
	return w, &agentauth.Client{Store: agentauth.NewMemory(rand.Reader), HTTP: &http.Client{Transport: w}, Now: now, Random: rand.Reader}
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the clock of the bubble

// pays connects an agent that asks for pay.
func pays(t *testing.T, c *agentauth.Client, constraints string) agentauth.Agent {
	t.Helper()
	ask := agentauth.Ask{Capability: "pay"}
	if constraints != "" {
		ask.Constraints = json.RawMessage(constraints)
	}
	a, err := c.Connect(t.Context(), issuer, agentauth.Connection{Name: "n", Capabilities: []agentauth.Ask{ask}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tokenOf reads the token of a request.
func tokenOf(t *testing.T, r *http.Request, typ string) wire.Token {
	t.Helper()
	parsed, err := wire.ParseToken(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), typ)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return parsed
}
