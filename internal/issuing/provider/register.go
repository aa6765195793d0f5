package provider

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Asked is one capability that an agent asks for.
type Asked struct {
	Name        string
	Constraints powerbox.Value // null for none
	// Lasts is how long a grant by hand lasts; 0 for a day.
	Lasts time.Duration
}

// Registration is a host's description of a new agent (section 5.3).
type Registration struct {
	Name         string
	HostName     string
	Mode         string // "" for delegated
	Capabilities []Asked
	Asking
}

// Asking comes with every request that a person may have to approve.
type Asking struct {
	Reason    string
	Method    string // preferred; a hint
	LoginHint string
	Message   string
	From      string // address that it comes from, as the connection says
}

// AgentState is an agent as its host is told of it.
type AgentState struct {
	Agent     Agent
	Host      Host
	Status    agentauth.Status // computed
	Grants    []Grant
	Expires   time.Time  // zero unless it is active
	Challenge *Challenge // nil unless a person is asked
}

// Challenge is how to have an approval answered.
type Challenge struct {
	Approval Approval
	Code     string // user code, "" where there is none
}

// wish is a requested capability, met with the server's own constraints on it.
type wish struct {
	capability  *Capability
	constraints json.RawMessage
}

// maxAsked bounds how many capabilities are asked for at once, and how many
// grants an agent has that are not over.
const maxAsked = 64

// wishes checks the requested capabilities. Nothing vanishes: an unavailable one is
// named (AAP-R7, AAP-R11, AAP-G3, AAP-G4).
func (p *Provider) wishes(asked []Asked) ([]wish, error) {
	if len(asked) > maxAsked {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%d capabilities are asked for; want at most %d", len(asked), maxAsked)
	}
	var bad []string
	for _, a := range asked {
		if c := p.capabilities[a.Name]; c == nil || c.Blocked {
			bad = append(bad, clipped(a.Name))
		}
	}
	if len(bad) > 0 {
		e := agentauth.Errorf(agentauth.CodeInvalidCapability, "capabilities %q cannot be asked for here", bad)
		e.Invalid = bad
		return nil, e
	}
	var out []wish
	for _, a := range asked {
		w := wish{capability: p.capabilities[a.Name]}
		shape, err := p.bounded(w.capability, a.Constraints)
		if err != nil {
			return nil, err
		}
		w.constraints = wireConstraints(shape)
		if !slices.ContainsFunc(out, func(o wish) bool {
			return o.capability == w.capability && string(o.constraints) == string(w.constraints)
		}) {
			out = append(out, w)
		}
	}
	return out, nil
}

// bounded meets constraints with those of the server: the tightest wins (AAP-P6).
func (p *Provider) bounded(c *Capability, constraints powerbox.Value) (powerbox.Shape, error) {
	shape, err := p.config.Options.ParseConstraints(constraints)
	if err != nil {
		return powerbox.Shape{}, err
	}
	if known, ok := topLevel(c.Input); ok {
		for _, f := range shape.Fields() {
			if !slices.Contains(known, f.Name) {
				return powerbox.Shape{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "constraints: capability %q has no input field %q; its fields are %s", c.Name, clipped(f.Name), strings.Join(known, ", "))
			}
		}
	}
	met, left := shape.Meet(c.Constraints)
	if _, sayable := agentauth.Constraints(met); !left || met.Empty() || !sayable {
		return powerbox.Shape{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "constraints: nothing of capability %q remains under those that are asked for and the server's own", c.Name)
	}
	if _, err := powerbox.ParseShape(met.JSON()); err != nil { // a capability has bounds, which wire constraints can exceed
		return powerbox.Shape{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "constraints of %q: %v", c.Name, err)
	}
	return met, nil
}

// topLevel returns the input fields that a schema names, and false where it
// admits others.
func topLevel(schema powerbox.Value) ([]string, bool) {
	properties, ok := schema.Get("properties")
	if !ok {
		return nil, false
	}
	if more, ok := schema.Get("additionalProperties"); ok {
		if admitted, isBool := more.Truth(); !isBool || admitted {
			return nil, false
		}
	}
	members, _ := properties.Members()
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names, true
}

func wireConstraints(s powerbox.Shape) json.RawMessage {
	v, _ := agentauth.Constraints(s)
	if v.Kind() == powerbox.KindNull {
		return nil
	}
	return v.AppendJSON(nil)
}

// shape reads the constraints of a stored grant (AAP-E7).
func (p *Provider) shape(g Grant) (powerbox.Shape, error) {
	if g.Constraints == nil {
		return powerbox.AnyArguments(), nil
	}
	v, err := powerbox.ParseValue(g.Constraints)
	if err != nil {
		return powerbox.Shape{}, agentauth.Errorf(agentauth.CodeInternal, "the constraints of a grant are damaged")
	}
	return p.config.Options.ParseConstraints(v)
}

