package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startExampleBank runs examples/bank in front of the program, and returns its URL.
func startExampleBank(t *testing.T) string {
	t.Helper()
	program, err := bankBinary()
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + freePort(t)
	cmd := exec.Command(program, "--listen", at, "--binary", binary)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%v\n%s", err, log.String())
		}
	})
	eventually(t, 30*time.Second, log.String, func() bool {
		res, err := http.Get("http://" + at + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return "http://" + at
}

// agentHost is a machine where agents run: the program with its own store.
type agentHost struct {
	t   *testing.T
	dir string
}

func newAgentHost(t *testing.T) *agentHost { return &agentHost{t, t.TempDir()} }

func (h *agentHost) env() []string {
	return append(os.Environ(), "POWERBOX_AGENTS_STORE="+h.store(), "POWERBOX_AGENTS_PASSPHRASE=a passphrase for a test")
}

func (h *agentHost) store() string { return filepath.Join(h.dir, "agents") }

// spoken is what a command said.
type spoken struct {
	code     int
	out, err string
}

// run runs the program.
func (h *agentHost) run(args ...string) spoken {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), binary, args...)
	var out, talk bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = h.env(), &out, &talk
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return spoken{cmd.ProcessState.ExitCode(), out.String(), talk.String()}
}

// must runs the program, and fails unless it exits as wanted. It returns what it
// says as JSON, where that is an object.
func (h *agentHost) must(code int, args ...string) (fact, spoken) {
	h.t.Helper()
	s := h.run(args...)
	if s.code != code {
		h.t.Fatalf("powerbox %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
	}
	var out fact
	_ = json.Unmarshal([]byte(s.out), &out) // text is none
	return out, s
}

// answer has a person answer the request that an agent waits for.
func (h *agentHost) answer(verb, server string, waiting fact, more ...string) {
	h.t.Helper()
	approval, _ := waiting["approval"].(fact)
	code, _ := approval["user_code"].(string)
	if code == "" {
		h.t.Fatalf("no code in %v", waiting)
	}
	h.must(0, append([]string{"approval", verb, code, "--server", server, "--as", "alice"}, more...)...)
}

// heard is one request to a pretender.
type heard struct {
	method, path, query, bearer, body string
}

// claims are those of its token.
func (h heard) claims() fact {
	parts := strings.Split(h.bearer, ".")
	if len(parts) != 3 {
		return nil
	}
	data, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var out fact
	_ = json.Unmarshal(data, &out)
	return out
}

// pretender is a provider that says what a test wants, and keeps what it hears.
type pretender struct {
	*httptest.Server
	mu      sync.Mutex
	heard   []heard
	answers map[string]func(w http.ResponseWriter) // by method and path
}

func newPretender(t *testing.T) *pretender {
	t.Helper()
	p := &pretender{answers: map[string]func(http.ResponseWriter){}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.discovery(nil)
	p.says("POST /agent/register", 200, agentOf("active", `{"capability":"pay","status":"active"}`))
	p.says("GET /agent/status", 200, agentOf("active", `{"capability":"pay","status":"active"}`))
	p.says("GET /capability/describe", 200, `{"name":"pay","description":"Pay"}`)
	p.says("POST /capability/execute", 200, `{"data":{"paid":true}}`)
	return p
}

func agentOf(status, grants string) string {
	return `{"agent_id":"agt_1","host_id":"hst_1","name":"n","mode":"delegated","status":"` + status + `","agent_capability_grants":[` + grants + `],
		"approval":{"method":"device_authorization","verification_uri":"https://bank.example","user_code":"AB","expires_in":60,"interval":1}}`
}

// discovery sets the document, with members changed.
func (p *pretender) discovery(change fact) {
	d := fact{
		"version": "1.0-draft", "provider_name": "pretender", "description": "A provider", "issuer": p.URL, "algorithms": []string{"Ed25519"},
		"modes": []string{"delegated"}, "approval_methods": []string{"device_authorization"},
		"endpoints": fact{
			"register": "/agent/register", "capabilities": "/capability/list", "describe_capability": "/capability/describe", "execute": "/capability/execute",
			"request_capability": "/agent/request-capability", "status": "/agent/status", "reactivate": "/agent/reactivate", "revoke": "/agent/revoke",
			"rotate_key": "/agent/rotate-key", "rotate_host_key": "/host/rotate-key",
		},
	}
	for name, v := range change {
		d[name] = v
	}
	text, _ := json.Marshal(d)
	p.says("GET /.well-known/agent-configuration", 200, string(text))
}

// says sets an answer, with headers in pairs.
func (p *pretender) says(at string, status int, body string, header ...string) {
	p.does(at, func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (p *pretender) does(at string, answer func(http.ResponseWriter)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[at] = answer
}

// first answers once, and then as before.
func (p *pretender) first(at string, status int, body string, header ...string) {
	p.mu.Lock()
	then := p.answers[at]
	p.mu.Unlock()
	p.says(at, status, body, header...)
	p.mu.Lock()
	now := p.answers[at]
	p.answers[at] = func(w http.ResponseWriter) {
		p.does(at, then)
		now(w)
	}
	p.mu.Unlock()
}

func (p *pretender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.heard = append(p.heard, heard{r.Method, r.URL.Path, r.URL.RawQuery, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), string(body)})
	answer := p.answers[r.Method+" "+r.URL.Path]
	p.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	answer(w)
}

// to returns the requests to one place.
func (p *pretender) to(at string) (out []heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.heard {
		if at == "" || h.method+" "+h.path == at {
			out = append(out, h)
		}
	}
	return out
}

// connected is a host with an agent at a pretender.
func (p *pretender) connected(t *testing.T, more ...string) *agentHost {
	t.Helper()
	h := newAgentHost(t)
	h.must(0, append([]string{"agent", "connect", p.URL, "--name", "n", "--capability", "pay"}, more...)...)
	return h
}

// pay executes.
func (h *agentHost) pay(code int, arguments string) spoken {
	h.t.Helper()
	_, s := h.must(code, "call", "agt_1", "--via", "agent-auth", "--skill", "pay", "--arguments", arguments)
	return s
}

// took runs something and returns how long it took.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}
