package attach

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/hop"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// Inbound stands between the agent's gateway and the agent: what comes past
// the gateway is refused, and what comes with a task is kept for it.
type Inbound struct {
	ID      string // the agent's id at its gateway, the audience of contexts; required
	Agent   string // its public URL there, the issuer of contexts; required
	Forward string // base URL of the agent's own card; required
	URL     string // where its gateway reaches this side; required
}

type inbound struct {
	Inbound
	attach *Attach
	links  links
	card   *card
	used   *gate.Memory // of contexts
	began  time.Time    // since when they are remembered, in whole seconds as contexts have them

	mu      sync.Mutex // guards the fields below, and held while keys are fetched
	keys    token.KeySet
	fetched time.Time
}

func newInbound(a *Attach, c Inbound) (*inbound, error) {
	if c.ID == "" || c.Agent == "" {
		return nil, errors.New("attach: inbound needs the agent's id and public URL at its gateway")
	}
	for name, address := range map[string]string{"forward": c.Forward, "url": c.URL, "agent": c.Agent} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("attach: inbound: %s is %q; want an http or https URL", name, address)
		}
	}
	now := a.config.Client.Now
	c.Forward = CardBase(c.Forward)
	return &inbound{
		Inbound: c, attach: a, links: links{now: now}, used: gate.NewMemory(maxUsed), began: now().Truncate(time.Second).Add(time.Second),
		card: &card{base: c.Forward, http: a.config.Client.HTTP, now: now},
	}, nil
}

// maxUsed bounds how many contexts are remembered as used. Each is of the gateway.
const maxUsed = 1 << 20

// InboundFrom is the time from which contexts are good: earlier ones may have been used at
// the process before this one. It is zero where there is no inbound side.
func (a *Attach) InboundFrom() time.Time {
	if a.inbound == nil {
		return time.Time{}
	}
	return a.inbound.began
}

// errBefore refuses a context that may have been used.
var errBefore = errors.New("the context was made before this process began, so it may have been used; repeat the call")

// Inbound serves the agent's gateway, nil where no inbound side is configured.
func (a *Attach) Inbound() http.Handler {
	if a.inbound == nil {
		return nil
	}
	return a.inbound
}

// ServeHTTP implements [http.Handler].
func (in *inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = ofRequest(r)
	if r.Method == http.MethodGet && (r.URL.Path == wellKnown || r.URL.Path == wellKnown03) {
		in.serveCard(w, r)
		return
	}
	s := sent{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header}
	switch {
	case isGRPC(r.Header):
		s.binding = a2a.GRPC
	case s.path != "/" && s.path != "":
		s.binding = a2a.HTTPJSON
	}
	answered := a2a.Call{Binding: s.binding}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read, or has more than 16 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	s.body = body
	if call, _, wrong := s.decode(); wrong == nil { // who asked for a stream reads a refusal as an event
		answered = call
		answered.Binding = s.binding
	}
	c, err := in.admit(r.Context(), s)
	if err != nil {
		in.attach.config.Log.WarnContext(r.Context(), "a call is refused on its way in", "error", err)
		d := a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: "context", Message: err.Error()}
		if errors.Is(err, errBefore) {
			d.Code, d.Retryable = a2a.CodeInternal, true
		}
		say(w, answered, d)
		return
	}
	to, err := in.target(r.Context(), s)
	if err != nil {
		say(w, answered, denial(err))
		return
	}
	in.attach.pass(w, r, passed{
		target: to, header: in.mark(r.Header, c), body: body, call: c.call,
		answer: func(payload []byte) { in.links.named(c.came, payload) },
	})
}

// admitted is a call that came in, and what it is.
type admitted struct {
	*came
	call a2a.Call
}

