package issuer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// bulk is what one event ends everything of: one of the gate's Bulk constants
// and a name.
type bulk struct{ of, name string }

// epoch is up to when issued capabilities are dead, and until when that matters.
type epoch struct {
	before, until time.Time
	sequence      int64 // of its last event
}

// Bulk names what one event ends everything of (EXT-15). One member is set. A
// holder, or delegator, is a holder's id such as key:..., or agent:NAME for
// every holder of that configured name.
type Bulk struct {
	Issuer    string // everything that this agent has issued: its epoch
	Holder    string // everything that it holds, or that came through it
	Delegator string // everything that it has handed on to another; what it holds itself stays
	Principal string // everything that was issued for this user
}

// target returns the stored capability.
func (i *Issuer) target(b Bulk) (of bulk, err error) {
	var set []bulk
	for _, one := range []bulk{
		{gate.BulkIssuer, b.Issuer}, {gate.BulkHolder, b.Holder}, {gate.BulkDelegator, b.Delegator}, {gate.BulkPrincipal, b.Principal},
	} {
		if one.name != "" {
			set = append(set, one)
		}
	}
	if len(set) != 1 {
		return bulk{}, noTarget("%d things to revoke are named; want one of target (a capability id, a revocation id or the hash of a derived link), chain, issuer, holder, delegator and principal", len(set))
	}
	of = set[0]
	name, isAgent := strings.CutPrefix(of.name, "agent:")
	switch {
	case of.of == gate.BulkIssuer:
		if _, ok := i.all()[name]; !ok {
			return bulk{}, noTarget("no agent %q is protected here; there are [%s]", name, strings.Join(slices.Sorted(maps.Keys(i.all())), ", "))
		}
		return bulk{gate.BulkIssuer, name}, nil
	case of.of == gate.BulkPrincipal && (isAgent || !isPrincipal(of.name)):
		return bulk{}, noTarget("%q is no user; want one such as user:alice", of.name)
	case isAgent && !slices.Contains(i.callers(), name):
		return bulk{}, noTarget("no calling agent %q is configured; there are [%s]", name, strings.Join(i.callers(), ", "))
	case isAgent && of.of == gate.BulkHolder:
		return bulk{gate.BulkAgent, name}, nil
	case isAgent:
		return bulk{gate.BulkDelegatingAgent, name}, nil
	}
	if kind, rest, _ := strings.Cut(of.name, ":"); kind == "" || rest == "" || len(of.name) > 256 || strings.ContainsFunc(of.name, unprintable) {
		return bulk{}, noTarget("%q is no holder; want key:THUMBPRINT, client:ID, a SPIFFE id, or agent:NAME for every holder of that name", of.name)
	}
	return of, nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f }

func (b bulk) String() string { return b.of + ":" + b.name }

func parseBulk(target string) bulk {
	of, name, _ := strings.Cut(target, ":")
	return bulk{of, name}
}

// names returns what a bulk is told as outside the server: a user by the
// pseudonym at every agent.
func (i *Issuer) names(b bulk) []string {
	if b.of != gate.BulkPrincipal {
		return []string{b.name}
	}
	var all []string
	for id := range i.all() {
		all = append(all, i.Pseudonym(id, b.name))
	}
	slices.Sort(all)
	return all
}

// OutsideBulk returns what an event of [KindEpoch] ends everything of, as it is
// told outside the server.
func (i *Issuer) OutsideBulk(r Revocation) (of, name string, names []string) {
	b := parseBulk(r.Target)
	if b.of == gate.BulkPrincipal {
		return b.of, i.Pseudonym(issuerItself, b.name), i.names(b)
	}
	return b.of, b.name, i.names(b)
}

