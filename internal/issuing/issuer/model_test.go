package issuer_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// held is a capability as in the model: who held it from its root on, and
// whether anybody ended it. A dead capability stays dead.
type held struct {
	issuer.Capability
	parent  *held
	holders []string // from the root's to its own
	issued  time.Time
	depth   int
	revoked bool
	gone    bool // it was dead once
}

// ending is a revocation in bulk: what it is of, and up to which second.
type ending struct {
	of, name string
	before   time.Time
}

// model is what the issuer should do, in fifty lines: no sets, no events, no
// sequence.
type model struct {
	held   []*held
	ends   []ending
	frozen map[string]bool
	names  map[string]string // configured name of a holder
}

func (m *model) dead(h *held) bool {
	if h.gone || h.revoked || h.parent != nil && m.dead(h.parent) {
		return true
	}
	return slices.ContainsFunc(m.ends, func(e ending) bool {
		return h.issued.Unix() <= e.before.Unix() && m.meant(h, e)
	})
}

func (m *model) meant(h *held, e ending) bool {
	switch e.of {
	case "principal":
		return h.Principal == e.name
	case "issuer":
		return h.Agent == e.name
	case "holder":
		return slices.Contains(h.holders, e.name)
	case "agent":
		return slices.ContainsFunc(h.holders, func(id string) bool { return m.names[id] == e.name })
	}
	for n := range h.holders[1:] { // delegator
		if h.holders[n] == e.name && h.holders[n+1] != e.name {
			return true
		}
	}
	return false
}

func (m *model) stopped(h *held) bool {
	for at := h; at != nil; at = at.parent {
		if m.frozen[at.ID] {
			return true
		}
	}
	return m.frozen["agent:"+h.Agent] || m.frozen["agent:"+h.Requester] || m.frozen[h.Principal] || slices.ContainsFunc(h.holders, func(id string) bool { return m.frozen[id] })
}

// stops reports whether a caller gets nothing new.
func (m *model) stops(c identity.Caller) bool {
	return m.frozen["agent:documents"] || m.frozen["agent:"+c.Agent] || m.frozen[c.Holder.ID] || m.frozen[c.Principal]
}

// machine is the issuer beside its model.
type machine struct {
	*town
	model
	callers []identity.Caller
}

// TestATK51_RevokeIsAbsorbing runs random sequences of issuing, narrowing,
// delegating, revoking (by holder, user and operator, single and in bulk),
// freezing, thawing, restarts and time against an issuer over a real store, and
// holds every capability after every step against the model. Revoking a capability that is
// frozen, revoked or shared by several parties is never without effect, and nothing
// brings back revoked capabilities.
func TestATK51_RevokeIsAbsorbing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(t)
		r.Repeat(map[string]func(*rapid.T){
			"issue": m.issue, "narrow": m.narrow, "revoke": m.revoke, "by a stranger": m.byStranger, "as operator": m.asOperator, "in bulk": m.inBulk,
			"freeze": m.freeze, "thaw": m.thaw, "restart": func(*rapid.T) { m.restart() },
			"time": func(r *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 900).Draw(r, "seconds")) * time.Second)
			},
			"": m.check,
		})
	})
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{town: newTown(t), model: model{frozen: map[string]bool{}, names: map[string]string{}}}
	m.agent.Grants[0].MaximumDepth = 3
	for _, name := range []string{"orchestrator", "mailer", "orchestrator"} {
		c := caller(t, "user:alice")
		c.Agent = name
		m.callers, m.names[c.Holder.ID] = append(m.callers, c), name
	}
	bob := caller(t, "user:bob")
	m.callers, m.names[bob.Holder.ID] = append(m.callers, bob), "orchestrator"
	m.config.Callers, m.config.Origin = func() []string { return []string{"orchestrator", "mailer"} }, func(id string) string { return m.names[id] }
	m.restart()
	return m
}

