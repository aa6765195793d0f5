package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// bankBinary is examples/bank.
func bankBinary() (string, error) { return built("bank", "..", "./examples/bank") }

// pagesBank is examples/bank as it runs, in dev mode, at a name where browsers have
// passkeys.
type pagesBank struct {
	t   *testing.T
	url string
	log *programtest.Log
	dir string // of the configuration, where the test wrote it

	process *exec.Cmd // that serves now
}

func startBank(t *testing.T, flags ...string) *pagesBank {
	t.Helper()
	file, err := bankBinary()
	if err != nil {
		t.Fatal(err)
	}
	at := "localhost:" + freePort(t)
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}}
	b.run(exec.Command(file, append([]string{"--binary", binary, "--listen", at}, flags...)...), b.url)
	return b
}

// run starts a process and returns when it is ready.
func (b *pagesBank) run(process *exec.Cmd, url string) {
	b.t.Helper()
	b.process, process.Stderr = process, b.log
	out, err := process.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(out)) }()
	b.t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
		if b.t.Failed() {
			b.t.Logf("%s", b.log)
		}
	})
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			b.t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s is not ready:\n%s", url, b.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// protocolHost is a host of the Agent Auth Protocol with its key.
type protocolHost struct {
	bank *pagesBank
	key  ed25519.PrivateKey
}

// protocolAgent is an agent under a host.
type protocolAgent struct {
	host *protocolHost
	key  ed25519.PrivateKey
	id   string
	code string // of the last question
}

func newEd25519(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (b *pagesBank) host() *protocolHost { return &protocolHost{b, newEd25519(b.t)} }

func publicJWK(key ed25519.PrivateKey) map[string]any {
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))}
}

// signJWT makes a token as a client of the protocol does.
func signJWT(t *testing.T, key ed25519.PrivateKey, typ string, claims map[string]any) string {
	t.Helper()
	now := time.Now()
	all := map[string]any{"jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(50 * time.Second).Unix()}
	for name, v := range claims {
		all[name] = v
	}
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := part(map[string]any{"typ": typ, "alg": "EdDSA"}) + "." + part(all)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

// call makes one call of the protocol.
func (b *pagesBank) call(method, path, token string, body any) (int, map[string]any) {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer := map[string]any{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		b.t.Fatalf("%s: HTTP %d: %v", path, response.StatusCode, err)
	}
	return response.StatusCode, answer
}

// token is one of the host, about an agent's key where there is one.
func (h *protocolHost) token(agent ed25519.PrivateKey) string {
	claims := map[string]any{"iss": thumbprint(h.bank.t, h.key), "aud": h.bank.url, "host_public_key": publicJWK(h.key)}
	if agent != nil {
		claims["agent_public_key"] = publicJWK(agent)
	}
	return signJWT(h.bank.t, h.key, "host+jwt", claims)
}

// register registers an agent that must be approved.
func (h *protocolHost) register(body map[string]any) *protocolAgent {
	h.bank.t.Helper()
	a := &protocolAgent{host: h, key: newEd25519(h.bank.t)}
	status, answer := h.bank.call(http.MethodPost, "/agent/register", h.token(a.key), body)
	a.id, _ = answer["agent_id"].(string)
	if status != http.StatusOK && status != http.StatusCreated || a.id == "" {
		h.bank.t.Fatalf("register: HTTP %d %v", status, answer)
	}
	a.asked(answer)
	return a
}

func (a *protocolAgent) asked(answer map[string]any) {
	approval, _ := answer["approval"].(map[string]any)
	a.code, _ = approval["user_code"].(string)
}

func (a *protocolAgent) token(audience string) string {
	return signJWT(a.host.bank.t, a.key, "agent+jwt", map[string]any{
		"iss": thumbprint(a.host.bank.t, a.host.key), "sub": a.id, "aud": audience,
	})
}

// ask asks for more.
func (a *protocolAgent) ask(reason string, capabilities ...any) (int, map[string]any) {
	b := a.host.bank
	b.t.Helper()
	status, answer := b.call(http.MethodPost, "/agent/request-capability", a.token(b.url), map[string]any{"capabilities": capabilities, "reason": reason})
	a.asked(answer)
	return status, answer
}

// execute executes, and returns the HTTP status with the answer.
func (a *protocolAgent) execute(capability string, arguments map[string]any) (int, map[string]any) {
	b := a.host.bank
	b.t.Helper()
	return b.call(http.MethodPost, "/capability/execute", a.token(b.url+"/capability/execute"), map[string]any{"capability": capability, "arguments": arguments})
}

// status returns the state of the agent, and of its grants by capability.
func (a *protocolAgent) status() (string, map[string]string, map[string]any) {
	b := a.host.bank
	b.t.Helper()
	_, answer := b.call(http.MethodGet, "/agent/status?agent_id="+a.id, a.host.token(nil), nil)
	grants, constraints := map[string]string{}, map[string]any{}
	list, _ := answer["agent_capability_grants"].([]any)
	for _, one := range list {
		g, _ := one.(map[string]any)
		name, _ := g["capability"].(string)
		grants[name], _ = g["status"].(string)
		constraints[name] = g["constraints"]
	}
	state, _ := answer["status"].(string)
	return state, grants, constraints
}

// limited is a capability with constraints, as it is asked for.
func limited(capability string, constraints map[string]any) map[string]any {
	return map[string]any{"name": capability, "constraints": constraints}
}

// approvalID is the id of the request that waits for a built-in user, by its code.
func (b *pagesBank) approvalID(user, code string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+"/v1/approvals/"+code, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Powerbox-Dev-User", user)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || !strings.HasPrefix(answer.ID, "apr_") {
		b.t.Fatalf("code %s: HTTP %d %v", code, response.StatusCode, err)
	}
	return answer.ID
}
