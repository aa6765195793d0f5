package agentauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox/internal/sorting"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Provider is what a provider says of itself (section 5.1).
type Provider struct {
	Version     string            `json:"version"`
	Name        string            `json:"provider_name"`
	Description string            `json:"description"`
	Issuer      string            `json:"issuer"`
	Location    string            `json:"default_location,omitempty"` // always there once read
	Algorithms  []string          `json:"algorithms"`
	Modes       []string          `json:"modes"`
	Methods     []string          `json:"approval_methods"`
	Endpoints   map[string]string `json:"endpoints"` // absolute once read
	Keys        string            `json:"jwks_uri,omitempty"`
	DPoP        []string          `json:"dpop_signing_alg_values_supported,omitempty"` // as RFC 9449 has it, section 5.1
}

// Bounds of caching (AAP-CL4).
const (
	maxFresh = time.Hour
	maxStale = 24 * time.Hour // a provider that cannot be reached
)

// major is the version of the protocol that is spoken here, as far as it must agree.
const major = "1"

var version = regexp.MustCompile(`^([0-9]{1,4})\.[0-9]{1,4}(-draft)?$`)

// required are the endpoints that a client needs; a provider may have others.
var required = []string{
	"register", "capabilities", "describe_capability", "execute", "request_capability", "status", "reactivate", "revoke", "rotate_key", "rotate_host_key",
}

// beyond are endpoints that the specification does not have, where the protocol's
// own client looks for them (AAP-D9).
var beyond = map[string]string{"claim": "/agent/claim", "enroll_host": "/host/enroll"}

// parseProvider reads the document that came from an issuer.
func parseProvider(data []byte, issuer string) (Provider, error) {
	var p Provider
	if err := jsonv2.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("the discovery document: %w", err)
	}
	m := version.FindStringSubmatch(p.Version)
	if m == nil || m[1] != major {
		return p, fmt.Errorf("version %q: %w; want %s", clip(p.Version), ErrVersion, wire.Version)
	}
	if p.Issuer = strings.TrimSuffix(p.Issuer, "/"); p.Issuer != issuer {
		return p, fmt.Errorf("%w: it names %q and came from %s", ErrIssuer, clip(p.Issuer), issuer)
	}
	if p.Name == "" || len(p.Name) > 256 {
		return p, errors.New("the discovery document has no provider_name, or a long one")
	}
	if !slices.Contains(p.Algorithms, "Ed25519") {
		return p, errors.New("the provider does not take Ed25519 keys, which every provider must")
	}
	for name, path := range p.Endpoints {
		at, err := p.endpoint(path)
		if err != nil {
			return p, fmt.Errorf("endpoint %s: %w", clip(name), err)
		}
		p.Endpoints[name] = at
	}
	for _, name := range required {
		if p.Endpoints[name] == "" {
			return p, fmt.Errorf("the discovery document has no endpoint %s", name)
		}
	}
	for name, path := range beyond {
		if p.Endpoints[name] == "" {
			p.Endpoints[name] = p.Issuer + path
		}
	}
	if p.Location == "" {
		p.Location = p.Endpoints["execute"]
	}
	return p, p.reachable(p.Location)
}

// endpoint is a path of the provider as a URL. Tokens of the host go there, so it
// stands at the issuer's origin.
func (p *Provider) endpoint(path string) (string, error) {
	at := path
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		at = p.Issuer + path
	}
	if !sameOrigin(at, p.Issuer) {
		return "", fmt.Errorf("%w: %q is not at %s", ErrAddress, clip(at), p.Issuer)
	}
	return at, nil
}

// reachable refuses URLs that nothing is sent to: without TLS, unless the
// provider itself is on this machine; with a login in them (AAP-CL7).
func (p *Provider) reachable(at string) error {
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%w: %q is no plain absolute URL", ErrAddress, clip(at))
	case loopback(u.Hostname()) && !loopback(hostOf(p.Issuer)):
		return fmt.Errorf("%w: %q is on this machine, and the provider is not", ErrAddress, clip(at))
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%w: %q; want https", ErrAddress, clip(at))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// sameOrigin reports whether two absolute URLs have scheme, host and port in common.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	if err != nil || err2 != nil || x.Host == "" || x.User != nil {
		return false
	}
	return x.Scheme == y.Scheme && strings.EqualFold(x.Hostname(), y.Hostname()) && port(x) == port(y)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}

// issuerOf is a URL that a person or a directory gives, as an issuer.
func issuerOf(at string) (string, error) {
	at = strings.TrimSuffix(at, "/")
	self := Provider{Issuer: at}
	if err := self.reachable(at); err != nil {
		return "", err
	}
	if u, err := url.Parse(at); err != nil || u.RawQuery != "" {
		return "", fmt.Errorf("%w: %q has a query", ErrAddress, clip(at))
	}
	return at, nil
}

