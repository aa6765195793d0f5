package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// SessionEnv holds the user's access token.
const SessionEnv = "POWERBOX_SESSION"

// HolderFlags say as whom a holder's verb acts.
type HolderFlags struct {
	Key, session, SessionFile string

	byReference          bool // the holder has no key
	certificate, certKey string
	authorities          string // that the server's certificate is of
}

// AddEither adds the flags of a holder with a key, or without.
func (h *HolderFlags) AddEither(cmd *cobra.Command) {
	h.Add(cmd)
	h.addReference(cmd)
}

// addReference adds the flags of a holder without a key.
func (h *HolderFlags) addReference(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&h.byReference, "by-reference", false, "hold capabilities by reference, instead of --key: the agent identifies the caller by OAuth client or certificate")
	f.StringVar(&h.certificate, "certificate", "", "with --by-reference, PEM `file` with the client certificate that the agent knows")
	f.StringVar(&h.certKey, "certificate-key", "", "PEM `file` with its private key")
	f.StringVar(&h.authorities, "ca", "", "with --by-reference, PEM `file` with the authorities of the server's certificate, if the system does not have them")
	cmd.MarkFlagsMutuallyExclusive("key", "by-reference")
	cmd.MarkFlagsRequiredTogether("certificate", "certificate-key")
}

// referenceClient is the client of a holder without a key.
func (p *Program) referenceClient(h HolderFlags) (*holder.Client, error) {
	client := &holder.Client{ByReference: true, HTTP: NewHTTPClient(), Now: p.Now, Random: rand.Reader}
	transport, ok := client.HTTP.Transport.(*http.Transport)
	if !ok || h.certificate+h.authorities == "" {
		return client, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if h.certificate != "" {
		pair, err := tls.LoadX509KeyPair(h.certificate, h.certKey)
		if err != nil {
			return nil, fmt.Errorf("--certificate and --certificate-key: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	if h.authorities != "" {
		data, err := p.ReadFile(h.authorities)
		if err != nil {
			return nil, err
		}
		if settings.RootCAs, err = outbound.Authorities(data, h.authorities); err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
	}
	transport = transport.Clone()
	transport.TLSClientConfig = settings
	client.HTTP.Transport = transport
	return client, nil
}

// Add adds the flags of a holder with a key.
func (h *HolderFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.Key, "key", "", "`file` with the holder's key, from powerbox keys new")
	cmd.Flags().StringVar(&h.session, "session", "", "the user's access `token`; other users of the machine may see it: prefer --session-file or "+SessionEnv)
	cmd.Flags().StringVar(&h.SessionFile, "session-file", "", "`file` with the user's access token")
	cmd.MarkFlagsMutuallyExclusive("session", "session-file")
}

// HolderClient is the client of the flags. Without a session it has none.
func (p *Program) HolderClient(h HolderFlags) (*holder.Client, error) {
	client, err := p.keyOrReference(h)
	if err != nil {
		return nil, err
	}
	session, err := p.Session(h)
	if session != "" {
		client.Session = func(context.Context, string) (string, error) { return session, nil }
	}
	return client, err
}

func (p *Program) keyOrReference(h HolderFlags) (*holder.Client, error) {
	switch {
	case h.byReference:
		return p.referenceClient(h)
	case h.Key == "":
		return nil, Usage(errors.New("--key is missing; make a key with: powerbox keys new holder.jwk"))
	}
	key, err := LoadKey(h.Key)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; correct --key, or make a key with: powerbox keys new %s", err, h.Key)
	}
	return &holder.Client{Key: key, HTTP: NewHTTPClient(), Now: p.Now, Random: rand.Reader}, err
}

// Session returns the user's access token, "" for none.
func (p *Program) Session(h HolderFlags) (string, error) {
	switch {
	case h.session != "":
		return h.session, nil
	case h.SessionFile != "":
		data, err := p.ReadFile(h.SessionFile)
		if err != nil {
			return "", fmt.Errorf("--session-file: %w; want a file with an access token, such as powerbox login --out writes", err)
		}
		text := strings.TrimSpace(string(data))
		if text == "" {
			err = fmt.Errorf("%s is empty; want an access token", h.SessionFile)
		}
		return text, err
	}
	return p.Env(SessionEnv), nil
}

// capabilityJSON is a capability in a file and on standard output. The tokens
// in it are bound to the holder's key.
type capabilityJSON struct {
	ID           string       `json:"id"`
	Agent        string       `json:"agent"`
	Grant        string       `json:"grant"`
	Operations   []string     `json:"operations"`
	Handles      []handleJSON `json:"handles"`
	Expires      time.Time    `json:"expires"`
	RevocationID string       `json:"revocationId,omitempty"`
	Principal    string       `json:"principal,omitempty"`
	Task         string       `json:"task,omitempty"`
	Tenant       string       `json:"tenant,omitempty"`
	Legacy       bool         `json:"legacy,omitempty"`
	Chain        []string     `json:"chain,omitempty"`
	// A scope token and its links as they are presented.
	ScopeToken json.RawMessage   `json:"scopeToken,omitempty"`
	Links      []json.RawMessage `json:"links,omitempty"`
	// NextResources is the cursor of more resources.
	NextResources string `json:"nextResources,omitempty"`
}

type handleJSON struct {
	Handle      string `json:"handle"`
	DisplayName string `json:"displayName,omitempty"`
}

// capabilityFile is what request and narrow write, and narrow, call, revoke
// and explain read.
type capabilityFile struct {
	Capabilities []capabilityJSON `json:"capabilities"`
}

func fileOf(held []holder.Capability) capabilityFile {
	f := capabilityFile{Capabilities: make([]capabilityJSON, len(held))}
	for i, c := range held {
		handles := make([]handleJSON, len(c.Handles))
		for n, h := range c.Handles {
			handles[n] = handleJSON(h)
		}
		f.Capabilities[i] = capabilityJSON{
			c.ID, c.Agent, c.Grant, append([]string{}, c.Operations...), handles, c.Expires.UTC(),
			c.RevocationID, c.Principal, c.Task, c.Tenant, c.Legacy, c.Chain, json.RawMessage(c.ScopeToken), nil, c.NextResources,
		}
		for _, l := range c.Links {
			f.Capabilities[i].Links = append(f.Capabilities[i].Links, json.RawMessage(l))
		}
	}
	return f
}

// ReadCapabilities reads a capability file.
func (p *Program) ReadCapabilities(name string) ([]holder.Capability, error) {
	data, err := p.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; correct the name, or write the file with: powerbox request --out %s", err, name)
	}
	if err != nil {
		return nil, err
	}
	held, err := ParseCapabilities(data)
	if err != nil {
		return nil, Invalid(fmt.Errorf("%s is not a capability file: %w; want one that powerbox request wrote", name, err))
	}
	return held, nil
}