func (m *machine) issue(r *rapid.T) {
	c := rapid.SampledFrom(m.callers).Draw(r, "caller")
	got, err := m.issuer.Request(m.t.Context(), "documents", c, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(m.t)})
	if m.stops(c) {
		if refusal(m.t, err) != issuer.CodeFrozen {
			r.Fatalf("a caller that is frozen gets %v, %v", got, err)
		}
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	m.held = append(m.held, &held{Capability: got[0], holders: []string{c.Holder.ID}, issued: m.now.Truncate(time.Second), depth: 3})
}

// one draws a capability, and returns nil while there is none.
func (m *machine) one(r *rapid.T) *held {
	if len(m.held) == 0 {
		return nil
	}
	return rapid.SampledFrom(m.held).Draw(r, "capability")
}

func (m *machine) callerOf(h *held) identity.Caller {
	n := slices.IndexFunc(m.callers, func(c identity.Caller) bool { return c.Holder.ID == h.Holder })
	c := m.callers[n]
	c.Principal = h.Principal
	return c
}

// narrow makes a child, for the same holder or another.
func (m *machine) narrow(r *rapid.T) {
	h := m.one(r)
	if h == nil {
		return
	}
	to := rapid.SampledFrom(m.callers).Draw(r, "recipient")
	child, err := m.issuer.Narrow(m.t.Context(), "documents", m.callerOf(h), h.ID, issuer.Narrowing{Recipient: to.Holder, Agent: to.Agent})
	depth := h.depth
	if to.Holder.ID != h.Holder {
		depth--
	}
	usable := !m.dead(h) && !m.stopped(h) && !m.stops(m.callerOf(h)) && m.now.Before(h.Expires) && depth >= 0
	if (err == nil) != usable {
		r.Fatalf("narrowing what is dead %v, stopped %v, expires %s, with depth %d left: %v", m.dead(h), m.stopped(h), h.Expires, depth, err)
	}
	if err == nil {
		m.held = append(m.held, &held{Capability: child, parent: h, holders: append(slices.Clone(h.holders), to.Holder.ID), issued: h.issued, depth: depth})
	}
}

// revoke is by the holder or by the user behind it, whatever was done before.
func (m *machine) revoke(r *rapid.T) {
	h := m.one(r)
	if h == nil {
		return
	}
	by := m.callerOf(h)
	if rapid.Bool().Draw(r, "as the user") {
		by.Holder = caller(m.t, h.Principal).Holder
	}
	if _, err := m.issuer.Revoke(m.t.Context(), "documents", by, h.RevocationID); err != nil {
		r.Fatalf("its holder or user cannot revoke it: %v", err)
	}
	h.revoked = true
}

func (m *machine) byStranger(r *rapid.T) {
	if h := m.one(r); h != nil {
		if _, err := m.issuer.Revoke(m.t.Context(), "documents", caller(m.t, "user:mallory"), h.RevocationID); refusal(m.t, err) != issuer.CodeCapabilityUnknown {
			r.Fatalf("a stranger revokes: %v", err)
		}
	}
}

func (m *machine) asOperator(r *rapid.T) {
	h := m.one(r)
	if h == nil {
		return
	}
	id := rapid.SampledFrom([]string{h.ID, h.RevocationID}).Draw(r, "id")
	if _, err := m.issuer.RevokeAsOperator(m.t.Context(), "operator", issuer.Target{ID: id}); err != nil {
		r.Fatal(err)
	}
	h.revoked = true
}

