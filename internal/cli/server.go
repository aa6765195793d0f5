package cli

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

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// OperatorTokenEnv holds the operator's token where the server's directory is
// on another machine.
const OperatorTokenEnv = "POWERBOX_OPERATOR_TOKEN"

// CallTimeout bounds one call of a verb. An [Operator] gives each piece of an answer that time.
const CallTimeout = time.Minute

// OperatorFlags say which running server a verb talks to.
type OperatorFlags struct {
	File   string
	Server string
}

// AddOperatorFlags adds the flags of a running server to a command.
func AddOperatorFlags(cmd *cobra.Command) *OperatorFlags {
	var o OperatorFlags
	cmd.Flags().StringVarP(&o.File, "config", "c", DefaultConfig, "configuration `file` of the server")
	cmd.Flags().StringVar(&o.Server, "server", "", "`URL` of the server; default: issuer.url of the configuration, or the one server that you are logged in at")
	return &o
}

// ServerOf is the running server that a verb talks to. --server names it, or else the
// configuration. Without a configuration it is the one that the user is logged in at.
// The shared token of operators is for the server that its user names: it goes to none that
// only a login names.
func (p *Program) ServerOf(o *OperatorFlags) (string, error) {
	base := strings.TrimRight(o.Server, "/")
	if base == "" {
		c, err := p.LoadConfig(o.File)
		if errors.Is(err, os.ErrNotExist) && o.File == DefaultConfig && p.Env(OperatorTokenEnv) == "" {
			base, err = p.loggedInAt(err)
		} else if err == nil {
			base = c.Issuer.URL
		}
		if err != nil {
			return "", fmt.Errorf("%w\nname the server with --server, or the configuration with --config", err)
		}
	}
	return base, SafeForToken(base)
}

// Operator is the interface of a running server, for operators.
type Operator struct {
	Base  string
	Token string // "" to use the session of powerbox login
	HTTP  *http.Client
	Now   func() time.Time

	session func(ctx context.Context) (string, error)
}

// Operator finds the server and who calls it: by the shared token in the environment, by
// the session of powerbox login, or by the shared token in the server's directory. The
// session comes before that file, so that every change has a name.
func (p *Program) Operator(o *OperatorFlags) (*Operator, error) {
	base, err := p.ServerOf(o)
	if err != nil {
		return nil, err
	}
	op := &Operator{Base: base, Token: p.Env(OperatorTokenEnv), HTTP: NewHTTPClient(), Now: p.Now}
	if op.Token == "" {
		return op, p.authorize(op, o.File)
	}
	return op, nil
}

// authorize finds who calls, where the environment does not say.
func (p *Program) authorize(op *Operator, file string) error {
	_, err := p.LoadSession(op.Base)
	if err == nil {
		op.session = func(ctx context.Context) (string, error) { return p.sessionToken(ctx, op.Base) }
		return nil
	}
	c, unread := p.LoadConfig(file)
	switch {
	case !errors.Is(err, ErrNoSession) && p.Env("HOME")+p.Env("XDG_CONFIG_HOME") != "":
		return err
	case unread != nil:
		return fmt.Errorf("%w\nlog in: %s; or give the shared token with %s, or name the configuration with --config", unread, logInAt(op.Base), OperatorTokenEnv)
	case !c.Operators.Token:
		return fmt.Errorf("you are not logged in at %s, and the shared operator token is switched off (operators.token); %s", op.Base, logInAt(op.Base))
	}
	if op.Token, err = OperatorToken(c); err != nil && c.Operators.Login.ClientID != "" {
		return fmt.Errorf("you are not logged in at %s; %s. The shared token cannot be used: %w", op.Base, logInAt(op.Base), err)
	}
	return err
}

// OperatorToken reads the token that the server made when it first started.
func OperatorToken(c *config.Config) (string, error) {
	name := filepath.Join(string(c.Issuer.Directory), "keys", "operator.secret")
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s yet; start the server once with powerbox serve, or set %s", name, OperatorTokenEnv)
	}
	return strings.TrimSpace(string(data)), err
}

