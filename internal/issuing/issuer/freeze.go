package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// TargetError says that a target cannot be frozen or thawed, and what can be.
type TargetError struct{ Message string }

func (e *TargetError) Error() string { return e.Message }

func noTarget(format string, args ...any) error {
	return &TargetError{fmt.Sprintf(format, args...)}
}

// maxReason is the size of the longest reason in bytes.
const maxReason = 1024

// byCard says how what stops with a card continues.
var byCard = noTarget("what was granted under a card stops when the card widens, and continues after powerbox grant consent AGENT")

// AgentTarget is what a freeze of an agent names.
func AgentTarget(name string) string { return "agent:" + name }

// cardTarget is what a stop names of everything that an agent issued with one card
// in view, by its digest (CARD-13).
func cardTarget(agent, digest string) string { return gate.CardPrefix + agent + ":" + digest }

// KnowCard says which card an agent has now: what it issues from here on was issued
// with that one in view.
func (i *Issuer) KnowCard(agent, digest string) { i.cards.Store(agent, digest) }

// Card is the digest of the card that an agent has now, "" where none is known.
func (i *Issuer) Card(agent string) string {
	digest, _ := i.cards.Load(agent)
	text, _ := digest.(string)
	return text
}

// StopCard stops what an agent issued with a card in view, until [Issuer.GoCard].
// Stopped capabilities stay so.
func (i *Issuer) StopCard(ctx context.Context, agent, digest, reason string) error {
	if i.Frozen(cardTarget(agent, digest)) {
		return nil
	}
	_, err := i.stop(ctx, KindFreeze, "server", agent, cardTarget(agent, digest), reason)
	return err
}

// GoCard lets continue what StopCard stopped.
func (i *Issuer) GoCard(ctx context.Context, agent, digest, reason string) error {
	if !i.Frozen(cardTarget(agent, digest)) {
		return nil
	}
	_, err := i.stop(ctx, KindThaw, "server", agent, cardTarget(agent, digest), reason)
	return err
}

// Frozen reports whether a freeze is in force for an id: of a capability, a
// token, a derived link or a holder, "agent:" with a configured name, or the
// pseudonym of a principal.
func (i *Issuer) Frozen(id string) bool { return i.revoked.Load().frozen[id] }

// FrozenPrincipal reports whether a freeze is in force for a principal, by its name or by
// its pseudonym at any agent.
func (i *Issuer) FrozenPrincipal(principal string) bool {
	return len(i.revoked.Load().frozen) > 0 && i.FrozenAny(i.namesOf(principal))
}

// namesOf are the names by which a freeze can mean a principal: its own, and its pseudonyms.
func (i *Issuer) namesOf(principal string) []string {
	names := []string{principal, i.Pseudonym(issuerItself, principal)}
	for id := range i.all() {
		names = append(names, i.Pseudonym(id, principal))
	}
	return names
}

// Means reports whether a freeze of the target stops a principal.
func (i *Issuer) Means(target, principal string) bool {
	return target == principal || pseudonym.MatchString(target) && slices.Contains(i.namesOf(principal), target)
}

// FrozenAny reports whether a freeze is in force for any of the ids.
func (i *Issuer) FrozenAny(ids []string) bool {
	frozen := i.revoked.Load().frozen
	return len(frozen) > 0 && slices.ContainsFunc(ids, func(id string) bool { return frozen[id] })
}