// ParseCapabilities reads the capabilities of a file that request wrote.
func ParseCapabilities(data []byte) ([]holder.Capability, error) {
	var f capabilityFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if len(f.Capabilities) == 0 {
		return nil, errors.New("it holds no capability")
	}
	held := make([]holder.Capability, len(f.Capabilities))
	for i, c := range f.Capabilities {
		if c.ID == "" || c.Agent == "" {
			return nil, fmt.Errorf("capabilities[%d] has no id or no agent", i)
		}
		held[i] = holder.Capability{
			ID: c.ID, Agent: c.Agent, Grant: c.Grant, Chain: c.Chain, Operations: c.Operations, Expires: c.Expires,
			RevocationID: c.RevocationID, Principal: c.Principal, Task: c.Task, Tenant: c.Tenant, Legacy: c.Legacy, ScopeToken: compact(c.ScopeToken),
			NextResources: c.NextResources,
		}
		for _, l := range c.Links {
			held[i].Links = append(held[i].Links, compact(l))
		}
		for _, h := range c.Handles {
			held[i].Handles = append(held[i].Handles, holder.Handle(h))
		}
	}
	return held, nil
}

// compact returns JSON that was decoded without the spaces of the file: in a
// header they would cost.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "" // absent
	}
	return b.String()
}

// PrintCapabilities prints capabilities and writes them to a file, when one is
// named.
func (p *Program) PrintCapabilities(held []holder.Capability, out, output string) error {
	f := fileOf(held)
	if out != "" {
		err := p.WriteOut(out, 0o600, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(f)
		})
		if err != nil {
			return err
		}
		Printf(p.Stderr, "powerbox: wrote %s\n", out)
	}
	if output == "json" {
		return p.PrintJSON(f)
	}
	for _, c := range f.Capabilities {
		p.printCapability(c)
	}
	return nil
}

