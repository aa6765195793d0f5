package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// The peer of the Agent Auth rows, and what npm installs for it.
var (
	//go:embed agentauth/server.mjs
	betterServer []byte
	//go:embed agentauth/package.json
	betterPackage []byte
	//go:embed agentauth/lock.json
	betterLock []byte
)

// bankConfiguration is ours: the same capability, and no limits of rates, since one host
// asks for everything.
const bankConfiguration = `listen: %[1]s
issuer: {url: "http://%[1]s"}
evidence: {signatures: %[3]s}
identity: {dev: [{name: root, token: a-session-of-root}]}
agents:
  - id: bank
    upstream: http://%[2]s
    mode: require
    agent_auth:
      provider_name: bank
      administrators: ["user:root"]
      requests: 0
      unknown_hosts: 0
      questions: 0
      executions: 0
      host_executions: 0
      user_executions: 0
      capabilities:
        - name: check_balance
          description: See the balance of one account
          sensitivity: read
          default: true
          input: {type: object, required: [account_id], properties: {account_id: {type: string}}}
limits: {denials: 0}
`

// accounts is a server of the protocol with a host that it knows, and whose agents
// it lets in at once.
type accounts struct {
	name    string
	process *process
	address string
	base    string // path of the protocol's own paths
	host    edKey
	agent   edKey
	agentID string
}

// edKey is an Ed25519 key as in the protocol.
type edKey struct {
	private ed25519.PrivateKey
	jwk     map[string]any
	id      string // thumbprint
}

func newEdKey() (edKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return edKey{}, err
	}
	x := base64.RawURLEncoding.EncodeToString(public)
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	id := base64.RawURLEncoding.EncodeToString(sum[:])
	return edKey{private, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id}, id}, nil
}

// sign makes a token of that type, good for a minute.
func (k edKey) sign(typ string, claims map[string]any) (string, error) {
	now := time.Now().Unix()
	claims["iat"], claims["exp"], claims["jti"] = now, now+60, rand.Text()
	head, err := json.Marshal(map[string]string{"alg": "EdDSA", "typ": typ, "kid": k.id})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	input := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	return input + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.private, []byte(input))), nil
}

func (a *accounts) issuer() string { return "http://" + a.address + a.base }