// admit verifies that a call came from the gateway, and keeps the capabilities
// with it. Those bound to another party's key are left alone.
func (in *inbound) admit(ctx context.Context, s sent) (*admitted, error) {
	keys, err := in.keySet(ctx)
	if err != nil {
		return nil, err
	}
	now, compact := in.links.now(), strings.Join(s.header.Values(headerContext), ",")
	verified, err := token.VerifyContext(compact, keys, in.ID, now, s.body)
	if err != nil {
		return nil, err
	}
	if verified.Issuer != in.Agent {
		return nil, fmt.Errorf("the context is of issuer %q; want %q", verified.Issuer, in.Agent)
	}
	if err := in.once(verified, token.ContextID(compact), now); err != nil {
		return nil, err
	}
	c := &came{task: newTask(in.attach.config.Client.Key.Public()), id: newLink(), context: sha256.Sum256([]byte(compact)), trace: traceID(s.header)}
	c.cameIn = true
	if c.trace == "" {
		c.trace = newTrace()
	}
	if c.owner = owner(verified); verified.Principal+verified.Holder == "" {
		c.owner = c.id // two callers of whom nothing is known are not the same one
	}
	call, _, wrong := s.decode()
	call.Binding = s.binding
	if wrong == nil && (call.Task != verified.Task || call.Tenant != verified.Tenant) {
		// Where the body is empty its digest says nothing.
		return nil, errors.New("the context is for another task than the call's")
	}
	if wrong == nil {
		c.tenant = call.Tenant
		for _, name := range []string{call.Task, call.Context} {
			if name != "" {
				c.names = append(c.names, name)
			}
		}
	}
	in.links.remember(c)
	in.take(ctx, c, verified, call, s.header.Get(holder.HeaderDelegation))
	return &admitted{c, call}, nil
}

// once refuses a context that is not seen for the first time (ATK-129). It is for one
// request, and only the one who took it from the way would send it again.
func (in *inbound) once(c token.Context, sum [32]byte, now time.Time) error {
	switch {
	case c.IssuedAt.Before(in.began):
		return errBefore
	case !in.used.Use(string(sum[:]), c.Expires, now):
		return errors.New("the context was used before; it is for one request")
	}
	return nil
}

// take keeps the capabilities delegated with a call: by reference in its context, as
// chains in its metadata or a header. One that cannot be used is no reason to
// refuse the call, which the gateway has let through without it.
func (in *inbound) take(ctx context.Context, c *came, verified token.Context, call a2a.Call, header string) {
	now := in.links.now()
	c.mu.Lock()
	c.handed = append(c.handed, verified.Delegated...)
	c.mu.Unlock()
	err := c.wallet.ReceiveHeader(header, now)
	if m := call.Members; m != nil {
		for _, d := range m.Delegations {
			chain := make([]any, len(d.Chain))
			for i, t := range d.Chain {
				chain[i] = t
			}
			one := map[string]any{"delegations": []any{map[string]any{"agent": d.Agent, "chain": chain}}}
			err = errors.Join(err, c.wallet.Receive(map[string]any{a2a.ExtensionURI: one}, now))
		}
	}
	if err != nil {
		in.attach.config.Log.WarnContext(ctx, "what was handed over with a call is not of use", "decision", verified.Decision, "error", err)
	}
}

// newLink is an unguessable id.
func newLink() string { return strings.ToLower(rand.Text()) }

// newTrace is a trace id for a call that came without one.
func newTrace() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] |= 1              // no part of it may be all zeros
	return hex.EncodeToString(b[:])
}

// mark returns the headers of a call as the agent gets them: with what tracing
// passes on, and without headers that are not for it.
func (in *inbound) mark(h http.Header, c *admitted) http.Header {
	out := h.Clone()
	out.Del(holder.HeaderDelegation)
	out.Del(headerPurpose)
	stripTraceState(out)
	if traceID(h) == "" {
		out.Set("traceparent", "00-"+c.trace+"-"+c.trace[:16]+"-01")
	}
	state := traceKey + "=" + c.id
	if others := out.Get("tracestate"); others != "" {
		state += "," + others
	}
	out.Set("tracestate", state)
	return out
}

