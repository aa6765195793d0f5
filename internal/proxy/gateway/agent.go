package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/hop"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// agent is a configured agent with what its card says.
type agent struct {
	Agent
	gateway *Gateway

	present context.Context // ends when the agent is taken away
	leave   context.CancelFunc

	hosts    map[string]bool    // of the agent, as an operator named them
	contexts token.Contexts     // for the agent behind
	refusals chan struct{}      // answers to an MCP server that are under way
	patient  chan struct{}      // calls that wait for a person at an open connection
	fetches  singleflight.Group // at most one fetch of the card at a time

	mu      sync.Mutex // guards the fields below
	fetched time.Time
	current *view
	failed  time.Time
	down    time.Time // when fetches began to fail
	failure error     // of the last fetch; nil when it went well
}

const (
	// fetchTime bounds one fetch of a card, regardless of who waits for it.
	fetchTime = 10 * time.Second
	// failureLife is how long a fetch that failed is not tried again.
	failureLife = 2 * time.Second
)

// view is what one version of a card amounts to.
type view struct {
	raw  []byte
	tag  string // entity tag that the agent gave it, "" for none
	card a2a.CardView
	// contract is what the card declares of the agent as a peer.
	contract agentcard.Card
	target   gate.Target
}

func newAgent(a Agent, g *Gateway) *agent {
	if a.Transport == nil {
		a.Transport, a.HTTP2 = g.config.Transport, g.config.HTTP2
		a.Public, a.PublicHTTP2 = g.config.Public, g.config.PublicHTTP2
	}
	if a.Cards == nil {
		a.Cards = g.config.Cards
	}
	present, leave := context.WithCancel(g.ending)
	return &agent{Agent: a, gateway: g, present: present, leave: leave, hosts: namedHosts(a.Upstream, a.GRPCUpstream), refusals: make(chan struct{}, maxRefusals), patient: make(chan struct{}, maxPatient)}
}

// view returns the agent as its card describes it. A card that is too old is
// fetched again while the last one is used, for as long as ten times its life;
// after that the agent has no skills, and callers wait for the fetch. It is not
// one caller's: a caller that gives up ends it for no other caller.
func (a *agent) view(ctx context.Context) (*view, error) {
	usable, fresh, err := a.known()
	if fresh || err != nil {
		return usable, err
	}
	fetch := a.fetches.DoChan("", a.refresh)
	if usable != nil {
		return usable, nil
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("card of agent %q: %w", a.ID, ctx.Err())
	case r := <-fetch:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*view), nil
	}
}

// known returns the view that can be used now, nil where there is none, and
// whether to leave it at that: it is new enough, or the last fetch failed only
// just now, which without a view is an error.
func (a *agent) known() (usable *view, fresh bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.gateway.config.Now()
	age := now.Sub(a.fetched)
	fresh = a.current != nil && age < cardLife
	if a.current != nil && age < 10*cardLife {
		usable = a.current
	}
	if !fresh && a.failure != nil && now.Sub(a.failed) < failureLife {
		if usable == nil {
			return nil, false, a.failure
		}
		fresh = true
	}
	return usable, fresh, nil
}

// refresh fetches the card and keeps what came of it.
func (a *agent) refresh() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	v, err := a.fetch(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.gateway.config.Now()
	if err != nil {
		if a.failure == nil {
			a.down = now
		}
		a.failed, a.failure = now, fmt.Errorf("card of agent %q: %w", a.ID, err)
		return nil, a.failure
	}
	a.current, a.fetched, a.failure = v, now, nil
	return v, nil
}

func (a *agent) fetch(ctx context.Context) (*view, error) {
	if a.MCP != nil {
		return a.mcpView()
	}
	address := strings.TrimSuffix(a.Upstream, "/") + "/.well-known/agent-card.json"
	a.mu.Lock()
	last := a.current
	a.mu.Unlock()
	tag := ""
	if last != nil {
		tag = last.tag
	}
	raw, header, changed, err := a.Cards.GetChanged(ctx, address, "application/json", tag)
	if err != nil {
		return nil, err
	}
	if !changed { // the result stays valid: settings change with a new gateway
		return last, a.seen(ctx, last.raw) // another gateway may have seen another one since
	}
	if !a.CardKeys.IsZero() {
		signature, err := agentcard.Verify(raw, a.CardKeys)
		if err != nil {
			return nil, err
		}
		raw = signature.Card // an unsigned part could be anybody's
	}
	card, err := a2a.ReadCard(raw)
	if err != nil {
		return nil, err
	}
	if !card.Protectable() {
		return nil, a2a.ErrNoInterface
	}
	v := &view{raw: raw, card: card, tag: header.Get("ETag")}
	v.contract, _ = agentcard.Lint(raw, false) // what cannot be read is not declared
	if err := a.agreed(v.contract); err != nil {
		return nil, err
	}
	if err := a.seen(ctx, raw); err != nil {
		return nil, err
	}
	v.target, err = a.target(card)
	return v, err
}