// within returns the arguments that a grant admits within the server's present
// constraints on its capability, and false where none remain (AAP-P6). These can be
// narrower than when it was given.
func (p *Provider) within(g Grant) (powerbox.Shape, bool, error) {
	given, err := p.shape(g)
	c := p.capabilities[g.Capability]
	if err != nil || c == nil {
		return given, err == nil, err
	}
	met, left := given.Meet(c.Constraints)
	return met, left && !met.Empty(), nil
}

// Remains reports whether anything can be done under a grant by now.
func (p *Provider) Remains(g Grant) bool {
	_, left, err := p.within(g)
	return err == nil && left
}

// effective are grants with the constraints that they hold to by now, as their agents
// and anyone who judges them are told (AAP-G3, AAP-A9, section 5.3). An approval is for
// the grant as shown, whatever the server holds it to afterwards. A grant whose
// constraints have become empty is shown as it was given.
func (p *Provider) effective(grants []Grant) []Grant {
	out := slices.Clone(grants)
	for i, g := range out {
		if c := p.capabilities[g.Capability]; g.Status != agentauth.Active && g.Status != agentauth.Pending || c == nil || len(c.Constraints.Fields()) == 0 {
			continue
		}
		met, left, err := p.within(g)
		if _, sayable := agentauth.Constraints(met); err == nil && left && sayable {
			out[i].Constraints = wireConstraints(met)
		}
	}
	return out
}

// Register registers an agent under its host (section 5.3).
func (p *Provider) Register(ctx context.Context, s HostSession, r Registration) (AgentState, error) {
	if r.Mode == "" {
		r.Mode = agentauth.Delegated
	}
	if !slices.Contains(p.config.Modes, r.Mode) {
		return AgentState{}, agentauth.Errorf(agentauth.CodeUnsupportedMode, "mode %q cannot be registered here; want one of %v", clipped(r.Mode), p.config.Modes)
	}
	if r.Name = plain(r.Name, maxNameText); r.Name == "" {
		return AgentState{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "name is missing; people see it when they are asked")
	}
	key, err := p.newAgentKey(ctx, s)
	if err != nil {
		return AgentState{}, err
	}
	wanted, err := p.wishes(r.Capabilities)
	if err != nil {
		return AgentState{}, err
	}
	var out AgentState
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		var err error
		out, err = p.register(tx, s, r, key, wanted)
		return err
	})
	return out, err
}

// newAgentKey is the key of an agent that is to be registered (AAP-H10, AAP-H12).
func (p *Provider) newAgentKey(ctx context.Context, s HostSession) (token.PublicKey, error) {
	t := s.token
	inline := t.AgentKey.Kind() != powerbox.KindNull
	switch {
	case inline == (t.AgentKeysURL != ""):
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "want exactly one of agent_public_key and agent_jwks_url in the host's token")
	case inline:
		return agentauth.ParseKey(t.AgentKey)
	case t.AgentKeyID == "":
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "agent_jwks_url without agent_kid, which names the key")
	case t.AgentKeysURL == t.HostKeysURL, t.AgentKeysURL == s.Host.KeysURL:
		return token.PublicKey{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "agent_jwks_url is the host's own; want another")
	}
	return p.fetched(ctx, t.AgentKeysURL, t.AgentKeyID)
}

