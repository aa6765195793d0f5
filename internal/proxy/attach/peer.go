package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Peer is a protected agent that calls may go to.
type Peer struct {
	Name         string // required; stands in URLs
	Card         string // required; base URL of its card, without the well-known path
	GRPC         string // host:port where this process takes calls of its gRPC; "" for nowhere
	GRPCUpstream string // URL of its gRPC instead of the address on its card; "" for that
	Rules        []Rule
	Hand         []Hand
	// Floor are the skills that may be called where nothing says for which task:
	// "*" for everything. The default is nothing.
	Floor []string
}

// Rule says what to request if no held capability permits a call.
type Rule struct {
	Skills   []string             // that it is for; none for every call, words too
	Request  holder.RequestParams // Grants may be empty: those of the skills, or of the one that is called
	Lifetime time.Duration        // 0 for as long as the issuer allows
	// Tasks has it asked for tasks that came in as well: anyone who may call the
	// agent beside us then has, through it, what the session's user may.
	Tasks bool
}

// Hand says what to delegate with a message to the peer: capabilities for those
// skills of another one, narrowed to the handles that the message names, for
// the key on the peer's card.
type Hand struct {
	Of       string // name of the peer whose skills they are
	Skills   []string
	Lifetime time.Duration // 0 for as long as the capability has
	Depth    int           // how often it may be passed on further
}

const (
	cardLife  = time.Minute      // how long a card is used before it is fetched again
	cardGrace = 10 * cardLife    // how long it is used where it cannot be
	fetchTime = 10 * time.Second // for one fetch
	maxBody   = 16 << 20         // of a call that is signed
)

// seen is a card as it was last read.
type seen struct {
	raw   []byte
	view  a2a.CardView
	agent holder.Agent
	at    time.Time
}

// card keeps the card at one address.
type card struct {
	base string
	http *http.Client
	now  func() time.Time

	mu   sync.Mutex // held while it is fetched: who waits gets the same one
	last *seen
}

// get returns the card, fetching it where the last one is too old.
func (c *card) get(ctx context.Context) (*seen, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.last != nil && now.Sub(c.last.at) < cardLife {
		return c.last, nil
	}
	next, err := c.fetch(ctx)
	if err != nil {
		if c.last != nil && now.Sub(c.last.at) < cardGrace {
			return c.last, nil
		}
		return nil, err
	}
	next.at = now
	c.last = next
	return next, nil
}

func (c *card) fetch(ctx context.Context) (*seen, error) {
	raw, err := fetch(ctx, c.http, c.base+wellKnown, a2a.MaxCardBytes)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	s := &seen{raw: raw}
	if s.view, err = a2a.ReadCard(raw); err == nil {
		if isMCP(s.view) {
			return nil, fmt.Errorf("%s is %w; clients of MCP call it at its own URL, with the headers that powerbox request --by-reference prints, or start it with powerbox gateway --stdio --mcp-exec -- COMMAND", c.base, ErrMCP)
		}
		s.agent, err = holder.ReadAgent(c.base, raw)
	}
	return s, err
}

// ErrNoAgent says that a server has no agent at the URL of its card.
var ErrNoAgent = errors.New("there is no agent at that URL")

// ErrMCP says that a peer is no agent of A2A.
var ErrMCP = errors.New("an MCP server, which attach does not serve")

// isMCP reports whether a card leads to MCP alone.
func isMCP(v a2a.CardView) bool {
	for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC} {
		if _, ok := v.Interface(b, "", ""); ok {
			return false
		}
	}
	_, ok := v.Interface(a2a.MCP, "", "")
	return ok
}

// fetch returns the body of an answer that is 200 and no longer than limit.
func fetch(ctx context.Context, client *http.Client, address string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) //nolint:gosec // below a configured card, and a skill is a name on it
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := client.Do(r) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK:
		err := fmt.Errorf("%s: HTTP status %s; want 200", address, response.Status)
		if response.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", ErrNoAgent, err)
		}
		return nil, err
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", address, limit)
	}
	return body, nil
}

// wellKnown is where a card is found below a base URL (A2A 1.0, section 8.2);
// wellKnown03 is where 0.3 clients look for it.
const (
	wellKnown   = "/.well-known/agent-card.json"
	wellKnown03 = "/.well-known/agent.json"
)

// CardBase returns the base URL of a card that is named by either its own URL
// or its base.
func CardBase(card string) string {
	for _, path := range []string{wellKnown, wellKnown03} {
		card = strings.TrimSuffix(card, path)
	}
	return strings.TrimRight(card, "/")
}

// at returns where the agent takes a binding, version and tenant: a call that its
// agent does not speak goes where it prefers, which refuses it.
func at(v a2a.CardView, b a2a.Binding, version, tenant string) (a2a.Interface, bool) {
	if i, ok := v.Interface(b, version, tenant); ok {
		return i, true
	}
	return v.Interface(b, "", tenant)
}

// address makes a URL of what a card names for gRPC, host:port. Beyond this
// machine TLS is spoken, unless the configuration names a URL without it.
func address(named, configured string) (*url.URL, error) {
	if configured != "" {
		named = configured
	}
	if !strings.Contains(named, "://") {
		host, _, err := net.SplitHostPort(named)
		if err != nil {
			return nil, errors.New("the card names no usable address for gRPC; configure grpc_upstream")
		}
		scheme := "https"
		if isLoopback(host) {
			scheme = "http"
		}
		named = scheme + "://" + named
	}
	u, err := url.Parse(named)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the card names no usable address for gRPC; configure grpc_upstream")
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