// Freezes returns the freezes that are in force, oldest first.
func (i *Issuer) Freezes() []Revocation {
	out := []Revocation{}
	for _, f := range i.revoked.Load().freezes {
		if f.Kind == KindFreeze {
			out = append(out, f)
		}
	}
	sorting.Sort(out, func(a, b Revocation) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return out
}

// stops returns every id that a freeze of target stands for: itself, and for a
// principal its pseudonym at every agent, since that is all that a gate knows.
func (i *Issuer) stops(target string) []string {
	ids := []string{target}
	if maybePrincipal(target) {
		for id := range i.all() {
			ids = append(ids, i.Pseudonym(id, target))
		}
	}
	return ids
}

// Outside returns the name of what a freeze is of, and every id that it stands
// for, as they are told outside the server: users by their pseudonyms.
func (i *Issuer) Outside(target string) (name string, ids []string) {
	ids = i.stops(target)
	if !isPrincipal(target) {
		slices.Sort(ids[1:])
		return target, ids
	}
	ids = ids[1:]
	slices.Sort(ids)
	return i.Pseudonym(issuerItself, target), ids
}

var pseudonym = regexp.MustCompile(`^pw_[0-9a-f]{24}$`)

// notPrincipals begin the names of agents and holders.
var notPrincipals = regexp.MustCompile(`^(agent|card|key|mtls|client|dev|spiffe):`)

// maybePrincipal reports whether a user can have the name, also where a holder
// can: then both are frozen.
func maybePrincipal(target string) bool {
	return strings.Contains(target, ":") && !strings.HasPrefix(target, "agent:") && !strings.HasPrefix(target, "key:") && !strings.HasPrefix(target, gate.CardPrefix)
}

func isPrincipal(target string) bool {
	return strings.Contains(target, ":") && !notPrincipals.MatchString(target)
}

// Freeze stops what target names until it is thawed, in every mode: an agent
// ("agent:documents"), at which nothing continues and which can do nothing
// elsewhere; a principal ("user:alice", or its pseudonym at one agent); a
// holder ("key:..."); a capability ("cap_...", or its revocation id) with all
// that descends from it. It is recorded with its reason.
func (i *Issuer) Freeze(ctx context.Context, operator, target, reason string) (Revocation, error) {
	target, agent, err := i.freezable(ctx, target)
	if err != nil {
		return Revocation{}, err
	}
	return i.stop(ctx, KindFreeze, operator, agent, target, reason)
}

// Thaw lifts a freeze. Anything that is not frozen is refused, so that a mistaken name
// is noticed.
func (i *Issuer) Thaw(ctx context.Context, operator, target, reason string) (Revocation, error) {
	if strings.HasPrefix(target, gate.CardPrefix) {
		return Revocation{}, byCard
	}
	if i.revoked.Load().freezes[target].Kind != KindFreeze {
		resolved, _, err := i.freezable(ctx, target)
		var unknown *TargetError
		if err != nil && !errors.As(err, &unknown) {
			return Revocation{}, err
		}
		if i.revoked.Load().freezes[resolved].Kind != KindFreeze {
			return Revocation{}, noTarget("%q is not frozen; frozen are [%s]", target, strings.Join(i.frozenTargets(), ", "))
		}
		target = resolved
	}
	// A freeze can be thawed, also when the agent is gone.
	agent := issuerItself
	if _, of, err := i.freezable(ctx, target); err == nil {
		agent = of
	}
	return i.stop(ctx, KindThaw, operator, agent, target, reason)
}

func (i *Issuer) frozenTargets() []string {
	var out []string
	for _, f := range i.Freezes() {
		out = append(out, f.Target)
	}
	return out
}

// freezable returns the target as it is stored and the agent in whose chain
// the record belongs. A name that nothing here has is refused: an operator who
// mistypes must not believe that something was stopped.
func (i *Issuer) freezable(ctx context.Context, target string) (stored, agent string, err error) {
	name, isAgent := strings.CutPrefix(target, "agent:")
	_, protected := i.all()[name]
	switch {
	case isAgent && protected:
		return target, name, nil
	case isAgent && slices.Contains(i.callers(), name):
		return target, issuerItself, nil
	case isAgent:
		return "", "", noTarget("no agent %q is configured; there are [%s]", name, strings.Join(i.agentNames(), ", "))
	case strings.HasPrefix(target, gate.CardPrefix):
		return "", "", byCard
	case strings.HasPrefix(target, "cap_"), strings.HasPrefix(target, "rv_"):
		return i.freezableCapability(ctx, target)
	case pseudonym.MatchString(target):
		return target, issuerItself, nil
	}
	kind, rest, _ := strings.Cut(target, ":")
	if kind == "" || rest == "" || len(target) > 256 || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", "", noTarget("%q cannot be frozen; want agent:NAME, a principal such as user:alice or its pseudonym pw_..., a holder such as key:..., or a capability cap_...", target)
	}
	return target, issuerItself, nil
}

// StoppedAt returns a target as a freeze stores it, and the one agent at which it is:
// [ErrNotFound] where there is no such target, or none that is at one agent alone.
func (i *Issuer) StoppedAt(ctx context.Context, target string) (stored, agent string, err error) {
	stored, agent, err = i.freezable(ctx, target)
	var unknown *TargetError
	if errors.As(err, &unknown) || err == nil && agent == issuerItself {
		return "", "", ErrNotFound
	}
	return stored, agent, err
}

