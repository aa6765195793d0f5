package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/token"
)

// town is the real binary in front of an agent, with what its callers hold.
type town struct {
	folder    string
	binary    string // powerbox itself
	agent     *process
	server    *process
	address   string // of the server
	upstream  string // address of the agent
	grpc      string // address of the server's gRPC, "" for none
	tls       *tls.Config
	client    *http.Client
	processes []*process
}

const sessionToken = "a-session-of-alice"

const townConfiguration = `listen: %s
issuer:
  url: https://%[1]s
  tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}
identity:
  dev:
    - {name: alice, token: ` + sessionToken + `}
agents:
  - id: documents
    upstream: http://%s
    mode: require
%s
offers:
  documents:
    - {id: documents:read, operations: [retrieve], maximum_depth: 3}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read,
       arguments: {note: {constraint_type: wildcard}, resourceHandle: {constraint_type: wildcard}}}
resources:
  documents:
    items:
      - {collection: reports, id: /vault/q1-financial.pdf, name: Q1 Financial Summary}
policies: [policies.cedar]
evidence: {%s}
%s
# One caller makes all calls, as fast as it can, and each is to have its record.
defaults: {request_rate: 0}
limits: {denials: 0, streams: 1000, header_time: 1m}
`

const townPolicies = `permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
`

// plan is how a town is set up.
type plan struct {
	binary   string // powerbox; "" builds that of this tree
	role     string // of the agent
	agent    string // further lines of its configuration; %s in them is the address of gRPC
	evidence string // members of the section evidence
	lines    string // further sections
	migrate  bool   // the store has no schema yet
}

// newTown builds the binary and starts it in front of an agent of that role.
func newTown(ctx context.Context, dir, role, agentLines, evidence string) (t *town, err error) {
	return newTownOf(ctx, dir, plan{role: role, agent: agentLines, evidence: evidence})
}

// newTownOf starts a town by its plan.
func newTownOf(ctx context.Context, dir string, p plan) (t *town, err error) {
	t = &town{binary: p.binary}
	if t.folder, err = os.MkdirTemp(dir, "bench"); err != nil {
		return nil, err
	}
	if err := t.start(ctx, p); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *town) start(ctx context.Context, p plan) error {
	if err := t.certify(); err != nil {
		return err
	}
	var err error
	if err = t.program(ctx); err != nil {
		return err
	}
	if t.upstream, err = freeport.Lasting(); err != nil {
		return err
	}
	if t.address, err = freeport.Lasting(); err != nil {
		return err
	}
	if t.agent, err = t.peer(ctx, p.role, p.role, t.upstream); err != nil {
		return err
	}
	agentLines := p.agent
	if strings.Contains(agentLines, "%s") {
		if t.grpc, err = freeport.Lasting(); err != nil {
			return err
		}
		agentLines = fmt.Sprintf(agentLines, t.grpc)
	}
	for name, text := range map[string]string{
		"powerbox.yaml": fmt.Sprintf(townConfiguration, t.address, t.upstream, agentLines, p.evidence, p.lines), "policies.cedar": townPolicies,
	} {
		if err := os.WriteFile(filepath.Join(t.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if p.migrate {
		migrate := exec.CommandContext(ctx, t.binary, "migrate", "up") //nolint:gosec // the words are ours
		migrate.Dir, migrate.Env = t.folder, append(os.Environ(), "XDG_DATA_HOME="+t.folder, "XDG_CONFIG_HOME="+t.folder)
		if text, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("powerbox migrate up: %w\n%s", err, text)
		}
	}
	t.server, err = t.run(ctx, "powerbox", t.address, t.binary, "serve", "--dev")
	return err
}

// program builds the binary of this tree, unless the plan named one.
func (t *town) program(ctx context.Context) (err error) {
	if t.binary == "" {
		t.binary, err = t.build(ctx, "..", "powerbox", "./cmd/powerbox")
	}
	return err
}

// build makes a program of a module.
func (t *town) build(ctx context.Context, module, name, what string) (string, error) {
	out := filepath.Join(t.folder, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-o", out, what) //nolint:gosec // the words are ours
	cmd.Dir = module
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, text)
	}
	return out, nil
}

// peer starts this program in a role.
func (t *town) peer(ctx context.Context, name, role, listen string, more ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return t.run(ctx, name, listen, append([]string{self, peerVerb, role, listen}, more...)...)
}

func (t *town) run(ctx context.Context, name, listen string, command ...string) (*process, error) {
	p, err := startProcess(ctx, t.folder, name, listen, command...)
	if err == nil {
		t.processes = append(t.processes, p)
	}
	return p, err
}

// close ends everything that was started and forgets it.
func (t *town) close() error {
	var err error
	for i := len(t.processes) - 1; i >= 0; i-- {
		err = errors.Join(err, t.processes[i].stop())
	}
	return errors.Join(err, os.RemoveAll(t.folder))
}

// certify makes an authority, a certificate for the servers and one for the
// callers.
func (t *town) certify() error {
	ca, caKey, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "bench"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		return err
	}
	server, serverKey, err := certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, ca, caKey)
	if err != nil {
		return err
	}
	client, clientKey, err := certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: ca.Raw}, "server.pem": {Type: "CERTIFICATE", Bytes: server.Raw}, "server.key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(t.folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	t.tls = &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey}},
	}
	t.client = &http.Client{Transport: &http.Transport{TLSClientConfig: t.tls.Clone(), MaxIdleConnsPerHost: connections}, Timeout: 30 * time.Second}
	return nil
}

func certificate(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, err
	}
	c, err := x509.ParseCertificate(der)
	return c, key, err
}

func (t *town) agentURL() string { return "https://" + t.address + "/agents/documents" }

// wanted are the grants that every caller asks for.
var wanted = holder.RequestParams{
	Grants: []string{"documents:read"}, Purpose: "Measure",
	Query: powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")}),
}

// reference is a capability that the certificate holds by reference.
func (t *town) reference(ctx context.Context) (id, handle string, err error) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["documents:read"],"purpose":"Measure","resourceQuery":{"collection":"reports"}}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.agentURL(), bytes.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + sessionToken}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	response, err := t.client.Do(r)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", err
	}
	var answer struct {
		Result struct {
			Capabilities []struct {
				ID              string
				ResourceHandles []struct{ Handle string }
			}
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", "", fmt.Errorf("%w: %s", err, raw)
	}
	if c := answer.Result.Capabilities; len(c) == 1 && len(c[0].ResourceHandles) == 1 {
		return c[0].ID, c[0].ResourceHandles[0].Handle, nil
	}
	return "", "", fmt.Errorf("no capability was given: %s", raw)
}

// keyed is a holder with a key, and the agent as it sees it.
func (t *town) keyed(ctx context.Context) (*holder.Client, holder.Agent, error) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		return nil, holder.Agent{}, err
	}
	c := &holder.Client{
		Key: key, HTTP: t.client, Now: time.Now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return sessionToken, nil },
	}
	a, err := c.Discover(ctx, t.agentURL())
	return c, a, err
}

// chain is a capability of three links: what the issuer gave, narrowed twice.
func chain(ctx context.Context, c *holder.Client, a holder.Agent) (holder.Capability, error) {
	given, err := c.Request(ctx, a, wanted)
	if err != nil {
		return holder.Capability{}, err
	}
	held := given[0]
	for depth := 1; depth >= 0; depth-- {
		if held, err = c.Narrow(held, holder.Narrowing{Expires: held.Expires.Add(-time.Second), Depth: depth}); err != nil {
			return holder.Capability{}, err
		}
	}
	return held, nil
}