// Discover returns the provider at a URL: as it was read within the last hour, or
// as long as the provider says. A URL from an untrusted source should be
// confirmed by a person before (section 8.9).
func (c *Client) Discover(ctx context.Context, at string) (Provider, error) {
	issuer, err := issuerOf(at)
	if err != nil {
		return Provider{}, fmt.Errorf("agentauth: %w", err)
	}
	known, fresh, err := c.known(issuer)
	if err != nil || fresh {
		return known.Provider, err
	}
	return c.rediscover(ctx, issuer)
}

// known returns what the store has of an issuer, and whether that is new enough.
func (c *Client) known(issuer string) (p provided, fresh bool, err error) {
	err = c.Store.view(func(st *state) error {
		if found := st.Providers[issuer]; found != nil {
			p = *found
		}
		return nil
	})
	now := c.Now()
	return p, p.Provider.Issuer != "" && now.Before(p.Fresh) && !now.Before(p.Fetched), err
}

// rediscover reads the document again. A provider that cannot be reached is as it
// was, for a day.
func (c *Client) rediscover(ctx context.Context, issuer string) (Provider, error) {
	a, err := c.do(ctx, &call{method: http.MethodGet, url: issuer + "/.well-known/agent-configuration", safe: true})
	if err != nil {
		known, _, viewing := c.known(issuer)
		if viewing == nil && unreachable(err) && known.Provider.Issuer != "" && c.Now().Before(known.Fetched.Add(maxStale)) {
			return known.Provider, nil
		}
		return Provider{}, fmt.Errorf("agentauth: discovery at %s: %w", issuer, err)
	}
	p, err := parseProvider(a.body, issuer)
	if err != nil {
		return Provider{}, fmt.Errorf("agentauth: discovery at %s: %w", issuer, err)
	}
	now := c.Now()
	return p, c.Store.update(func(st *state) error {
		known := st.Providers[issuer]
		if known == nil {
			known = &provided{}
			st.Providers[issuer] = known
		}
		known.Provider, known.Fetched, known.Fresh = p, now, now.Add(freshness(a.header, maxFresh))
		return nil
	})
}

// freshness is how long an answer may be kept, as it says itself, and never longer
// than an hour.
func freshness(h http.Header, without time.Duration) time.Duration {
	for _, part := range strings.Split(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return 0
			}
			without = time.Duration(n) * time.Second
		}
	}
	return min(without, maxFresh)
}

// Providers returns what the store knows, by name.
func (c *Client) Providers() ([]Provider, error) {
	var out []Provider
	err := c.Store.view(func(st *state) error {
		for _, p := range st.Providers {
			out = append(out, p.Provider)
		}
		return nil
	})
	sorting.Sort(out, func(a, b Provider) int { return strings.Compare(a.Name+" "+a.Issuer, b.Name+" "+b.Issuer) })
	return out, err
}

// Provider returns the provider of a name, if one alone has it, or at a URL.
func (c *Client) Provider(ctx context.Context, nameOrURL string) (Provider, error) {
	if strings.Contains(nameOrURL, "://") {
		return c.Discover(ctx, nameOrURL)
	}
	all, err := c.Providers()
	if err != nil {
		return Provider{}, err
	}
	all = slices.DeleteFunc(all, func(p Provider) bool { return p.Name != nameOrURL })
	switch len(all) {
	case 0:
		return Provider{}, fmt.Errorf("agentauth: provider %q: %w; give its URL", nameOrURL, ErrUnknown)
	case 1:
		return c.Discover(ctx, all[0].Issuer)
	}
	return Provider{}, fmt.Errorf("agentauth: %d providers call themselves %q; give the URL of one", len(all), nameOrURL)
}

// Search asks the directory for providers (section 6.11). Each is read from its
// own issuer before it is believed; those that are not what the directory says
// are left out.
func (c *Client) Search(ctx context.Context, intent string) ([]Provider, error) {
	if c.Directory == "" {
		return nil, errors.New("agentauth: no directory is configured")
	}
	base, err := issuerOf(c.Directory)
	if err != nil {
		return nil, fmt.Errorf("agentauth: directory: %w", err)
	}
	a, err := c.do(ctx, &call{method: http.MethodGet, url: base + "/api/search?" + url.Values{"intent": {intent}, "limit": {"10"}}.Encode(), safe: true})
	if err != nil {
		return nil, fmt.Errorf("agentauth: directory: %w", err)
	}
	var found struct {
		Providers []struct {
			Issuer string `json:"issuer"`
		} `json:"providers"`
	}
	if err := jsonv2.Unmarshal(a.body, &found); err != nil {
		return nil, fmt.Errorf("agentauth: directory: %w", err)
	}
	var out []Provider
	for _, one := range found.Providers[:min(len(found.Providers), 10)] {
		self := Provider{Issuer: base}
		if err := self.reachable(one.Issuer); err != nil {
			c.warn("the directory names a provider that is not asked: " + err.Error())
			continue
		}
		p, err := c.Discover(ctx, one.Issuer)
		if err != nil {
			c.warn("the directory names a provider that is not what it says: " + err.Error())
			continue
		}
		out = append(out, p)
	}
	return out, nil
}