// end adds an event to a set that is not read yet.
func (s *revocations) end(i *Issuer, r Revocation) {
	b := parseBulk(r.Target)
	for _, name := range i.names(b) {
		old := s.epochs[bulk{b.of, name}]
		s.epochs[bulk{b.of, name}] = epoch{later(old.before, r.At.Truncate(time.Second)), later(old.until, r.Until), max(old.sequence, r.Sequence)}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ended is what [gate.Revocations] calls Ended, of one set. Times count in
// whole seconds, as the store and the feed have them.
func (s *revocations) ended(of, name string, issued time.Time) bool {
	e, ok := s.epochs[bulk{of, name}]
	return ok && issued.Unix() <= e.before.Unix()
}

// Ended implements gate.Revocations.
func (i *Issuer) Ended(of, name string, issued time.Time) bool {
	return i.revoked.Load().ended(of, name, issued)
}

// EndedBehind reports whether an event behind a sequence number ends everything of an agent, a user
// or a holder.
func (i *Issuer) EndedBehind(sequence int64, agent, principal, holder string) bool {
	set := i.revoked.Load()
	line := gate.Line{Issuer: agent, Principal: i.Pseudonym(agent, principal), Holders: []string{holder}, Origin: i.config.Origin}
	return line.Ended(func(of, name string, _ time.Time) bool { return set.epochs[bulk{of, name}].sequence > sequence })
}

// Dead reports whether a capability has been revoked, alone, with one that it
// descends from, or along with others.
func (i *Issuer) Dead(c Capability) bool { return i.dead(i.revoked.Load(), c) }

func (i *Issuer) dead(s *revocations, c Capability) bool {
	if i.revokedIn(s, c.Links()) {
		return true
	}
	line := gate.Line{
		Issuer: c.Agent, Principal: i.Pseudonym(c.Agent, c.Principal), Holders: append(slices.Clone(c.Through), c.Holder), Issued: c.Issued(), Origin: i.config.Origin,
	}
	return line.Ended(s.ended)
}

// planned is an event that has not happened, with the record that it will have.
func (i *Issuer) planned(ctx context.Context, operator string, t Target) (Revocation, evidence.Record, error) {
	now := i.config.Now()
	r := Revocation{Kind: KindRevoke, By: operator, At: now, Until: now.Add(token.MaxLifetime)}
	agent, err := i.plan(ctx, &r, t)
	if err != nil {
		return r, evidence.Record{}, err
	}
	named := r.Target
	if b := parseBulk(r.Target); r.Kind == KindEpoch && b.of == gate.BulkPrincipal {
		named = b.of + ":" + i.Pseudonym(issuerItself, b.name)
	}
	record, err := i.newRecord(agent, identity.Caller{Agent: operator}, action.CapabilityRevoke, evidence.Intent{
		Operation: OperationCapability, Details: details(map[string]any{"target": named}),
	})
	if r.Kind == KindRevoke {
		record.Details.Capability = r.Target
	}
	record.OutcomeStatus = evidence.Achieved
	return r, record, err
}

// plan fills in what a target amounts to, and returns the agent in whose chain
// the record belongs.
func (i *Issuer) plan(ctx context.Context, r *Revocation, t Target) (agent string, err error) {
	switch {
	case t.ID != "" && t.Chain == nil && t.All == (Bulk{}):
		r.Target = t.ID
		c, err := i.find(ctx, t.ID)
		if errors.Is(err, ErrNotFound) {
			return issuerItself, nil
		}
		if err == nil {
			r.Target, r.Until = c.ID, c.Expires
		}
		return c.Agent, err
	case t.ID == "" && t.Chain != nil && t.All == (Bulk{}):
		s, err := i.show(t.Chain)
		if err != nil {
			return "", err
		}
		r.Target, r.Until = s.target, s.until
		return s.agent.ID, nil
	case t.ID != "" || t.Chain != nil:
		return "", noTarget("more than one of target, chain and a bulk is named; want one")
	}
	b, err := i.target(t.All)
	if err != nil {
		return "", err
	}
	r.Kind, r.Target, r.At = KindEpoch, b.String(), r.At.UTC().Truncate(time.Second)
	if b.of == gate.BulkIssuer {
		return b.name, nil
	}
	return issuerItself, nil
}

// RevokedAt returns the one agent at which a revocation of a target ends anything, "" for
// one that can reach every agent, and [ErrNotFound] for an id that is not on record.
func (i *Issuer) RevokedAt(ctx context.Context, t Target) (agent string, err error) {
	r := Revocation{At: i.config.Now()}
	agent, err = i.plan(ctx, &r, t)
	switch {
	case err != nil || agent != issuerItself:
		return agent, err
	case t.ID != "":
		return "", ErrNotFound
	}
	return "", nil
}

// EventAt returns the one agent that an event is about: [ErrNotFound] where there is none.
func (i *Issuer) EventAt(ctx context.Context, r Revocation) (agent string, err error) {
	switch b := parseBulk(r.Target); {
	case r.Kind == KindFreeze || r.Kind == KindThaw:
		_, agent, err = i.StoppedAt(ctx, r.Target)
		return agent, err
	case r.Kind == KindEpoch && b.of == gate.BulkIssuer:
		return b.name, nil
	case r.Kind == KindRevoke:
		c, err := i.find(ctx, r.Target)
		return c.Agent, err
	}
	return "", ErrNotFound
}

// find returns the capability on record under the id of a capability or of its
// revocation, or [ErrNotFound].
func (i *Issuer) find(ctx context.Context, id string) (Capability, error) {
	var c Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		if c, err = r.Capability(id); errors.Is(err, ErrNotFound) {
			c, err = r.CapabilityByRevocation(id)
		}
		return err
	})
	return c, err
}

