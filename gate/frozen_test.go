package gate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// What an operator has frozen is denied in every mode, whatever is presented,
// and continues once it is thawed.
func TestATK24_FrozenIsDeniedInEveryMode(t *testing.T) {
	w := newTown(t)
	me := "key:" + w.holder.Public().Thumbprint()
	always := []string{"agent:documents", "agent:orchestrator", "pw_alice", me}
	withCapability := append([]string{"cap_1", "cap_2"}, always...)
	for _, mode := range []Mode{Observe, Scoped, Prefer, Require} {
		for _, presents := range []bool{false, true} {
			targets := always
			if presents {
				targets = withCapability
			}
			for _, target := range targets {
				call := func() *Call {
					c := w.call(mode, try(t, "read"))
					if presents {
						return w.present(c, w.minted(clauses(t, "read")))
					}
					c.Caller.Name = "orchestrator"
					return c
				}
				w.revoked["frozen "+target] = true
				v := w.check(call())
				if v.Allowed || v.Record.Decision != evidence.Deny || !cmp.Equal(codes(v), []string{CodeFrozen}) {
					t.Errorf("%s, %s frozen, presents %t: allowed %t, recorded %s, %v", mode, target, presents, v.Allowed, v.Record.Decision, codes(v))
				}
				delete(w.revoked, "frozen "+target)
				if v := w.check(call()); presents && !v.Allowed {
					t.Errorf("%s, %s thawed: %v", mode, target, v.Reasons)
				}
			}
		}
	}
}

// What a decoder refused, and what fails otherwise, does not hide a freeze.
func TestATK24_FrozenIsTheFirstReason(t *testing.T) {
	w := newTown(t)
	w.revoked["frozen agent:documents"] = true
	call := w.call(Observe, try(t, "read"))
	call.Refused = []evidence.Reason{{Code: "skill_unmapped"}}
	if v := w.check(call); v.Allowed || !cmp.Equal(codes(v), []string{CodeFrozen, "skill_unmapped"}) {
		t.Errorf("refused by the decoder too: allowed %t, %v", v.Allowed, codes(v))
	}
	delete(w.revoked, "frozen agent:documents")
	w.revoked["frozen cap_1"] = true
	call = w.present(w.call(Observe, try(t, "read")), w.minted(clauses(t, "search"), func(r *token.Root) {
		r.Private = &token.Private{Capability: "cap_2", Grant: "documents:read", Principal: "pw_alice"}
	}))
	w.present(call, w.minted(clauses(t, "read")))
	if v := w.check(call); v.Allowed || codes(v)[0] != CodeFrozen {
		t.Errorf("beside another capability: allowed %t, %v", v.Allowed, codes(v))
	}
}

// A card that widened hides no freeze, which holds in observe too, where the card stops
// nothing: no call, and no stream (CARD-13).
func TestATK24_FrozenBeforeACardThatWidened(t *testing.T) {
	w := newTown(t)
	for _, c := range []struct {
		mode   Mode
		frozen []string
		want   string
	}{
		{Observe, []string{"card:documents:d1"}, ""},
		{Require, []string{"card:documents:d1"}, CodeCardWidened},
		{Observe, []string{"card:documents:d1", "cap_1"}, CodeFrozen},
		{Require, []string{"card:documents:d1", "cap_1"}, CodeFrozen},
	} {
		for _, links := range [][]string{{"card:documents:d1", "cap_1"}, {"cap_1", "card:documents:d1"}} {
			call := w.call(c.mode, try(t, "read"))
			held := Held{Links: links}
			for _, id := range c.frozen {
				w.revoked["frozen "+id] = true
			}
			why, stopped := w.gate.frozen(call, held)
			if wants := c.want == "" && stopped && why.Code == CodeCardWidened || stopped && why.Code == c.want; !wants {
				t.Errorf("%s, %q frozen: %q", c.mode, c.frozen, why.Code)
			}
			v := w.gate.observe(call, Verdict{Reasons: []evidence.Reason{why}})
			if v.Allowed != (c.want == "") {
				t.Errorf("%s, %q frozen: allowed %t", c.mode, c.frozen, v.Allowed)
			}
			if why, good := w.gate.Recheck(Verdict{call: call, Held: held, Basis: OnAmbient}); good != (c.want == "") || why.Code != c.want {
				t.Errorf("%s, %q frozen: a stream goes on %t, %q", c.mode, c.frozen, good, why.Code)
			}
			clear(w.revoked)
		}
	}
}