// raw is a call of the protocol.
func (a *accounts) raw(path, compact string, body []byte) []byte {
	return append(fmt.Appendf(nil, "POST %s%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		a.base, path, a.address, compact, len(body)), body...)
}

// registering is a registration of a new agent, under a key that the server has never seen.
func (a *accounts) registering() ([]byte, edKey, error) {
	key, err := newEdKey()
	if err != nil {
		return nil, key, err
	}
	compact, err := a.host.sign("host+jwt", map[string]any{"iss": a.host.id, "aud": a.issuer(), "host_public_key": a.host.jwk, "agent_public_key": key.jwk})
	return a.raw("/agent/register", compact, []byte(`{"name":"Agent","mode":"delegated","capabilities":["check_balance"],"reason":"Measure"}`)), key, err
}

// executing is an execution, under its own token. It has no iss, as the protocol's
// own client makes it: better-auth's server takes the id of its row there, and not the
// thumbprint of the specification.
func (a *accounts) executing() ([]byte, error) {
	compact, err := a.agent.sign("agent+jwt", map[string]any{"sub": a.agentID, "aud": a.issuer() + "/capability/execute"})
	return a.raw("/capability/execute", compact, []byte(`{"capability":"check_balance","arguments":{"account_id":"acc_123"}}`)), err
}

// begin makes the host known to anyone who has it become a user's, and registers the
// agent that executes.
func (a *accounts) begin(ctx context.Context, known func() error) (err error) {
	if a.host, err = newEdKey(); err != nil {
		return err
	}
	if err := known(); err != nil {
		return err
	}
	raw, key, err := a.registering()
	if err != nil {
		return err
	}
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	_, compact, _ := bytes.Cut(head, []byte("Bearer "))
	compact, _, _ = bytes.Cut(compact, []byte("\r\n"))
	var answer struct {
		Status string `json:"status"`
		Agent  string `json:"agent_id"`
	}
	if err := post(ctx, http.DefaultClient, a.issuer()+"/agent/register", map[string]string{"Authorization": "Bearer " + string(compact)}, body, &answer); err != nil {
		return err
	}
	if answer.Status != "active" {
		return fmt.Errorf("%s: the agent is %q; want it active at once", a.name, answer.Status)
	}
	a.agent, a.agentID = key, answer.Agent
	return nil
}

func post(ctx context.Context, client *http.Client, to string, header map[string]string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP %d %.300s", to, response.StatusCode, data)
	}
	return json.Unmarshal(data, into)
}

// fronts are the contestants of the two rows.
func (a *accounts) fronts(registrations, executions int) []*front {
	of := func(what, want string, calls int, next func() ([]byte, error)) *front {
		var requests [][]byte
		return &front{
			name: a.name + " " + what, process: a.process, load: load{address: a.address, want: []byte(want)}, calls: calls,
			request: func(i int) []byte { return requests[i] },
			fresh: func(n int) error {
				requests = requests[:0]
				for range n {
					raw, err := next()
					if err != nil {
						return err
					}
					requests = append(requests, raw)
				}
				return nil
			},
		}
	}
	return []*front{
		of("register", `"status":"active"`, registrations, func() ([]byte, error) { raw, _, err := a.registering(); return raw, err }),
		of("execute", `4280.13`, executions, a.executing),
	}
}

// The contestants of the Agent Auth rows.
const (
	ourAccounts    = "Agent Auth" // every record signed, which is the default
	ourBatched     = "Agent Auth, records under their batch's signature:"
	betterAccounts = "better-auth" // the capability is a function of its own process
	betterAsking   = "better-auth, a service behind:"
)

// agentAuthRows starts both servers and adds their trials.
func (f *field) agentAuthRows(ctx context.Context) error {
	var fronts []*front
	for _, of := range []struct {
		executions int
		start      func(*town) (*accounts, error)
	}{
		{1500, func(t *town) (*accounts, error) { return t.ourAccounts(ctx, ourAccounts, "record") }},
		{1500, func(t *town) (*accounts, error) { return t.ourAccounts(ctx, ourBatched, "batch") }},
		{300, func(t *town) (*accounts, error) { return t.betterAccounts(ctx, betterAccounts, false) }},
		{300, func(t *town) (*accounts, error) { return t.betterAccounts(ctx, betterAsking, true) }},
	} {
		folder, err := os.MkdirTemp(f.dir, "bench")
		if err != nil {
			return err
		}
		t := &town{folder: folder}
		f.closers = append(f.closers, t.close)
		a, err := of.start(t)
		if err != nil {
			return err
		}
		fronts = append(fronts, a.fronts(max(of.executions/4, 200), of.executions)...)
	}
	f.peers = append(f.peers, "@better-auth/agent-auth 0.6.2 on better-auth 1.6.11 and better-sqlite3 12.4.1 (npm)")
	for _, front := range fronts {
		f.trials = append(f.trials, front.cpuTrial())
	}
	return nil
}

// ourAccounts is powerbox serve with its service behind it.
func (t *town) ourAccounts(ctx context.Context, name, signatures string) (*accounts, error) {
	if err := t.program(ctx); err != nil {
		return nil, err
	}
	upstream, err := t.service(ctx)
	if err != nil {
		return nil, err
	}
	a := &accounts{name: name}
	if a.address, err = freeport.Lasting(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(t.folder, "powerbox.yaml"), fmt.Appendf(nil, bankConfiguration, a.address, upstream, signatures), 0o600); err != nil {
		return nil, err
	}
	if a.process, err = t.run(ctx, "powerbox", a.address, t.binary, "serve", "--dev"); err != nil {
		return nil, err
	}
	return a, a.begin(ctx, func() error {
		body, err := json.Marshal(map[string]any{"name": "bench", "user": "user:root", "public_key": a.host.jwk})
		if err != nil {
			return err
		}
		return post(ctx, http.DefaultClient, a.issuer()+"/v1/hosts", map[string]string{"Powerbox-Dev-User": "root"}, body, new(any))
	})
}

// service starts what executes the capability.
func (t *town) service(ctx context.Context) (address string, err error) {
	if address, err = freeport.Lasting(); err != nil {
		return "", err
	}
	_, err = t.peer(ctx, "balance", "balance", address)
	return address, err
}

// betterAccounts is better-auth's server, with what npm installs for it kept between
// runs, with its service behind it, if there is one.
func (t *town) betterAccounts(ctx context.Context, name string, service bool) (*accounts, error) {
	program, err := installBetter(ctx)
	if err != nil {
		return nil, err
	}
	a := &accounts{name: name, base: "/api/auth"}
	if a.address, err = freeport.Lasting(); err != nil {
		return nil, err
	}
	command := []string{"node", program, a.address, t.folder}
	if service {
		address, err := t.service(ctx)
		if err != nil {
			return nil, err
		}
		command = append(command, "http://"+address)
	}
	if a.process, err = t.run(ctx, "better-auth", a.address, command...); err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar, Timeout: 30 * time.Second}
	return a, a.begin(ctx, func() error {
		origin := map[string]string{"Origin": (&url.URL{Scheme: "http", Host: a.address}).String()}
		if err := post(ctx, client, a.issuer()+"/sign-up/email", origin, []byte(`{"name":"Root","email":"root@example.com","password":"a long password"}`), new(any)); err != nil {
			return err
		}
		body, err := json.Marshal(map[string]any{"name": "bench", "public_key": a.host.jwk})
		if err != nil {
			return err
		}
		return post(ctx, client, a.issuer()+"/host/create", origin, body, new(any))
	})
}

