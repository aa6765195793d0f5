package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// task is one task of the agent beside us, and what it may use for it.
type task struct {
	wallet *holder.Wallet
	owner  string // for whom it works, "" if unknown

	restrict bool // it has no owner: only the floor of a peer may be used
	cameIn   bool // it is a caller's, whose it is to bring what it takes

	mu     sync.Mutex // guards the fields below, and held while something is asked for
	handed []token.ContextDelegation
	asked  map[string]time.Time // rules, and until when their answer holds

	begunMu sync.Mutex
	begun   map[begunKey]holder.Capability // by peer and the task or context there: what it was begun under
	order   []begunKey                     // of begun, oldest first
}

func newTask(key token.PublicKey) *task {
	return &task{wallet: holder.NewWallet(key), asked: map[string]time.Time{}, begun: map[begunKey]holder.Capability{}}
}

// maxBegun bounds what one task remembers of tasks elsewhere: the last ones.
const maxBegun = 256

// errUncorrelated refuses a call that no task is known of.
var errUncorrelated = errors.New("nothing says for which task the call is made, and the floor does not hold it; " +
	"pass on the Powerbox-Context header, traceparent and tracestate, or the contextId of the task")

// under returns the capability to present for a call, and false where there is
// none of the agent at all.
func (a *Attach) under(ctx context.Context, t *task, o *outgoing) (holder.Capability, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	op, err := o.operation()
	if err != nil {
		return holder.Capability{}, false, err
	}
	now := a.config.Client.Now()
	t.wallet.Forget(now)
	// A task elsewhere belongs to the one who began it, under that capability.
	for _, name := range []string{o.call.Task, o.call.Context} {
		if held, ok := t.begunAt(begunKey{o.peer.Name, o.call.Tenant, name}); ok && held.Permits(op, o.proven.Arguments, now) {
			return held, true, nil
		}
	}
	// What words need the agent alone knows, so that a rule for them comes first.
	if held, ok := t.pick(o, op, now); ok && !o.isWords() {
		return held, true, nil
	}
	if err := a.claim(ctx, t, o.agent); err != nil {
		return holder.Capability{}, false, err
	}
	if held, ok := t.pick(o, op, now); ok && !o.isWords() {
		return held, true, nil
	}
	if err := a.ask(ctx, t, o); err != nil {
		return holder.Capability{}, false, err
	}
	if held, ok := t.pick(o, op, now); ok {
		return held, true, nil
	}
	// The gateway refuses better than we could: with its reason, on record.
	for _, held := range t.wallet.Of(o.agent.Issuer, now) {
		if held.Chain != nil {
			return held, true, nil
		}
	}
	return holder.Capability{}, false, nil
}

// pick returns the narrowest capability that permits a call, and can be
// presented. For words it is the one with the most operations: the agent may
// require any of them.
func (t *task) pick(o *outgoing, op powerbox.Operation, now time.Time) (holder.Capability, bool) {
	if o.isWords() {
		var widest holder.Capability
		for _, held := range t.wallet.Of(o.agent.Issuer, now) {
			if held.Chain != nil && held.Permits(op, o.proven.Arguments, now) && (widest.Chain == nil || len(held.Operations) > len(widest.Operations)) {
				widest = held
			}
		}
		return widest, widest.Chain != nil
	}
	held, ok := t.wallet.Pick(o.agent.Issuer, op, o.proven.Arguments, now)
	return held, ok && held.Chain != nil
}

// claim takes up what the task was given of an agent by reference.
func (a *Attach) claim(ctx context.Context, t *task, agent holder.Agent) error {
	var later []token.ContextDelegation
	for i, d := range t.handed {
		if d.Agent != agent.Issuer {
			later = append(later, d)
			continue
		}
		held, err := a.config.Client.Claim(ctx, agent, d.Capability)
		if err == nil {
			err = t.wallet.Add(held)
		}
		if err != nil {
			t.handed = append(later, t.handed[i:]...)
			return fmt.Errorf("what was handed over with the task cannot be taken up: %w", err)
		}
	}
	t.handed = later
	return nil
}

// ask requests what the first rule for the call says, once for as long as it
// lasts.
func (a *Attach) ask(ctx context.Context, t *task, o *outgoing) error {
	i := slices.IndexFunc(o.peer.Rules, func(r Rule) bool { return len(r.Skills) == 0 || slices.Contains(r.Skills, o.proven.Skill) })
	if i < 0 {
		return nil
	}
	rule, now := o.peer.Rules[i], a.config.Client.Now()
	if t.cameIn && !rule.Tasks {
		return nil // the session is not that of the task's caller
	}
	params, skills := rule.Request, rule.Skills
	if len(skills)+len(params.Grants) == 0 {
		if o.proven.Skill == "" {
			return nil // words name nothing that could be asked for
		}
		skills = []string{o.proven.Skill}
	}
	key := fmt.Sprint(o.peer.Name, " ", i, " ", skills)
	if until, ok := t.asked[key]; ok && now.Before(until) {
		return nil // it did not permit the call, and would not now
	}
	if len(params.Grants) == 0 {
		var err error
		if params.Grants, params.Operations, err = o.agent.Needs(skills...); err != nil {
			return err
		}
	}
	if rule.Lifetime > 0 {
		params.Expires = now.Add(rule.Lifetime)
	}
	if t.restrict {
		params.Purpose = "uncorrelated: " + params.Purpose
	}
	got, err := a.config.Client.Request(ctx, o.agent, params)
	if err != nil {
		return err
	}
	for _, c := range got {
		t.asked[key] = c.Expires
	}
	return t.wallet.Add(got...)
}