// seen tells which card the agent has, before anything is done by it.
func (a *agent) seen(ctx context.Context, raw []byte) error {
	if seen := a.gateway.config.CardSeen; seen != nil {
		return seen(ctx, a.ID, raw)
	}
	return nil
}

// errWidened is the root of errors of a card that offers more than the
// one that was agreed to.
var errWidened = errors.New("the card widened what was agreed to (card_pin)")

// agreed asks whether a card is within the one that the operator pinned. Grants
// were approved with that one in view; anyone who may change a card must not change
// what they mean (CARD-13).
func (a *agent) agreed(card agentcard.Card) error {
	if a.CardPin == nil || card.Digest() == a.CardPin.Digest() {
		return nil
	}
	if !agentcard.Relied(card.Problems()) {
		return fmt.Errorf("%w: it cannot be relied on, as powerbox card lint says", errWidened)
	}
	for _, c := range agentcard.DiffCards(*a.CardPin, card) {
		if c.Kind == agentcard.Widens {
			return fmt.Errorf("%w: %s: %s; look at it with powerbox card diff, and replace the pinned file to consent", errWidened, c.Subject, c.Message)
		}
	}
	return nil
}

// target makes the gate's view of the agent: Caps(B) are the operations that
// the skills on its card map to (GATE-4).
func (a *agent) target(card a2a.CardView) (gate.Target, error) {
	t := gate.Target{
		ID: a.ID, URL: a.URL, Required: a.Required, Foreign: a.Foreign,
		EnforcesContext: a.EnforcesContext, AdmitFreeText: a.AdmitFreeText, RefuseAmbient: a.RefuseAmbient,
		Links: a.Scopes.links(), Degraded: a.Degraded,
		Trust: a.thresholds(), TrustAny: a.Trust,
	}
	clauses := a.mcpClauses()
	for _, name := range card.Skills {
		s, ok := a.Skills[name]
		if !ok || slices.ContainsFunc(clauses, func(c powerbox.Clause) bool { return c.Pattern.Matches(s.Operation) }) {
			continue
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(s.Operation), Shape: s.Shape})
	}
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(reserved[name]), Shape: powerbox.AnyArguments()})
	}
	var err error
	t.Caps, err = powerbox.NewAuthority(powerbox.Window{Until: forever}, token.MaxDepth, clauses...)
	return t, err
}

// Target returns an agent as the gate knows it now, and what its skills map to;
// false where there is none of that id.
func (g *Gateway) Target(ctx context.Context, id string) (gate.Target, map[string]Skill, bool, error) {
	a, ok := g.all()[id]
	if !ok {
		return gate.Target{}, nil, false, nil
	}
	v, err := a.view(ctx)
	if err != nil {
		return gate.Target{}, nil, true, err
	}
	t := v.target
	t.Anchors = a.Keys()
	skills := map[string]Skill{}
	for _, name := range v.card.Skills {
		if s, mapped := a.Skills[name]; mapped {
			skills[name] = s
		}
	}
	return t, skills, true, nil
}

// thresholds are the levels of trust that operations need. Of two skills that are
// one operation the higher one counts.
func (a *agent) thresholds() map[string]trust.Level {
	out := map[string]trust.Level{}
	for _, s := range a.Skills {
		if name := s.Operation.String(); s.Trust != "" && !out[name].Reaches(s.Trust) {
			out[name] = s.Trust
		}
	}
	return out
}

// forever is the end of windows that only other layers bound.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// reserved are the operations that stand for what A2A does with a task.
var reserved = func() map[string]powerbox.Operation {
	out := map[string]powerbox.Operation{}
	for _, name := range []string{a2a.OperationMessage, a2a.OperationTaskRead, a2a.OperationTaskCancel, a2a.OperationPush, a2a.OperationCard} {
		out[name] = must(name)
	}
	return out
}()

func must(name string) powerbox.Operation {
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		panic("gateway: a reserved operation has a name: " + err.Error())
	}
	return op
}