func (m *machine) inBulk(r *rapid.T) {
	holder := rapid.SampledFrom(m.callers).Draw(r, "who").Holder.ID
	e := rapid.SampledFrom([]ending{
		{of: "principal", name: "user:alice"},
		{of: "principal", name: "user:bob"},
		{of: "issuer", name: "documents"},
		{of: "holder", name: holder},
		{of: "delegator", name: holder},
		{of: "agent", name: "mailer"},
	}).Draw(r, "bulk")
	b := map[string]issuer.Bulk{
		"principal": {Principal: e.name}, "issuer": {Issuer: e.name}, "holder": {Holder: e.name}, "delegator": {Delegator: e.name}, "agent": {Holder: "agent:" + e.name},
	}[e.of]
	if _, err := m.issuer.RevokeAsOperator(m.t.Context(), "operator", issuer.Target{All: b}); err != nil {
		r.Fatal(err)
	}
	e.before = m.now
	m.ends = append(m.ends, e)
}

func (m *machine) freeze(r *rapid.T) {
	targets := []string{"agent:documents", "agent:mailer", "user:alice", rapid.SampledFrom(m.callers).Draw(r, "who").Holder.ID}
	if h := m.one(r); h != nil {
		targets = append(targets, h.ID)
	}
	target := rapid.SampledFrom(targets).Draw(r, "target")
	if _, err := m.issuer.Freeze(m.t.Context(), "operator", target, "model"); err != nil {
		r.Fatal(err)
	}
	m.frozen[target] = true
}

func (m *machine) thaw(r *rapid.T) {
	if len(m.frozen) == 0 {
		var unknown *issuer.TargetError
		if _, err := m.issuer.Thaw(m.t.Context(), "operator", "agent:documents", "model"); !errors.As(err, &unknown) {
			r.Fatalf("what is not frozen is thawed: %v", err)
		}
		return
	}
	target := rapid.SampledFrom(slices.Sorted(maps.Keys(m.frozen))).Draw(r, "target")
	if _, err := m.issuer.Thaw(m.t.Context(), "operator", target, "model"); err != nil {
		r.Fatal(err)
	}
	delete(m.frozen, target)
}

// check compares everything that has not expired. Of what has, the issuer may
// forget that it was revoked.
func (m *machine) check(r *rapid.T) {
	for n, h := range m.held {
		dead := m.dead(h)
		h.gone = h.gone || dead
		if !m.now.Before(h.Expires) {
			continue
		}
		c, err := m.issuer.OnRecord(m.t.Context(), h.ID)
		if err != nil || c.ID != h.ID {
			r.Fatalf("capability %d is not on record: %v", n, err)
		}
		if m.issuer.Dead(c) != dead {
			r.Fatalf("capability %d (of %v, issued %s, revoked %v): dead is %v, the model says %v", n, h.holders, h.issued, h.revoked, !dead, dead)
		}
		if m.issuer.Stopped(c) != m.stopped(h) {
			r.Fatalf("capability %d: stopped is %v, the model says %v; frozen are %v", n, !m.stopped(h), m.stopped(h), m.frozen)
		}
	}
}

// TestATK51_AFrozenHolderStopsWhatCameThroughIt on record, as at the gate.
func TestATK51_AFrozenHolderStopsWhatCameThroughIt(t *testing.T) {
	m := newMachine(t)
	first, second := m.callers[0], m.callers[1]
	root := m.read(first)
	child, err := m.issuer.Narrow(t.Context(), "documents", first, root.ID, issuer.Narrowing{Recipient: second.Holder, Agent: second.Agent})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.issuer.Freeze(t.Context(), "operator", first.Holder.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if !m.issuer.Stopped(root) || !m.issuer.Stopped(child) {
		t.Errorf("stopped are the root %v and the child %v", m.issuer.Stopped(root), m.issuer.Stopped(child))
	}
	if _, err := m.issuer.Narrow(t.Context(), "documents", second, child.ID, issuer.Narrowing{}); refusal(t, err) != issuer.CodeFrozen {
		t.Errorf("narrowed all the same: %v", err)
	}
	if _, err := m.issuer.Thaw(t.Context(), "operator", first.Holder.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.issuer.Narrow(t.Context(), "documents", second, child.ID, issuer.Narrowing{}); err != nil {
		t.Error(err)
	}
}
