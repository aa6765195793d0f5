package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Config is what an Attach needs. Every field but Secret, Held and Inbound is
// required.
type Config struct {
	Client *holder.Client // key, session, clock
	Peers  []Peer
	// Held are capabilities that are there from the start. They serve calls of
	// the process's own; beside an agent with an inbound side, the floor alone.
	Held []holder.Capability
	// Inbound is the side on which the agent's own calls come in; nil where
	// there is none: then every call is of the one task of anyone who is beside us.
	Inbound   *Inbound
	Secret    string            // that clients have to show; "" for none
	Plans     []agentcard.Plan  // of paths that begin at the agent beside, named ""
	Transport http.RoundTripper // HTTP/1.1
	HTTP2     http.RoundTripper // HTTP/2, without TLS where the URL says http
	Log       *slog.Logger
}

// Attach is the process beside one agent.
type Attach struct {
	config  Config
	skills  sync.Map // peers at the URLs of their skills, by name, NUL and skill
	peers   map[string]*peer
	own     *task // of the process itself, or the floor
	inbound *inbound
}

// peer is a configured peer with its card.
type peer struct {
	Peer
	card *card
}

// New returns an Attach for the configured peers.
func New(c Config) (*Attach, error) {
	if err := missing.Fields("attach", c, "Client", "Transport", "HTTP2", "Log"); err != nil {
		return nil, err
	}
	if err := missing.Fields("attach: client", c.Client, "Key", "HTTP", "Now"); err != nil {
		return nil, err
	}
	if len(c.Peers) == 0 {
		return nil, errors.New("attach: there is no agent to call; name one with --card or in the configuration")
	}
	a := &Attach{config: c, peers: map[string]*peer{}, own: newTask(c.Client.Key.Public())}
	for _, p := range c.Peers {
		if _, twice := a.peers[p.Name]; twice || p.Name == "" || strings.ContainsAny(p.Name, "/?#% ") {
			return nil, fmt.Errorf("attach: agent name %q is empty, used twice, or cannot stand in a URL", p.Name)
		}
		p.Card = CardBase(p.Card)
		if u, err := url.Parse(p.Card); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("attach: agent %s: card is %q; want an http or https URL", p.Name, p.Card)
		}
		a.peers[p.Name] = &peer{p, &card{base: p.Card, http: c.Client.HTTP, now: c.Client.Now}}
	}
	if err := a.checkHands(); err != nil {
		return nil, err
	}
	if err := a.own.wallet.Add(c.Held...); err != nil {
		return nil, err
	}
	if c.Inbound != nil {
		in, err := newInbound(a, *c.Inbound)
		if err != nil {
			return nil, err
		}
		a.inbound, a.own.restrict = in, true
	}
	return a, nil
}

func (a *Attach) checkHands() error {
	for _, p := range a.peers {
		for _, h := range p.Hand {
			if _, ok := a.peers[h.Of]; !ok || h.Of == p.Name {
				return fmt.Errorf("attach: agent %s: hand names %q; want the name of another agent here", p.Name, h.Of)
			}
			if len(h.Skills) == 0 {
				return fmt.Errorf("attach: agent %s: hand of %s names no skills; want those that the agent needs", p.Name, h.Of)
			}
		}
	}
	return nil
}