// card serves the agent's card with our URL, our extension and nothing that
// would lead past the gateway. With a skill in the path it is a card of that
// skill alone, for clients that cannot name one.
func (g *Gateway) card(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
	v, err := a.view(r.Context())
	if err != nil {
		g.config.Log.WarnContext(r.Context(), "no card to serve", "agent", a.ID, "error", err)
		http.Error(w, fmt.Sprintf("agent %q does not answer the gateway with a card; start it, or correct its upstream in the gateway's configuration (powerbox doctor names the address)", a.ID), http.StatusBadGateway)
		return
	}
	if _, mapped := a.Skills[skill]; skill != "" && (!mapped || !slices.Contains(v.card.Skills, skill)) {
		http.Error(w, "no such skill", http.StatusNotFound)
		return
	}
	card, err := g.inFront(a, skill, v.raw)
	if err != nil {
		g.config.Log.ErrorContext(r.Context(), "card not rewritten", "agent", a.ID, "error", err)
		http.Error(w, "the agent's card cannot be served", http.StatusBadGateway)
		return
	}
	hop.ServeCard(w, r, card)
}

// Card returns the card of an agent as clients see it.
func (g *Gateway) Card(ctx context.Context, agent string) ([]byte, error) {
	a, ok := g.all()[agent]
	if !ok {
		return nil, fmt.Errorf("gateway: no agent %q", agent)
	}
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	return g.inFront(a, "", v.raw)
}

// Look is the last look of the gateway at an agent.
type Look struct {
	Asked   bool // false for an agent that is asked for no card
	At      time.Time
	Down    time.Time // of the first look that failed, where the last did
	Failure error     // nil where the agent answered
	Card    []byte    // as the agent has it; nil where none can be used
}

// Look returns the last look at an agent without waiting for another one. Where that is too
// old, the agent is asked again meanwhile.
func (g *Gateway) Look(agent string) (Look, error) {
	a, ok := g.all()[agent]
	if !ok {
		return Look{}, fmt.Errorf("gateway: no agent %q", agent)
	}
	usable, fresh, failure := a.known()
	if !fresh && failure == nil {
		refreshed := a.fetches.DoChan("", a.refresh)
		if a.MCP != nil || a.Local { // it is made here
			if r := <-refreshed; r.Err == nil {
				usable, _ = r.Val.(*view)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := Look{Asked: a.MCP == nil, At: a.fetched, Failure: a.failure}
	if a.failure != nil {
		l.At, l.Down = a.failed, a.down
	}
	if usable != nil {
		l.Card = usable.raw
	}
	return l, nil
}

// inFront makes the card that clients see of one of the agent's: with our URLs,
// and signed by the agent's key here, since no other signature is of that card.
// A card that cannot be signed has none.
func (g *Gateway) inFront(a *agent, skill string, raw []byte) ([]byte, error) {
	card, err := a2a.RewriteCard(raw, a.rewritten(skill))
	if err != nil {
		return nil, err
	}
	signed, err := agentcard.Sign(card, a.Signer())
	if errors.Is(err, agentcard.ErrOlder) {
		return card, nil
	}
	if err != nil {
		g.config.Log.Warn("a card is served without a signature", "agent", a.ID, "error", err)
		return card, nil
	}
	return signed, nil
}

// rewritten is what becomes of a card of the agent at its URL, or at that of a
// skill.
func (a *agent) rewritten(skill string) a2a.Rewrite {
	public := a.URL
	if skill != "" {
		public += "/skills/" + skill
	}
	grpc := a.GRPC
	if skill != "" {
		grpc = "" // the URL is what names the skill, and gRPC has no path of ours
	}
	return a2a.Rewrite{PublicURL: public, GRPC: grpc, MCP: a.MCP != nil, Grants: a.Grants, Params: a.params(), LegacyMember: a.LegacyMember, OnlySkill: skill, Required: a.NeedsExtension, Scopes: a.Scopes.params(), ScopesRequired: a.Scopes.Evidence}
}

// params are the members of our extension's params that say how to make a
// proof: the audience and what each skill maps to.
func (a *agent) params() []byte {
	skills := make([]powerbox.Member, 0, len(a.Skills))
	for name, s := range a.Skills {
		ms := []powerbox.Member{{Name: "operation", Value: powerbox.String(s.Operation.String())}}
		if s.Handle != "" {
			ms = append(ms, powerbox.Member{Name: "handle", Value: powerbox.String(s.Handle)})
		}
		skills = append(skills, powerbox.Member{Name: name, Value: powerbox.Object(ms...)})
	}
	return powerbox.Object(
		powerbox.Member{Name: "issuer", Value: powerbox.String(a.URL)},
		powerbox.Member{Name: "jwksUrl", Value: powerbox.String(a.URL + "/.well-known/jwks.json")},
		powerbox.Member{Name: "skills", Value: powerbox.Object(skills...)},
	).AppendJSON(nil)
}

// keys serves the public keys under which the agent's capabilities and
// contexts are signed (EXT-33).
func (g *Gateway) keys(w http.ResponseWriter, _ *http.Request, a *agent, _ string) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=60")
	_, _ = w.Write(a.Published()) // as above
}