// SafeForToken refuses to send the operator's token in the clear over a
// network.
func SafeForToken(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return Usage(fmt.Errorf("the server %q is not a URL; want one such as https://powerbox.example.org", base))
	}
	if u.Scheme == "https" || LoopbackHost(u.Hostname()) {
		return nil
	}
	return Usage(fmt.Errorf("the server %s is reached without TLS over a network, where the operator's token could be read; want https", base))
}

// LoopbackHost reports a host name of this machine alone.
func LoopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewHTTPClient is what verbs call agents and servers with.
func NewHTTPClient() *http.Client {
	policy := outbound.Configured()
	return &http.Client{
		Transport:     outbound.New(policy).Transport(),
		Timeout:       CallTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// LoadConfig reads the configuration as serve does.
func (p *Program) LoadConfig(file string) (*config.Config, error) {
	c, err := config.Load(file, os.ReadFile, os.Environ())
	return c, absent(err)
}

// CheckConfig reads the configuration as serve does, and returns everything that is wrong.
func (p *Program) CheckConfig(file string) (*config.Config, config.Problems, error) {
	c, problems, err := config.Check(file, os.ReadFile, os.Environ())
	return c, problems, absent(err)
}

func absent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; correct the name, or write the file with powerbox init", err)
	}
	return err
}

// Get reads one answer of the server.
func (o *Operator) Get(ctx context.Context, path string, into any) error {
	return o.Call(ctx, http.MethodGet, path, nil, into)
}

// Call makes one call. A nil body sends none.
func (o *Operator) Call(ctx context.Context, method, path string, body, into any) error {
	response, err := o.Open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s%s is not understood: %w", o.Base, path, err)
	}
	return nil
}

// Open makes one call and leaves the body of a good answer to the caller.
func (o *Operator) Open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, o.Base+path, payload)
	if err != nil {
		return nil, err
	}
	bearer := o.Token
	if bearer == "" && o.session != nil {
		if bearer, err = o.session(ctx); err != nil {
			return nil, err
		}
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := patientAs(o.HTTP, CallTimeout).do(request)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w; %s", err, Unanswered(err))
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
	if response.StatusCode == http.StatusNotFound && problem.Detail == audit.ErrNotThere.Error() {
		return nil, audit.ErrNotThere
	}
	if problem.Detail == "" {
		problem.Detail = "HTTP status " + response.Status
	}
	err = fmt.Errorf("%s%s: %s", o.Base, path, problem.Detail)
	switch {
	case response.StatusCode == http.StatusUnauthorized && o.session != nil:
		err = fmt.Errorf("%w; %s", err, logInAt(o.Base))
	case response.StatusCode == http.StatusForbidden:
		err = Exit(ExitDenied, err)
	}
	return nil, err
}

// ownAuthority is the advice for a certificate of an unknown authority.
const ownAuthority = "if its authority is your own, name the authority's PEM file in SSL_CERT_FILE"

// Unanswered is the advice for a server that was not reached.
func Unanswered(err error) string {
	if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
		if unknown := (x509.UnknownAuthorityError{}); errors.As(wrong.Err, &unknown) {
			return ownAuthority
		}
		return "its certificate must be for that host, and currently valid"
	}
	return "is powerbox serve running there?"
}

// AgentStatus is an agent as the server tells it.
type AgentStatus struct {
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

// Agents lists the agents of the server.
func (o *Operator) Agents(ctx context.Context) ([]AgentStatus, error) {
	var agents []AgentStatus
	err := o.Get(ctx, "/v1/agents", &agents)
	return agents, err
}

// PrintJSON writes one value as a line of JSON.
func (p *Program) PrintJSON(v any) error {
	e := json.NewEncoder(p.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// DefaultConfig is the file that every verb reads unless told otherwise.
const DefaultConfig = "powerbox.yaml"