// Target is what an operator revokes: one thing with all that descends from it,
// or everything of someone.
type Target struct {
	ID    string   // capability id, revocation id, id of a root token, hash of a derived link
	Chain []string // whose last link is meant, which may never have been seen here
	All   Bulk
}

// covering moves the end of an epoch behind everything that it ends and that is on record. A
// capability can have a later time than its revocation: another node issued it, whose clock is
// ahead, or this clock was set back meanwhile (ATK-142).
func covering(rd issuedReader, r Revocation) (Revocation, error) {
	if r.Kind != KindEpoch {
		return r, nil
	}
	var q IssuedQuery
	switch b := parseBulk(r.Target); b.of {
	case gate.BulkIssuer:
		q.Agent = b.name
	case gate.BulkPrincipal:
		q.Principal = b.name
	default: // links that holders derived offline are not on record
	}
	newest, err := rd.IssuedAfter(r.At, q)
	if newest.After(r.At) {
		r.At, r.Until = newest.Truncate(time.Second), r.Until.Add(newest.Sub(r.At))
	}
	return r, err
}

// issuedReader is how much of a store [covering] uses.
type issuedReader interface {
	IssuedAfter(at time.Time, query IssuedQuery) (time.Time, error)
}

// RevokeAsOperator ends what t names, in one event. Anything that is not on record stays
// revoked for as long as any token can live, since nothing here says when it
// ends.
func (i *Issuer) RevokeAsOperator(ctx context.Context, operator string, t Target) (Revocation, error) {
	r, record, err := i.planned(ctx, operator, t)
	if err != nil {
		return Revocation{}, err
	}
	return i.commitRevocation(ctx, record, r)
}

// Affected is what a revocation would end now.
type Affected struct {
	Revocation   Revocation
	Capabilities []Capability // a parent before its children, as many as were asked for
	Count        int          // of all, or of those that were looked at
	More         bool         // not all were looked at
}

// dyingScan is how many capabilities [Issuer.Victims] looks at. It bounds its time and memory.
const dyingScan = 2500

// Victims returns the capabilities on record that [Issuer.RevokeAsOperator]
// would end now, by the same rule that enforces it, and up to limit of them.
// Links that holders derived offline are not on record.
func (i *Issuer) Victims(ctx context.Context, t Target, limit int) (Affected, error) {
	r, _, err := i.planned(ctx, "", t)
	if err != nil {
		return Affected{Revocation: r}, err
	}
	now := i.revoked.Load()
	var out Affected
	err = i.config.Store.View(ctx, func(rd Reader) error {
		r, err := covering(rd, r)
		if err != nil {
			return err
		}
		then := i.after(now, r)
		out = Affected{Revocation: r}
		q, err := i.reach(rd, r)
		if err != nil {
			return err
		}
		q.After, q.Limit, q.Brief = i.config.Now(), dyingScan+1, true
		looked := 0
		for c, err := range rd.Trees(q) {
			if err != nil {
				return err
			}
			if looked++; looked > dyingScan {
				out.More = true
				break
			}
			if i.dead(now, c) || !i.dead(then, c) {
				continue
			}
			if out.Count++; len(out.Capabilities) < limit {
				out.Capabilities = append(out.Capabilities, c)
			}
		}
		return nil
	})
	return out, err
}

// reach selects every capability that a revocation can end, and few others. One that was
// given for a single call can come through holders and links that no other capability names.
func (i *Issuer) reach(rd Reader, r Revocation) (q TreeQuery, err error) {
	if r.Kind == KindRevoke {
		q = TreeQuery{IDs: []string{r.Target}, Once: true}
		for agent := range i.all() {
			if namesPartOf(r.Target, agent) {
				q.Agents = append(q.Agents, agent)
			}
		}
		return q, nil
	}
	switch b := parseBulk(r.Target); b.of {
	case gate.BulkIssuer:
		q.Agents = []string{b.name}
	case gate.BulkPrincipal:
		q.Principals = []string{b.name}
	case gate.BulkHolder, gate.BulkDelegator:
		q.Holders, q.Once = []string{b.name}, true
	default: // of every holder with a configured name
		if q.Holders, err = rd.Holders(); err != nil {
			return q, err
		}
		q.Once = true
		q.Holders = slices.DeleteFunc(q.Holders, func(holder string) bool { return i.config.Origin(holder) != b.name })
	}
	return q, nil
}

// namesPartOf reports whether a target names what an agent issued for one task or with one card.
func namesPartOf(target, agent string) bool {
	return strings.HasPrefix(target, taskTarget(agent, "", "")) || strings.HasPrefix(target, "tenant-task:"+agent+"/") || strings.HasPrefix(target, cardTarget(agent, ""))
}

// ExtendedUntil returns until when remote gateways continue with reads without news,
// the zero time without an extension.
func (i *Issuer) ExtendedUntil() time.Time { return i.revoked.Load().extended }
