package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/open-policy-agent/opa/v1/sdk"

	"github.com/powerbox-project/powerbox/bench/internal/opa"
	"github.com/powerbox-project/powerbox/internal/freeport"
)

// An edge is a setup that a user could run instead of the gateway: it authorizes each call by
// a bearer token, and keeps a durable record of it.
const (
	edgeOPA = "Caddy with OPA"
	edgeJWT = "Caddy with JWTs"
)

// The claims of a token that an edge accepts.
const (
	edgeIssuer   = "https://issuer.example"
	edgeAudience = "documents"
	edgeGrant    = "documents:read"
)

// edgeCaddyfile is for both edges. Caddy speaks HTTP/1.1 alone, as the callers do, keeps a
// connection for each of them, and logs errors only.
const edgeCaddyfile = `{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
	servers {
		protocols h1
		strict_sni_host insecure_off
	}
}
(kept) {
	transport http {
		keepalive_idle_conns_per_host 256
		compression off
	}
}
https://@LISTEN {
	tls server.pem server.key {
		client_auth {
			mode verify_if_given
			trust_pool file ca.pem
		}
	}
	@SITE
}
`

// siteOPA asks OPA before the call continues. The decision is on the disk before the answer of OPA.
const siteOPA = `forward_auth @OPA {
		uri /authorize
		import kept
	}
	reverse_proxy @UPSTREAM {
		import kept
	}`

// siteJWT checks the token in Caddy. The line of the access log is on the disk before the
// answer, and after the call.
const siteJWT = `log {
		output synced access.log
	}
	@granted {
		method POST
		path /agents/documents
		vars {http.auth.user.grant} documents:read
	}
	route {
		bearer_jwt {
			key issuer.pem
			issuer https://issuer.example
			audience documents
		}
		reverse_proxy @granted @UPSTREAM {
			import kept
		}
		respond 403
	}`

// policyOPA permits what the site of JWTs permits.
const policyOPA = `package powerbox

default allow := false

allow if {
	input.method == "POST"
	input.path == "/agents/documents"
	[valid, _, claims] := io.jwt.decode_verify(input.token, {"cert": %q, "alg": "EdDSA", "iss": "https://issuer.example", "aud": "documents"})
	valid
	claims.grant == "documents:read"
}
`