// What a frozen agent has handed on is frozen with it.
func TestATK24_FrozenReachesWhatWasHandedOn(t *testing.T) {
	w := newTown(t)
	sub := key(t, "sub")
	tools := clauses(t, "read")
	root := w.minted(tools)
	v, err := token.NewMemo(1<<20).Verify(root, w.target.Anchors, token.Options{Now: at, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		t.Fatal(err)
	}
	derived, err := token.Derive(v, w.holder, token.Narrowing{ID: "derived", Now: at, Holder: sub.Public(), Tools: tools, MaxDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	call := func() *Call {
		c := w.call(Require, try(t, "read"))
		c.Origin = func(holder string) string {
			return map[string]string{"key:" + w.holder.Public().Thumbprint(): "hijacked"}[holder]
		}
		op, args := proves(c)
		w.ids++
		proof, err := token.SignProof([]string{root, derived}, sub, token.Proof{
			ID: fmt.Sprintf("by-sub-%d", w.ids), IssuedAt: at, Operation: op.String(), Arguments: args, Audience: agentURL, Request: &c.Request,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Caller, c.Presented = Caller{}, []Presented{{Chain: []string{root, derived}, Proof: proof}}
		return c
	}
	if v := w.check(call()); !v.Allowed {
		t.Fatalf("before: %v", v.Reasons)
	}
	for _, target := range []string{"agent:hijacked", "key:" + w.holder.Public().Thumbprint()} {
		w.revoked["frozen "+target] = true
		if v := w.check(call()); v.Allowed || !cmp.Equal(codes(v), []string{CodeFrozen}) {
			t.Errorf("%s: allowed %t, %v", target, v.Allowed, codes(v))
		}
		delete(w.revoked, "frozen "+target)
	}
}

// switched is a set that tells its changes.
type switched struct {
	mu      sync.Mutex
	ids     map[string]bool
	changed chan struct{}
}

func (s *switched) has(id string) bool     { s.mu.Lock(); defer s.mu.Unlock(); return s.ids[id] }
func (s *switched) Revoked(id string) bool { return s.has(id) }
func (s *switched) Ended(of, name string, _ time.Time) bool {
	return s.has(of + " " + name)
}
func (s *switched) Frozen(id string) bool     { return s.has("frozen " + id) }
func (s *switched) Stale(bool) bool           { return s.has("stale") }
func (s *switched) RevocationSequence() int64 { return 0 }
func (s *switched) Changed() <-chan struct{}  { s.mu.Lock(); defer s.mu.Unlock(); return s.changed }
func (s *switched) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[id] = true
	close(s.changed)
	s.changed = make(chan struct{})
}

// A verdict that is awaited ends with what it runs under, at once and without
// anybody asking.
func TestATK24_AwaitedVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode
		do   func(*switched)
		want string
		took time.Duration
	}{
		"an ancestor revoked":       {Require, func(s *switched) { s.add("cap_1") }, CodeRevoked, time.Minute},
		"the agent frozen":          {Require, func(s *switched) { s.add("frozen agent:documents") }, CodeFrozen, time.Minute},
		"another revoked":           {Require, func(s *switched) { s.add("cap_9") }, "expired", time.Hour},
		"the session over":          {Scoped, func(*switched) {}, "expired", 30 * time.Minute},
		"the lease over":            {Require, func(s *switched) { s.add("stale") }, CodeStale, time.Minute},
		"the user frozen, observed": {Observe, func(s *switched) { s.add("frozen pw_alice") }, CodeFrozen, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t)
			began := time.Now() //nolint:forbidigo // the clock of the bubble
			set := &switched{ids: map[string]bool{}, changed: make(chan struct{})}
			w.gate.Revocations = set
			passed := func() time.Duration { return time.Since(began) } //nolint:forbidigo // the clock of the bubble
			w.gate.Now = func() time.Time { return at.Add(passed()) }
			call := w.call(c.mode, try(t, "read"))
			switch c.mode {
			case Observe:
			case Scoped:
				call.Scope = func(string) powerbox.Authority { return authority(t, "read") }
				call.Caller = Caller{Name: "orchestrator", Principal: "pw_bob", Holder: "key:x", Expires: at.Add(30 * time.Minute)}
			default:
				w.present(call, w.minted(clauses(t, "read")))
			}
			v := w.check(call)
			if !v.Allowed {
				t.Fatalf("%s: %v", name, v.Reasons)
			}
			time.AfterFunc(time.Minute, func() { c.do(set) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour) // ends the wait for a stream that is never cut
			defer cancel()
			why, good := w.gate.Await(ctx, v)
			if good || why.Code != c.want || passed() != c.took {
				t.Errorf("%s: %q, good %t, after %v", name, why.Code, good, passed())
			}
		})
	}
}

// TestATK25_StaleRevocationsFailClosed: without current revocations, only
// mode observe lets calls continue, and an extension those that read.
func TestATK25_StaleRevocationsFailClosed(t *testing.T) {
	w := newTown(t)
	w.revoked["stale"] = true
	for _, mode := range []Mode{Observe, Scoped, Prefer, Require} {
		for _, presents := range []bool{false, true} {
			for _, reads := range []bool{false, true} {
				w.revoked["extended"] = reads
				call := w.call(mode, try(t, "read"))
				if presents {
					w.present(call, w.minted(clauses(t, "read")))
				}
				v := w.check(call)
				if v.Allowed != (mode == Observe) || !cmp.Equal(codes(v), []string{CodeStale}) {
					t.Errorf("%s, presents %t: allowed %t, %v", mode, presents, v.Allowed, codes(v))
				}
				call.Reads = true
				if v := w.check(call); presents && v.Allowed != (reads || mode == Observe) {
					t.Errorf("%s, reads, extended %t: allowed %t, %v", mode, reads, v.Allowed, codes(v))
				}
			}
		}
	}
	if !strings.Contains(w.log.String(), "not known any more") {
		t.Errorf("log: %s", w.log)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if why, good := w.gate.Await(ctx, w.check(w.call(Prefer, try(t, "read")))); !good {
			t.Errorf("ended with %q", why.Code)
		}
	})
}
