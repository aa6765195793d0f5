package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/token"
)

// guardToken is what the program shows that asks in the words of AuthZEN.
const guardToken = "token-of-the-program-0123456789abcdef"

const (
	message  = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[{"data":{"skill":"read_note","arguments":{"title":"a"}}}]}}}`
	question = `{"subject":{"type":"agent","id":"assistant"},"action":{"name":"read_note","properties":{"arguments":{"title":"a"}}},"resource":{"type":"agent","id":"notes"}}`
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

// town is the servers of one run.
type town struct {
	dir       string
	url       string // of Powerbox
	own       string // host:port that tells how long its own decision takes
	any       string // host:port of the door that answers HTTP too
	key       *token.PrivateKey
	doors     map[string]auth.AuthorizationClient // of grpc-go
	thin      map[string]auth.AuthorizationClient
	processes []*exec.Cmd
	client    *http.Client
	proofs    atomic.Int64
	closes    []func() error
}

func newTown(ctx context.Context, dir string) (t *town, err error) {
	t = &town{dir: dir, doors: map[string]auth.AuthorizationClient{}, thin: map[string]auth.AuthorizationClient{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	ports, err := free(8)
	if err != nil {
		return t, err
	}
	main, door, agent := ports[0], ports[1], ports[5]
	t.url, t.own, t.any = "http://"+main, ports[2], ports[6]
	if err := t.agent(ctx, agent); err != nil {
		return t, err
	}
	if t.key, err = token.GenerateKey(token.Ed25519, rand.Reader); err != nil {
		return t, err
	}
	text := strings.NewReplacer("@LISTEN", main, "@DIR", dir, "@KEY", t.key.Public().Thumbprint(), "@NOTES", agent, "@DOOR", door, "@ANY", ports[6]).Replace(configuration)
	for name, content := range map[string]string{"powerbox.yaml": text, "guard.token": guardToken + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return t, err
		}
	}
	for _, c := range []struct {
		name, at string
		args     []string
	}{
		{verbPowerbox, door, []string{verbPowerbox, t.own}},
		{anyForm, ports[6], nil},
		{synced, ports[3], []string{verbOPA, ports[3], synced}},
		{"console", ports[4], []string{verbOPA, ports[4], "console"}},
		{nothing, ports[7], []string{verbOPA, ports[7], nothing}},
	} {
		if c.args != nil {
			p, err := child(ctx, dir, c.args...)
			if err != nil {
				return t, err
			}
			t.processes = append(t.processes, p)
		}
		verb := verbPowerbox
		if c.args != nil {
			verb = c.args[0]
		}
		if err := t.listens(ctx, verb, c.at); err != nil {
			return t, err
		}
		conn, err := grpc.NewClient(c.at, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return t, err
		}
		direct := newThin(c.at)
		t.closes = append(t.closes, conn.Close, direct.close)
		t.doors[c.name], t.thin[c.name] = auth.NewAuthorizationClient(conn), direct
	}
	return t, t.listens(ctx, verbPowerbox, t.own)
}

// agent serves the card of the agent. No call reaches it.
func (t *town) agent(ctx context.Context, at string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, card, at) })}
	go func() { _ = s.Serve(l) }() // until it is closed
	t.closes = append(t.closes, s.Close)
	return nil
}

// free are addresses on loopback that are free now.
func free(n int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		out[i] = l.Addr().String()
	}
	return out, nil
}

// listens waits until a process takes connections.
func (t *town) listens(ctx context.Context, name, at string) error {
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the measuring itself takes seconds
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at); err == nil {
			return c.Close()
		}
	}
	log, _ := os.ReadFile(filepath.Join(t.dir, name+".log")) // for the message
	return fmt.Errorf("%s does not listen on %s\n%s", name, at, log)
}

func (t *town) close() (err error) {
	for _, f := range t.closes {
		err = errors.Join(err, f())
	}
	for _, p := range t.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait() // how it ended is in its log
	}
	return err
}

// contestants are the rows, of which the first is the gateway's own decision.
func (t *town) contestants() []row {
	return []row{
		{name: "the gateway's own", ask: t.decides},
		{name: "ext_authz over gRPC, `grpc_only`", ask: t.checks(t.thin, verbPowerbox), goal: true},
		{name: "ext_authz over gRPC, `grpc_only`, asked by grpc-go's client", ask: t.checks(t.doors, verbPowerbox)},
		{name: "ext_authz over gRPC, at a door that answers HTTP too", ask: t.checks(t.thin, anyForm)},
		{name: "ext_authz over HTTP", ask: t.checksHTTP, goal: true},
		{name: "AuthZEN", ask: t.evaluates, goal: true},
		{name: "OPA by ext_authz over gRPC, decision log synced", ask: t.checks(t.thin, synced)},
		{name: "OPA by ext_authz over gRPC, decision log not synced", ask: t.checks(t.thin, "console")},
		{name: "a call of gRPC that decides nothing", ask: t.checks(t.thin, nothing)},
	}
}

// proof is a fresh one of the sender.
func (t *town) proof() (string, error) {
	return token.SignDPoP(t.key, token.DPoPRequest{Method: http.MethodPost, URL: t.url + "/agents/notes", Now: time.Now()}, fmt.Sprintf("proof-%d-%d", t.proofs.Add(1), time.Now().UnixNano()))
}

// checks asks by ext_authz, with one of the clients.
func (t *town) checks(clients map[string]auth.AuthorizationClient, door string) asking {
	return func(n int) (func(context.Context) (time.Duration, error), error) {
		proof, err := t.proof()
		if err != nil {
			return nil, err
		}
		body := fmt.Sprintf(message, n)
		r := &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{
			Method: http.MethodPost, Host: "edge.example.com", Path: "/agents/notes", RawBody: []byte(body), Headers: map[string]string{
				":method": http.MethodPost, ":path": "/agents/notes", "content-type": "application/json", "a2a-version": "1.0", "dpop": proof,
				"content-length": fmt.Sprint(len(body)), "x-envoy-auth-partial-body": "false", "x-request-id": fmt.Sprint(n), "user-agent": "bench", "accept": "application/json",
			},
		}}}}
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			a, err := clients[door].Check(ctx, r)
			took := time.Since(began)
			if err == nil && a.GetStatus().GetCode() != int32(codes.OK) {
				err = fmt.Errorf("denied: %v", a)
			}
			return took, err
		}, nil
	}
}

// checksHTTP asks by ext_authz over HTTP: by the request itself, below a prefix.
func (t *town) checksHTTP(n int) (func(context.Context) (time.Duration, error), error) {
	proof, err := t.proof()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (time.Duration, error) {
		h := http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Dpop": {proof}, "X-Envoy-Auth-Partial-Body": {"false"}}
		took, answer, _, err := t.post(ctx, "http://"+t.any+"/ext_authz/agents/notes", fmt.Sprintf(message, n), h)
		if err == nil && answer.Get(gateway.HeaderDecision) == "" {
			err = errors.New("the answer of the door names no decision")
		}
		return took, err
	}, nil
}

// decides has the gateway decide, and takes its own time.
func (t *town) decides(n int) (func(context.Context) (time.Duration, error), error) {
	proof, err := t.proof()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (time.Duration, error) {
		h := http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Dpop": {proof}}
		_, answer, _, err := t.post(ctx, "http://"+t.own+"/agents/notes", fmt.Sprintf(message, n), h)
		if err != nil {
			return 0, err
		}
		return time.ParseDuration(answer.Get(headerTook))
	}, nil
}

// evaluates asks by the words of AuthZEN.
func (t *town) evaluates(int) (func(context.Context) (time.Duration, error), error) {
	return func(ctx context.Context) (time.Duration, error) {
		h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + guardToken}}
		took, _, body, err := t.post(ctx, t.url+"/access/v1/evaluation", question, h)
		var said struct{ Decision bool }
		if err == nil {
			err = json.Unmarshal(body, &said)
		}
		if err == nil && !said.Decision {
			err = fmt.Errorf("denied: %s", body)
		}
		return took, err
	}, nil
}

func (t *town) post(ctx context.Context, url, body string, h http.Header) (took time.Duration, answer http.Header, said []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header = h
	began := time.Now()
	a, err := t.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = a.Body.Close() }() // it was read
	said, err = io.ReadAll(a.Body)
	took = time.Since(began)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, a.StatusCode, said)
	}
	return took, a.Header, said, err
}