// edges starts both edges in front of the town's agent.
func (t *town) edges(ctx context.Context, caddy string) ([]*front, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	opaAt, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"issuer.pem": key, "policy.rego": fmt.Sprintf(policyOPA, key)} {
		if err := os.WriteFile(filepath.Join(t.folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	decides, err := t.peer(ctx, "opa", "opa", opaAt, "policy.rego", "decisions.log")
	if err != nil {
		return nil, err
	}
	one, err := t.edge(ctx, caddy, edgeOPA, strings.NewReplacer("@OPA", opaAt, "@UPSTREAM", t.upstream).Replace(siteOPA), "decisions.log")
	if err != nil {
		return nil, err
	}
	one.asked = []*process{decides}
	other, err := t.edge(ctx, caddy, edgeJWT, strings.ReplaceAll(siteJWT, "@UPSTREAM", t.upstream), "access.log")
	if err != nil {
		return nil, err
	}
	for _, f := range []*front{one, other} {
		if err := f.authorizes(private); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return []*front{one, other}, nil
}

// edge starts Caddy with a site. The log has a line for each call.
func (t *town) edge(ctx context.Context, caddy, name, site, log string) (*front, error) {
	listen, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	file := strings.ReplaceAll(name, " ", "-")
	text := strings.NewReplacer("@LISTEN", listen, "@SITE", site).Replace(edgeCaddyfile)
	if err := os.WriteFile(filepath.Join(t.folder, file), []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := t.run(ctx, file, listen, caddy, file)
	if err != nil {
		return nil, err
	}
	opened, err := os.Open(filepath.Join(t.folder, log))
	return &front{name: name, process: p, load: t.load(listen), calls: 4000, log: &growing{opened}}, err
}

// edgeClaims are those of a token for the agent.
type edgeClaims struct {
	jwt.RegisteredClaims

	Grant string `json:"grant"`
}

// edgeCall is a call with a token of these claims.
func edgeCall(host string, key ed25519.PrivateKey, change func(*edgeClaims)) ([]byte, error) {
	now := time.Now()
	c := &edgeClaims{Grant: edgeGrant, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: edgeIssuer, Audience: jwt.ClaimStrings{edgeAudience}, Subject: "user:alice", ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(24 * time.Hour)),
	}}
	change(c)
	text, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(key)
	return rawRequest(host, [][2]string{{"Authorization", "Bearer " + text}}, sendMessage("handle", "")), err
}

// authorizes gives f its request, after f has refused each call that must not pass.
func (f *front) authorizes(key ed25519.PrivateKey) error {
	wrong, err := wrongCalls(f.load.address, key)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		conns, err := f.load.dialAll(context.Background(), 1)
		if err != nil {
			return err
		}
		err = f.load.call(conns[0], wrong[name])
		if err == nil || !strings.Contains(err.Error(), " 401 ") && !strings.Contains(err.Error(), " 403 ") {
			return fmt.Errorf("%s: the answer must be 401 or 403: %w", name, errors.Join(err, closeConns(conns)))
		}
		if err := closeConns(conns); err != nil {
			return err
		}
	}
	raw, err := edgeCall(f.load.address, key, func(*edgeClaims) {})
	f.request = func(int) []byte { return raw }
	return err
}

// wrongCalls are those that an edge must refuse, by the fault.
func wrongCalls(host string, key ed25519.PrivateKey) (map[string][]byte, error) {
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	calls := map[string][]byte{"no token": rawRequest(host, nil, sendMessage("handle", ""))}
	for name, change := range map[string]func(*edgeClaims){
		"another issuer":   func(c *edgeClaims) { c.Issuer = "https://other.example" },
		"another audience": func(c *edgeClaims) { c.Audience = jwt.ClaimStrings{"other"} },
		"another grant":    func(c *edgeClaims) { c.Grant = "documents:write" },
		"expired":          func(c *edgeClaims) { c.ExpiresAt = jwt.NewNumericDate(time.Now().Add(-time.Minute)) },
	} {
		if calls[name], err = edgeCall(host, key, change); err != nil {
			return nil, err
		}
	}
	if calls["another key"], err = edgeCall(host, foreign, func(*edgeClaims) {}); err != nil {
		return nil, err
	}
	right, err := edgeCall(host, key, func(*edgeClaims) {})
	calls["another agent"] = bytes.Replace(right, []byte("/agents/documents"), []byte("/agents/payments"), 1)
	return calls, err
}

// growing counts the lines of a file that grows.
type growing struct{ file *os.File }

// more returns how many lines there are that it has not counted.
func (g *growing) more() (n int, err error) {
	part := make([]byte, 64<<10)
	for {
		size, err := g.file.Read(part)
		n += bytes.Count(part[:size], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// recorded makes n calls. It is an error if the log of f has not got a line for each when the
// last one is answered.
func (f *front) recorded(n int, calls func() error) error {
	if f.log == nil {
		return calls()
	}
	if _, err := f.log.more(); err != nil {
		return err
	}
	if err := calls(); err != nil {
		return err
	}
	got, err := f.log.more()
	if err == nil && got != n {
		err = fmt.Errorf("the log of %s has %d lines for %d calls", f.name, got, n)
	}
	return err
}

// serveOPA answers forward_auth by a policy. Each decision is on the disk before its answer.
func serveOPA(listen, policy, log string) error {
	text, err := os.ReadFile(policy) //nolint:gosec // the file that its parent names
	if err != nil {
		return err
	}
	engine, err := opa.Start(context.Background(), opa.Settings{Policy: string(text), Log: log, Synced: true})
	if err != nil {
		return err
	}
	s := &http.Server{Addr: listen, Handler: forwardAuth{engine}, ReadHeaderTimeout: time.Minute}
	return s.ListenAndServe()
}

// forwardAuth is the adapter between Caddy, which asks with headers, and OPA.
type forwardAuth struct{ engine *sdk.OPA }

// ServeHTTP implements [http.Handler].
func (a forwardAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	input := map[string]any{"method": r.Header.Get("X-Forwarded-Method"), "path": r.Header.Get("X-Forwarded-Uri"), "token": bearer}
	d, err := a.engine.Decision(r.Context(), sdk.DecisionOptions{Path: "/powerbox/allow", Input: input})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case d.Result != true:
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