// names are the peers' names, in order.
func (a *Attach) names() []string {
	names := make([]string, 0, len(a.peers))
	for name := range a.peers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check fetches every card and returns its errors, by name.
func (a *Attach) Check(ctx context.Context) map[string]error {
	problems := map[string]error{}
	for name, p := range a.peers {
		if _, err := p.card.get(ctx); err != nil {
			problems[name] = err
		}
	}
	return problems
}

// taskOf returns the task that a call is made for. Where nothing says so, it is
// the floor, as far as the peer has one.
func (a *Attach) taskOf(h http.Header, o *outgoing) (*task, error) {
	if t := a.linked(h, o.peer.Name, o.call); t != nil {
		return t, nil
	}
	if a.continues(a.own, o) || floor(o) {
		return a.own, nil
	}
	return nil, errUncorrelated
}

// linked returns the task for which a call of a peer is made, nil where nothing
// says so.
func (a *Attach) linked(h http.Header, peer string, call a2a.Call) *task {
	if a.inbound == nil {
		return a.own
	}
	return a.inbound.linked(h, peer, call)
}

// floor reports whether a call may be made for no task that is known.
func floor(o *outgoing) bool {
	return slices.Contains(o.peer.Floor, "*") || o.proven.Skill != "" && slices.Contains(o.peer.Floor, o.proven.Skill)
}

// continues reports whether a call is about a task of the peer that was begun
// for t, and about nothing else.
func (a *Attach) continues(t *task, o *outgoing) bool {
	_, known := t.begunAt(begunKey{o.peer.Name, o.call.Tenant, o.call.Task})
	return known && o.proven.Skill == ""
}

// headerPurpose says what a call is for, to be recorded.
const headerPurpose = "Powerbox-Purpose"

// sign puts on the headers of a call what it is made under, and returns that.
func (a *Attach) sign(ctx context.Context, h http.Header, o *outgoing) (*task, holder.Capability, error) {
	t, err := a.taskOf(h, o)
	if err != nil {
		return nil, holder.Capability{}, err
	}
	strip(h)
	if o.agent.Negotiates && !slices.Contains(o.call.Extensions, a2a.ExtensionURI) {
		h.Add("A2A-Extensions", a2a.ExtensionURI) // an agent may require it (EXT-36)
	}
	if t.restrict {
		h.Set(headerPurpose, "uncorrelated")
	}
	if !o.presents() {
		return t, holder.Capability{}, a.identify(ctx, t, h, o)
	}
	held, ok, err := a.under(ctx, t, o)
	if err != nil {
		return t, held, err
	}
	if !ok {
		return t, held, a.identify(ctx, t, h, o)
	}
	attempt, err := o.attempt()
	if err != nil {
		return t, held, err
	}
	if err := a.config.Client.Present(h, o.agent, held, attempt); err != nil {
		return t, held, err
	}
	handed, err := a.handOver(ctx, t, o)
	if err != nil || len(handed) == 0 {
		return t, held, err
	}
	value, err := holder.JoinDelegations(handed...)
	if err == nil {
		h.Set(holder.HeaderDelegation, value)
	}
	return t, held, err
}

// identify says who calls, where the client beside us does not say so itself.
// A task that came in is not the session's, which must not lend it anything.
func (a *Attach) identify(ctx context.Context, t *task, h http.Header, o *outgoing) error {
	if !o.agent.Negotiates || h.Get("Authorization") != "" || h.Get("DPoP") != "" {
		return nil
	}
	client := *a.config.Client
	if t.cameIn {
		client.Session = nil
	}
	return client.Identify(ctx, h, o.agent, o.method, o.claimed)
}

// strip removes our headers: no other party presents anything, and those that
// name the task of a call are not for others.
func strip(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "powerbox-") {
			delete(h, name)
		}
	}
	stripTraceState(h)
}

// denial words an error for the client beside us.
func denial(err error) a2a.Denial {
	var denied *holder.Denied
	var pending *holder.Pending
	switch {
	case errors.As(err, &denied):
		return a2a.Denial{
			Reason: string(denied.Code), Message: denied.Message, Missing: denied.Missing, Fix: denied.Fix,
			DecisionID: denied.DecisionID, ApprovalURL: denied.ApprovalURL, Retryable: denied.Retryable,
		}
	case errors.As(err, &pending):
		return a2a.Denial{Reason: "approval_pending", Message: "the capability for this call waits for a person's approval", ApprovalURL: pending.ApprovalURL, Retryable: true}
	case errors.Is(err, errUncorrelated):
		return a2a.Denial{Reason: "uncorrelated", Message: err.Error()}
	case errors.Is(err, holder.ErrHeaderBudget):
		return a2a.Denial{Reason: "header_budget", Message: err.Error(), Fix: "delegate over fewer hops, or hand capabilities over in the request's metadata"}
	}
	return a2a.Denial{Code: a2a.CodeInternal, Reason: "attach", Message: err.Error(), Retryable: true}
}