func (p *Provider) register(tx Tx, s HostSession, r Registration, key token.PublicKey, wanted []wish) (AgentState, error) {
	now := p.config.Now()
	host, err := p.registering(tx, s, r, now)
	if err != nil {
		return AgentState{}, err
	}
	if key.Thumbprint() == host.Thumbprint {
		return AgentState{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent's key is its host's; want one of its own")
	}
	a, err := tx.HostAgentByKey(host.ID, key.Thumbprint())
	switch {
	case err == nil && a.at(now) == agentauth.Pending:
		return p.again(tx, host, a, r.Asking, wanted, now)
	case err == nil:
		return AgentState{}, agentauth.Errorf(agentauth.CodeAgentExists, "an agent of that key is registered and %s; want a new key for a new agent", a.at(now))
	case !notFound(err):
		return AgentState{}, err
	}
	id, err := p.config.Issuer.NewID("agt_")
	if err != nil {
		return AgentState{}, err
	}
	a = Agent{
		ID: id, Host: host.ID, Name: r.Name, Mode: r.Mode, Thumbprint: key.Thumbprint(), KeysURL: s.token.AgentKeysURL, KeyID: s.token.AgentKeyID,
		Reason: plain(r.Reason, maxReasonText), Status: agentauth.Pending, Clocks: p.clocks(r.Mode, host.ID, ""), Created: now, Updated: now,
	}
	if a.Mode == agentauth.Delegated {
		a.User = host.User
	}
	if a.KeysURL == "" {
		a.Key = key.JWK().AppendJSON(nil)
	}
	grants, err := p.pendingGrants(a, wanted, now)
	if err != nil {
		return AgentState{}, err
	}
	details := map[string]any{"agent": a.ID, "host": host.ID, "mode": a.Mode, "key": a.Thumbprint}
	refused, err := refusedBefore(tx, host)
	if err != nil {
		return AgentState{}, err
	}
	if !refused && p.atOnce(host, a, wanted) {
		return p.begin(tx, host, a, grants, "policy:defaults", details)
	}
	if err := tx.PutHostAgent(a); err != nil {
		return AgentState{}, err
	}
	for _, g := range grants {
		if err := tx.PutGrant(g); err != nil {
			return AgentState{}, err
		}
	}
	challenge, err := p.challenge(tx, host, a, grants, ForRegistration, r.Asking, now)
	if err != nil {
		return AgentState{}, err
	}
	details["approval"], details["capabilities"] = challenge.Approval.ID, asHeard(grants)
	return p.standing(host, a, grants, challenge), p.append(tx, hostName(host), a.User, action.AgentRegister, details)
}

// hostSeen is how exactly it is stored when a host last registered an agent.
const hostSeen = time.Minute

// registering returns the host of a registration, stored where it is new.
func (p *Provider) registering(tx Tx, s HostSession, r Registration, now time.Time) (Host, error) {
	h, err := tx.HostByKey(s.Host.Thumbprint)
	name := plain(r.HostName, maxNameText)
	switch {
	case err == nil && h.Status == agentauth.Revoked:
		return Host{}, agentauth.Errorf(agentauth.CodeHostRevoked, "the host has been revoked")
	case err == nil && h.Status != agentauth.Rejected && now.Sub(h.LastUsed) < hostSeen && (name == "" || name == h.Name):
		return h, nil
	case err == nil:
		h.LastUsed, h.Updated = now, now
		if name != "" {
			h.Name = name
		}
		if h.Status == agentauth.Rejected {
			h.Status = agentauth.Pending // no person has approved it yet, and one is asked again
		}
	case !notFound(err):
		return Host{}, err
	case !s.New:
		return Host{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the host's key has been replaced in the meantime")
	default:
		h = s.Host
		h.Name, h.Status, h.Created, h.Updated, h.LastUsed, h.From = name, agentauth.Pending, now, now, now, r.From
		if h.ID, err = p.config.Issuer.NewID("hst_"); err != nil {
			return Host{}, err
		}
	}
	return h, tx.PutHost(h)
}

// refusedBefore reports whether a person has refused a host that waits: from then on
// only a person lets it in, whatever strangers get at once.
func refusedBefore(r AgentReader, h Host) (bool, error) {
	if h.Status != agentauth.Pending {
		return false, nil
	}
	agents, err := r.HostAgents(h.ID)
	return slices.ContainsFunc(agents, func(a Agent) bool { return a.Status == agentauth.Rejected }), err
}

// atOnce reports whether an agent needs no approval. It needs none at a linked host for
// its defaults. At a host without a user, an autonomous agent needs none for the
// capabilities that an operator grants such agents (AAP-R4, AAP-R12, AAP-U2). This holds
// at known hosts, or where the operator says so at any. A high-risk request always needs
// approval.
func (p *Provider) atOnce(h Host, a Agent, wanted []wish) bool {
	if h.Status != agentauth.Active && (!p.config.AnyHost || a.Mode != agentauth.Autonomous || len(wanted) == 0) {
		return false // nothing before the host is approved (AAP-M4, AAP-H13)
	}
	autonomous := a.Mode == agentauth.Autonomous && h.User == ""
	if h.User == "" && !autonomous {
		return false
	}
	return !slices.ContainsFunc(wanted, func(w wish) bool {
		c := w.capability
		if c.Sensitivity == High {
			return true
		}
		if autonomous {
			return !c.Autonomous
		}
		return !slices.Contains(p.defaults(h), c.Name)
	})
}

// Defaults returns the capabilities that agents of a host have without asking.
func (p *Provider) Defaults(h Host) []string { return p.defaults(h) }

// defaults are the capabilities that agents of a host have without asking. One that
// changes something is among them only where the person who linked the host was present,
// and a blocked one never (AAP-A7, AAP-R10).
func (p *Provider) defaults(h Host) (names []string) {
	for _, name := range p.order {
		c, listed := p.capabilities[name], slices.Contains(h.Defaults, name)
		switch {
		case h.OwnList && !listed, !h.OwnList && !c.Default, c.Blocked:
		case c.Sensitivity != Read && h.User != "" && !h.Vouched:
		default:
			names = append(names, name)
		}
	}
	return names
}

func (p *Provider) pendingGrants(a Agent, wanted []wish, now time.Time) ([]Grant, error) {
	var out []Grant
	for _, w := range wanted {
		id, err := p.config.Issuer.NewID("grt_")
		if err != nil {
			return nil, err
		}
		out = append(out, Grant{
			ID: id, Agent: a.ID, Capability: w.capability.Name, Status: agentauth.Pending, Constraints: w.constraints,
			Reason: a.Reason, Created: now, Updated: now,
		})
	}
	return out, nil
}

// begin makes an agent active with its grants.
func (p *Provider) begin(tx Tx, h Host, a Agent, grants []Grant, by string, details map[string]any) (AgentState, error) {
	now := p.config.Now()
	if h.Status == agentauth.Pending { // of autonomous agents
		h.Status, h.Activated, h.Updated = agentauth.Active, now, now
		if err := tx.PutHost(h); err != nil {
			return AgentState{}, err
		}
	}
	a.Status, a.Activated, a.LastUsed, a.Updated = agentauth.Active, now, now, now
	if err := tx.PutHostAgent(a); err != nil {
		return AgentState{}, err
	}
	for i := range grants {
		if err := p.activate(tx, &a, &grants[i], by, now); err != nil {
			return AgentState{}, err
		}
	}
	// No person has approved the agent's words here, although the grants are in force.
	details["granted_by"], details["capabilities"] = by, asHeard(grants)
	return p.standing(h, a, grants, nil), p.append(tx, hostName(h), a.User, action.AgentRegister, details)
}

// again answers a registration that was made before and not decided: the same
// agent, and a code that can still be used (AAP-R6, AAP-A12).
func (p *Provider) again(tx Tx, h Host, a Agent, asking Asking, wanted []wish, now time.Time) (AgentState, error) {
	grants, err := p.grants(tx, a.ID)
	if err != nil {
		return AgentState{}, err
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(grants, func(g Grant) bool { return (g.Status == agentauth.Pending || g.Effective(now)) && p.meant(g, w) }) {
			return AgentState{}, agentauth.Errorf(agentauth.CodeAgentExists,
				"an agent of that key waits for its approval, and did not ask for %q so; ask for it once the agent is active, or register another with a new key", w.capability.Name)
		}
	}
	challenge, err := p.challenge(tx, h, a, grants, ForRegistration, asking, now)
	if err == nil && a.Unasked != "" {
		a.Unasked = ""
		err = tx.PutHostAgent(a)
	}
	if err != nil {
		return AgentState{}, err
	}
	return p.standing(h, a, grants, challenge), p.append(tx, hostName(h), a.User, action.AgentRegisterAgain,
		map[string]any{"agent": a.ID, "host": h.ID, "approval": challenge.Approval.ID})
}

// meant reports whether a grant is the one that a wish asks for, constraints and all.
func (p *Provider) meant(g Grant, w wish) bool {
	shape, err := p.shape(g)
	return err == nil && g.Capability == w.capability.Name && string(wireConstraints(shape)) == string(w.constraints)
}

// standing is an agent as it is now.
func (p *Provider) standing(h Host, a Agent, grants []Grant, c *Challenge) AgentState {
	p.merge(&a)
	now := p.config.Now()
	s := AgentState{Agent: a, Host: h, Status: a.at(now), Grants: p.effective(grants), Challenge: c}
	for i, g := range s.Grants {
		if g.Status == agentauth.Pending && !p.offered(g) { // no person can approve it any more
			s.Grants[i].Status, s.Grants[i].Reason = agentauth.Denied, endedGone
		}
	}
	if s.Status == agentauth.Active {
		s.Expires = a.expires()
	}
	return s
}

// asHeard returns grants as a record names an agent's request, or grants at once. Names
// and values of constraints are an agent's words until a person has approved them. Until
// then the record, which stays, has only their length and digest (ATK-84).
func asHeard(grants []Grant) []any { return onRecord(grants, false) }

// asApproved returns grants as a record of an approval names them: their constraints are
// the person's words, too.
func asApproved(grants []Grant) []any { return onRecord(grants, true) }

func onRecord(grants []Grant, answered bool) []any {
	out := make([]any, 0, len(grants))
	for _, g := range grants {
		one := map[string]any{"grant": g.ID, "capability": g.Capability}
		switch {
		case g.Constraints == nil:
		case answered && g.Status == agentauth.Active:
			one["constraints"] = g.Constraints
		default:
			sum := sha256.Sum256(g.Constraints)
			one["constraints_digest"], one["constraints_bytes"] = base64.RawURLEncoding.EncodeToString(sum[:]), len(g.Constraints)
		}
		out = append(out, one)
	}
	return out
}