func (p *Program) printCapability(c capabilityJSON) {
	Printf(p.Stdout, "%s  %s\n", c.ID, c.Grant)
	Printf(p.Stdout, "  agent      %s\n", c.Agent)
	Printf(p.Stdout, "  may        %s\n", strings.Join(c.Operations, ", "))
	for _, h := range c.Handles {
		Printf(p.Stdout, "  resource   %q as %s\n", h.DisplayName, h.Handle)
	}
	if c.NextResources != "" {
		Printf(p.Stdout, "  more       --after %s\n", c.NextResources)
	}
	Printf(p.Stdout, "  until      %s\n", c.Expires.Format(time.RFC3339))
	if c.RevocationID != "" {
		Printf(p.Stdout, "  revoke by  %s\n", c.RevocationID)
	}
	if len(c.ScopeToken) > 0 {
		Printf(p.Stdout, "  as         scope token with %d links\n", len(c.Links))
	} else if len(c.Chain) == 0 {
		Printf(p.Stdout, "  by reference: send two headers with every call, from the same client or certificate\n")
		Printf(p.Stdout, "    Authorization: Bearer ACCESS_TOKEN   # the user's session\n    %s: %s\n", holder.HeaderCapability, c.ID)
	}
}

// deniedJSON is a denial on standard output.
type deniedJSON struct {
	Denied     bool     `json:"denied"`
	Code       string   `json:"code"`
	Message    string   `json:"message"`
	Missing    []string `json:"missing,omitempty"`
	DecisionID string   `json:"decision,omitempty"`
	Fix        string   `json:"fix,omitempty"`
	Retryable  bool     `json:"retryable"`
}

// Denied prints a denial, or that a person has not answered yet. Both are answers. It passes
// other errors on.
func (p *Program) Denied(err error, output string) error {
	if waits := (*holder.Pending)(nil); errors.As(err, &waits) && !errors.Is(err, context.Canceled) {
		return p.pending(waits, err, output)
	}
	var d *holder.Denied
	if !errors.As(err, &d) {
		return err
	}
	if output == "json" {
		if err := p.PrintJSON(deniedJSON{true, string(d.Code), d.Message, d.Missing, d.DecisionID, d.Fix, d.Retryable}); err != nil {
			return err
		}
		return Exit(ExitDenied, nil)
	}
	Printf(p.Stdout, "denied: %s\n  reason    %s\n", d.Message, d.Code)
	if d.DecisionID != "" {
		Printf(p.Stdout, "  decision  %s\n", d.DecisionID)
	}
	if len(d.Missing) > 0 {
		Printf(p.Stdout, "  missing   %s\n", strings.Join(d.Missing, ", "))
	}
	if d.Fix != "" && !strings.Contains(d.Message, d.Fix) {
		Printf(p.Stdout, "  fix       %s\n", d.Fix)
	}
	if d.DecisionID != "" {
		Printf(p.Stderr, "powerbox: an operator can ask why with: powerbox explain %s\n", d.DecisionID)
	}
	return Exit(ExitDenied, nil)
}

// Expiry reads --expires: how long from now, or a time.
func Expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		// Times are whole seconds on the wire: cut, one would be over before it is asked for.
		if until := now.Add(d); until.Nanosecond() > 0 {
			return until.Truncate(time.Second).Add(time.Second), nil
		}
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, Usage(fmt.Errorf("--expires is %q; want how long, such as 30m, or a time, such as 2026-01-02T15:04:05Z", text))
	}
	return t, nil
}

// oneOf returns the capability of a grant, or the only one.
func oneOf(held []holder.Capability, grant string) (holder.Capability, error) {
	if grant == "" && len(held) == 1 {
		return held[0], nil
	}
	i := slices.IndexFunc(held, func(c holder.Capability) bool { return c.Grant == grant })
	if i < 0 {
		var grants []string
		for _, c := range held {
			grants = append(grants, c.Grant)
		}
		return holder.Capability{}, Usage(fmt.Errorf("the file has capabilities of %s; name one with --grant", strings.Join(grants, ", ")))
	}
	return held[i], nil
}

// ReadCapability reads one capability of a file.
func (p *Program) ReadCapability(file, grant string) (holder.Capability, error) {
	held, err := p.ReadCapabilities(file)
	if err != nil {
		return holder.Capability{}, err
	}
	return oneOf(held, grant)
}