// installBetter has npm install the peer, once for a lock file, and returns its
// program.
func installBetter(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(append([]byte{}, betterLock...), betterPackage...))
	folder := filepath.Join(cache, "powerbox-bench", "agent-auth-"+hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // packages of others, for everybody
		return "", err
	}
	for name, data := range map[string][]byte{"package.json": betterPackage, "package-lock.json": betterLock, "server.mjs": betterServer} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil { //nolint:gosec // as above
			return "", err
		}
	}
	program := filepath.Join(folder, "server.mjs")
	done := filepath.Join(folder, "installed")
	if _, err := os.Stat(done); err == nil {
		return program, nil
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = folder
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("npm ci for better-auth, in %s: %w\n%s", folder, err, said))
	}
	return program, os.WriteFile(done, nil, 0o600)
}

// balance answers every call with the same balance.
func balance() http.Handler {
	answer := []byte(`{"data":{"balance":4280.13,"currency":"USD"}}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // when the client has gone, no one can be told
	})
}

// agentAuthGoals are the rows of Agent Auth.
func agentAuthGoals() []goal {
	return []goal{
		faster("Agent Auth: execute through a service behind, two signed records", ourAccounts+" execute", betterAsking+" execute", 10),
		faster("Agent Auth: the same, two records under their batch's signature", ourBatched+" execute", betterAsking+" execute", 10),
		faster("Agent Auth: the same, two signed records, where the peer answers itself", ourAccounts+" execute", betterAccounts+" execute", 10),
		faster("Agent Auth: the same, two records under their batch's signature, where the peer answers itself", ourBatched+" execute", betterAccounts+" execute", 10),
		faster("Agent Auth: register with a default capability, on record", ourAccounts+" register", betterAccounts+" register", 10),
	}
}