// target is where the agent itself takes a call.
func (in *inbound) target(ctx context.Context, s sent) (*url.URL, error) {
	known, err := in.card.get(ctx)
	if err != nil {
		return nil, err
	}
	call, _, _ := s.decode()
	to, ok := at(known.view, s.binding, call.Version, call.Tenant)
	if !ok {
		return nil, fmt.Errorf("the agent's card has no interface for %s", s.binding)
	}
	switch s.binding {
	case a2a.GRPC:
		u, err := address(to.URL, "")
		if err == nil {
			u.Path = s.path
		}
		return u, err
	case a2a.HTTPJSON:
		return url.Parse(withQuery(strings.TrimRight(to.URL, "/")+s.path, s.query))
	default:
		return url.Parse(withQuery(to.URL, s.query))
	}
}

// serveCard serves the agent's card to its gateway, with the URLs of this side
// and the key to which others can delegate.
func (in *inbound) serveCard(w http.ResponseWriter, r *http.Request) {
	known, err := in.card.get(r.Context())
	var raw []byte
	if err == nil {
		raw, err = in.publish(known)
	}
	if err != nil {
		in.attach.config.Log.WarnContext(r.Context(), "no card to serve", "error", err)
		http.Error(w, "the agent's card cannot be had now: "+err.Error(), http.StatusBadGateway)
		return
	}
	hop.ServeCard(w, r, raw)
}

func (in *inbound) publish(known *seen) ([]byte, error) {
	raw, err := known.raw, error(nil)
	if len(known.view.Holder) == 0 {
		if raw, err = withHolder(raw, in.attach.config.Client.Key.Public()); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return nil, err
	}
	return a2a.RewriteCard(raw, a2a.Rewrite{PublicURL: strings.TrimRight(in.URL, "/"), GRPC: u.Host})
}

// withHolder adds to a card our extension with a key, in place of one that has
// none.
func withHolder(raw []byte, key token.PublicKey) ([]byte, error) {
	v, err := powerbox.DecodeValue(raw, powerbox.Limits{Bytes: a2a.MaxCardBytes, Depth: 64})
	if err != nil {
		return nil, err
	}
	capabilities, _ := v.Get("capabilities")
	list, _ := capabilities.Get("extensions")
	elements, _ := list.Elements()
	own := powerbox.Object(
		powerbox.Member{Name: "uri", Value: powerbox.String(a2a.ExtensionURI)},
		powerbox.Member{Name: "params", Value: powerbox.Object(powerbox.Member{Name: "holder", Value: key.JWK()})},
	)
	var kept []powerbox.Value
	for _, e := range elements {
		if uri, _ := e.Get("uri"); !uri.Equal(powerbox.String(a2a.ExtensionURI)) {
			kept = append(kept, e)
		}
	}
	capabilities = with(capabilities, "extensions", powerbox.List(append(kept, own)...))
	return with(v, "capabilities", capabilities).AppendJSON(nil), nil
}

// with returns an object with a member in place of one of that name.
func with(v powerbox.Value, name string, value powerbox.Value) powerbox.Value {
	members, _ := v.Members()
	out := make([]powerbox.Member, 0, len(members)+1)
	for _, m := range members {
		if m.Name != name {
			out = append(out, m)
		}
	}
	return powerbox.Object(append(out, powerbox.Member{Name: name, Value: value})...)
}

// keySet fetches the keys under which contexts are signed.
func (in *inbound) keySet(ctx context.Context) (token.KeySet, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := in.links.now()
	if in.keys.Len() > 0 && now.Sub(in.fetched) < cardLife {
		return in.keys, nil
	}
	raw, err := fetch(ctx, in.attach.config.Client.HTTP, strings.TrimRight(in.Agent, "/")+"/.well-known/jwks.json", a2a.MaxCardBytes)
	if err != nil {
		return token.KeySet{}, fmt.Errorf("the keys of the gateway: %w", err)
	}
	keys, err := token.ParseKeySet(raw)
	if err == nil {
		in.keys, in.fetched = keys, now
	}
	return keys, err
}