// handOver derives what the peer is given with a message.
func (a *Attach) handOver(ctx context.Context, t *task, o *outgoing) ([]holder.Capability, error) {
	if !o.isMessage() {
		return nil, nil
	}
	var out []holder.Capability
	for _, h := range o.peer.Hand {
		of, ok := a.peers[h.Of]
		if !ok {
			continue
		}
		source, err := of.card.get(ctx)
		if err != nil {
			return nil, err
		}
		if err := a.obtain(ctx, t, of.Peer, source, h.Skills); err != nil {
			return nil, err
		}
		handed, err := a.derive(t, o, h, source.agent)
		if err != nil {
			return nil, fmt.Errorf("handing over %v of %s: %w", h.Skills, h.Of, err)
		}
		out = append(out, handed...)
	}
	return out, nil
}

// obtain sees to it that the task holds something of an agent to hand over: what
// it was given, or, where that is nothing, what the agent's rule asks for.
func (a *Attach) obtain(ctx context.Context, t *task, of Peer, source *seen, skills []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := a.claim(ctx, t, source.agent); err != nil {
		return err
	}
	for _, skill := range skills {
		if len(t.wallet.Of(source.agent.Issuer, a.config.Client.Now())) > 0 {
			return nil
		}
		if err := a.ask(ctx, t, &outgoing{seen: source, peer: of, proven: a2a.Proven{Skill: skill}}); err != nil {
			return err
		}
	}
	return nil
}

// derive narrows, for every capability that calls some of the skills, the part to
// delegate.
func (a *Attach) derive(t *task, o *outgoing, h Hand, of holder.Agent) ([]holder.Capability, error) {
	now := a.config.Client.Now()
	named := texts(nil, o.call.Params)
	var out []holder.Capability
	for _, held := range t.wallet.Of(of.Issuer, now) {
		n := holder.Narrowing{Depth: h.Depth}
		if h.Lifetime > 0 {
			if n.Expires = now.Add(h.Lifetime); n.Expires.After(held.Expires) {
				n.Expires = held.Expires
			}
		}
		for _, name := range h.Skills {
			skill, ok := of.Skills[name]
			if !ok || held.Chain == nil {
				continue
			}
			handles, permitted := usable(held, skill, named, now)
			if permitted {
				n.Operations = append(n.Operations, skill.Operation.String())
				n.Handles = append(n.Handles, handles...)
			}
		}
		if len(n.Operations) == 0 {
			continue
		}
		if o.agent.Holder.IsZero() {
			return nil, fmt.Errorf("the card of %s publishes no key to delegate to", o.peer.Name)
		}
		slices.Sort(n.Handles)
		n.Handles = slices.Compact(n.Handles)
		child, err := a.config.Client.Delegate(held, o.agent.Holder, n)
		if err != nil {
			return nil, err
		}
		out = append(out, child)
	}
	return out, nil
}

// usable reports whether a capability permits a skill, and with which of the
// texts that a message names as its handle. One that takes a handle and gets
// none is not.
func usable(held holder.Capability, skill holder.Skill, named []string, now time.Time) ([]string, bool) {
	if skill.Handle == "" {
		return nil, held.Permits(skill.Operation, powerbox.Object(), now)
	}
	var handles []string
	for _, name := range named {
		use := powerbox.Object(powerbox.Member{Name: skill.Handle, Value: powerbox.String(name)})
		if held.Permits(skill.Operation, use, now) {
			handles = append(handles, name)
		}
	}
	return handles, len(handles) > 0
}

// maxTexts bounds how much of a message is looked through for handles.
const maxTexts = 256

// texts collects the texts in a value that have the form of handles.
func texts(found []string, v powerbox.Value) []string {
	if s, ok := v.Text(); ok && len(found) < maxTexts && len(s) > 3 && s[:3] == "rh_" {
		return append(found, s)
	}
	members, _ := v.Members()
	for _, m := range members {
		found = texts(found, m.Value)
	}
	elements, _ := v.Elements()
	for _, e := range elements {
		found = texts(found, e)
	}
	return found
}

// learn remembers under which capability a task of the peer was begun.
func (t *task) learn(o *outgoing, held holder.Capability, payload []byte) {
	refs := a2a.Learn(payload)
	t.begunMu.Lock()
	defer t.begunMu.Unlock()
	for _, ref := range refs {
		for _, name := range []string{ref.Task, ref.Context} {
			key := begunKey{o.peer.Name, o.call.Tenant, name}
			if _, known := t.begun[key]; name == "" || known {
				continue
			}
			t.begun[key], t.order = held, append(t.order, key)
			if len(t.order) > maxBegun {
				delete(t.begun, t.order[0])
				t.order = t.order[1:]
			}
		}
	}
}

// begunKey is a task or context in a tenant of a peer.
type begunKey struct{ peer, tenant, name string }

// begunAt returns under what a task or context of a peer was begun, and false
// where it was not begun for this task.
func (t *task) begunAt(key begunKey) (holder.Capability, bool) {
	t.begunMu.Lock()
	defer t.begunMu.Unlock()
	held, ok := t.begun[key]
	return held, ok && key.name != ""
}
