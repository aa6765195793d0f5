package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// operatorTokenEnv holds the operator's token where the server's directory is
// on another machine.
const operatorTokenEnv = "POWERBOX_OPERATOR_TOKEN"

// callTimeout bounds one call of a verb. Streams are not for verbs.
const callTimeout = time.Minute

// operatorFlags say which running server an operator's verb talks to.
type operatorFlags struct {
	file   string
	server string
}

func addOperatorFlags(cmd *cobra.Command) *operatorFlags {
	var o operatorFlags
	cmd.Flags().StringVarP(&o.file, "config", "c", defaultConfig, "configuration `file` of the server")
	cmd.Flags().StringVar(&o.server, "server", "", "`URL` of the server; issuer.url of the configuration where absent")
	return &o
}

// operator is the interface of a running server, for operators.
type operator struct {
	base  string
	token string
	http  *http.Client
	now   func() time.Time
}

// operator finds the server and the token. The configuration is read for what
// neither flags nor environment say.
func (p *program) operator(o *operatorFlags) (*operator, error) {
	op := &operator{base: strings.TrimRight(o.server, "/"), token: p.env(operatorTokenEnv), http: newHTTPClient(), now: p.now}
	if op.base == "" || op.token == "" {
		c, err := p.loadConfig(o.file)
		if err != nil {
			return nil, fmt.Errorf("%w\nname the server with --server and its token with %s, or the configuration with --config", err, operatorTokenEnv)
		}
		if op.base == "" {
			op.base = c.Issuer.URL
		}
		if op.token == "" {
			if op.token, err = operatorToken(c); err != nil {
				return nil, err
			}
		}
	}
	return op, safeForToken(op.base)
}

// operatorToken reads the token that the server made when it first started.
func operatorToken(c *config.Config) (string, error) {
	name := filepath.Join(string(c.Issuer.Directory), "keys", "operator.secret")
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s yet; start the server once with powerbox serve, or set %s", name, operatorTokenEnv)
	}
	return strings.TrimSpace(string(data)), err
}

// safeForToken refuses to send the operator's token in the clear over a
// network.
func safeForToken(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return usage(fmt.Errorf("the server %q is not a URL; want one such as https://powerbox.example.org", base))
	}
	if u.Scheme == "https" || loopbackHost(u.Hostname()) {
		return nil
	}
	return usage(fmt.Errorf("the server %s is reached without TLS over a network, where the operator's token could be read; want https", base))
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newHTTPClient is what verbs call agents and servers with.
func newHTTPClient() *http.Client {
	policy := upstreamPolicy()
	return &http.Client{
		Transport:     outbound.New(policy).Transport(),
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// loadConfig reads the configuration as serve does.
func (p *program) loadConfig(file string) (*config.Config, error) {
	return config.Load(file, os.ReadFile, os.Environ())
}

// errNotThere says that the server has nothing of that name.
var errNotThere = errors.New("there is nothing of that id")

// get reads one answer of the server.
func (o *operator) get(ctx context.Context, path string, into any) error {
	return o.call(ctx, http.MethodGet, path, nil, into)
}

// call makes one call. A nil body sends none.
func (o *operator) call(ctx context.Context, method, path string, body, into any) error {
	response, err := o.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s%s is not understood: %w", o.base, path, err)
	}
	return nil
}

// open makes one call and leaves the body of a good answer to the caller.
func (o *operator) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, o.base+path, payload)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
	response, err := o.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w; %s", err, unanswered(err))
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	var problem struct {
		Detail string `json:"detail"`
	}
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // what can be had of the explanation
	_ = json.Unmarshal(data, &problem)
	if response.StatusCode == http.StatusNotFound && problem.Detail == errNotThere.Error() {
		return nil, errNotThere
	}
	if problem.Detail == "" {
		problem.Detail = "HTTP status " + response.Status
	}
	return nil, fmt.Errorf("%s%s: %s", o.base, path, problem.Detail)
}

// ownAuthority is what mends a certificate that nobody here trusts.
const ownAuthority = "if its authority is your own, name the authority's PEM file in SSL_CERT_FILE"

// unanswered is what would mend that a server was not reached.
func unanswered(err error) string {
	if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
		if unknown := (x509.UnknownAuthorityError{}); errors.As(wrong.Err, &unknown) {
			return ownAuthority
		}
		return "its certificate has to be for that host, and of now"
	}
	return "is powerbox serve running there?"
}

// agentStatus is an agent as the server tells it.
type agentStatus struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Upstream string `json:"upstream"`
	Mode     string `json:"mode"`
	Frozen   bool   `json:"frozen,omitempty"`
	Canary   int    `json:"canary"`
	Rules    []struct {
		Caller string `json:"caller,omitempty"`
		Grant  string `json:"grant,omitempty"`
		Mode   string `json:"mode"`
		Canary int    `json:"canary"`
	} `json:"rules,omitempty"`
	Set        bool   `json:"set,omitempty"`
	Degraded   string `json:"degraded,omitempty"`
	Unrecorded int64  `json:"unrecorded,omitempty"`
}

func (o *operator) agents(ctx context.Context) ([]agentStatus, error) {
	var agents []agentStatus
	err := o.get(ctx, "/v1/agents", &agents)
	return agents, err
}

// printJSON writes one value as a line of JSON.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