func (i *Issuer) freezableCapability(ctx context.Context, id string) (stored, agent string, err error) {
	var c Capability
	err = i.config.Store.View(ctx, func(r Reader) error {
		find := r.Capability
		if strings.HasPrefix(id, "rv_") {
			find = r.CapabilityByRevocation
		}
		var err error
		c, err = find(id)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return "", "", noTarget("no capability %q is on record; powerbox revoke --unrecorded takes ids that are not", id)
	}
	return c.ID, c.Agent, err
}

// Knows says which of a calling and a called agent is not configured: a statement about an
// unknown name would look like an answer.
func (i *Issuer) Knows(caller, agent string) error {
	if _, protected := i.all()[agent]; !protected {
		return noTarget("no agent %q is protected here; there are [%s]", agent, strings.Join(slices.Sorted(maps.Keys(i.all())), ", "))
	}
	if names := i.agentNames(); !slices.Contains(names, caller) {
		return noTarget("no calling agent %q is configured; there are [%s]", caller, strings.Join(names, ", "))
	}
	return nil
}

// Offers says that an agent offers no operation of that name, agent/grant/operation, and which
// it does.
func (i *Issuer) Offers(agent, operation string) error {
	a, known := i.all()[agent]
	if !known {
		return noTarget("no agent %q is protected here", agent)
	}
	var names []string
	for _, g := range a.Grants {
		for _, name := range a.operationsOf(g) {
			names = append(names, g.ID+"/"+name)
		}
	}
	name := strings.TrimPrefix(operation, agent+"/")
	if slices.Contains(names, name) || strings.HasPrefix(name, "a2a.") {
		return nil
	}
	return noTarget("agent %q offers no operation %q; it offers [%s]", agent, name, strings.Join(names, ", "))
}

// callers are the configured names of calling agents.
func (i *Issuer) callers() []string {
	if i.config.Callers == nil {
		return nil
	}
	return i.config.Callers()
}

func (i *Issuer) agentNames() []string {
	names := slices.Clone(i.callers())
	for id := range i.all() {
		names = append(names, id)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// stop stores one event and its record in one transaction. Records name a
// principal by the pseudonym that it has in the issuer's own chain.
func (i *Issuer) stop(ctx context.Context, kind Kind, operator, agent, target, reason string) (Revocation, error) {
	return i.event(ctx, agent, Revocation{Kind: kind, Target: target, By: operator, Reason: reason}, map[string]any{"target": i.recorded(target)})
}

// recorded is how records name a target.
func (i *Issuer) recorded(target string) string {
	if isPrincipal(target) {
		return i.Pseudonym(issuerItself, target)
	}
	return target
}

// StopPerson freezes or thaws what acts for a person, within a transaction in which the
// state of the person changes. Its caller hands what it returns to [Issuer.Learned] after
// the commit.
func (i *Issuer) StopPerson(tx EventWriter, kind Kind, operator, principal, reason string) (Revocation, error) {
	r, record, err := i.eventOf(issuerItself, Revocation{Kind: kind, Target: principal, By: operator, Reason: reason}, map[string]any{"target": i.recorded(principal)})
	if err == nil {
		r, err = write(tx, record, r)
	}
	return r, err
}

// event stores one event of the sequence, done by an operator for a reason,
// with its record.
func (i *Issuer) event(ctx context.Context, agent string, r Revocation, what map[string]any) (Revocation, error) {
	r, record, err := i.eventOf(agent, r, what)
	if err != nil {
		return Revocation{}, err
	}
	return i.commitRevocation(ctx, record, r)
}

// eventOf completes an event and begins its record.
func (i *Issuer) eventOf(agent string, r Revocation, what map[string]any) (Revocation, evidence.Record, error) {
	if r.Reason = strings.TrimSpace(r.Reason); r.Reason == "" || len(r.Reason) > maxReason {
		return r, evidence.Record{}, noTarget("the reason has %d bytes; want why it is done, in 1 to %d bytes", len(r.Reason), maxReason)
	}
	record, err := i.newRecord(agent, identity.Caller{Agent: r.By}, r.Kind.action(), evidence.Intent{
		Operation: OperationCapability, Purpose: r.Reason, Details: details(what),
	})
	if err != nil {
		return r, record, err
	}
	if strings.HasPrefix(r.Target, "cap_") {
		record.Details.Capability = r.Target
	}
	record.OutcomeStatus = evidence.Achieved
	r.At = i.config.Now().UTC().Truncate(time.Second)
	return r, record, nil
}

// checkFrozen refuses a caller whom, or an agent at which, an operator has
// stopped: a frozen party gets nothing new.
func (i *Issuer) checkFrozen(agent string, caller identity.Caller) *Refusal {
	for _, s := range []struct{ id, who string }{
		{AgentTarget(agent), "this agent"},
		{AgentTarget(caller.Agent), "the calling agent"},
		{caller.Principal, "the user"},
		{i.Pseudonym(agent, caller.Principal), "the user"},
		{caller.Holder.ID, "the caller"},
	} {
		if i.Frozen(s.id) {
			return refuse(CodeFrozen, "an operator stopped %s; asking again does not help until an operator thaws it", s.who)
		}
	}
	return nil
}

// Stopped reports whether a freeze is in force for a capability, its agent, its
// holder, one that it came through, or the principal behind it.
func (i *Issuer) Stopped(c Capability) bool {
	ids := append(c.Links(), AgentTarget(c.Agent), AgentTarget(c.Requester), c.Holder, c.Principal, i.Pseudonym(c.Agent, c.Principal))
	return i.FrozenAny(append(ids, c.Through...))
}
