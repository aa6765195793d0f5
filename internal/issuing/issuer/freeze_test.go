package issuer_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// An operator stops the named target, with who, why and when on record, over
// restarts, until it is thawed.
func TestATK24_FreezeAndThaw(t *testing.T) {
	w := newTown(t)
	w.config.Callers = func() []string { return []string{"orchestrator"} }
	w.restart()
	alice := caller(t, "user:alice")
	c := w.read(alice)
	for target, frozen := range map[string]string{
		"agent:documents":    "agent:documents",
		"agent:orchestrator": "agent:orchestrator",
		"user:alice":         w.issuer.Pseudonym("documents", "user:alice"),
		w.issuer.Pseudonym("documents", "user:alice"): w.issuer.Pseudonym("documents", "user:alice"),
		alice.Holder.ID: alice.Holder.ID,
		c.ID:            c.ID,
		c.RevocationID:  c.ID,
	} {
		changed := w.issuer.Changed()
		f, err := w.issuer.Freeze(t.Context(), "operator", target, "odd calls")
		if err != nil || !w.issuer.Frozen(frozen) || !w.issuer.Stopped(c) || f.Sequence != w.issuer.RevocationSequence() {
			t.Fatalf("freeze %s: %v, frozen %t, stopped %t", target, err, w.issuer.Frozen(frozen), w.issuer.Stopped(c))
		}
		select {
		case <-changed:
		default:
			t.Errorf("freeze %s: nobody was told", target)
		}
		r := w.last()
		if r.ActionType != "operator.freeze" || r.Details.Requester != "operator" || r.Intent.Purpose != "odd calls" || r.Details.RevocationSequence != f.Sequence {
			t.Errorf("record: %+v", r)
		}
		if strings.Contains(string(r.Intent.Details), "alice") {
			t.Errorf("the record names the user: %s", r.Intent.Details)
		}
		w.restart()
		if _, err := w.issuer.Held(t.Context(), alice, c.ID); refusal(t, err) != issuer.CodeFrozen {
			t.Errorf("%s frozen: its capability is usable: %v", target, err)
		}
		_, err = w.issuer.Request(t.Context(), "documents", alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t)})
		if want := issuer.CodeFrozen; frozen != c.ID && refusal(t, err) != want {
			t.Errorf("%s frozen: something was issued: %v", target, err)
		}
		if got := w.issuer.Freezes(); len(got) != 1 || got[0].Reason != "odd calls" {
			t.Errorf("frozen: %+v", got)
		}
		if _, err := w.issuer.Thaw(t.Context(), "operator", target, "explained"); err != nil || w.issuer.Stopped(c) || len(w.issuer.Freezes()) != 0 {
			t.Errorf("thaw %s: %v", target, err)
		}
		if r := w.last(); r.ActionType != "operator.thaw" {
			t.Errorf("record: %+v", r)
		}
		w.restart()
		if _, err := w.issuer.Held(t.Context(), alice, c.ID); err != nil {
			t.Errorf("%s thawed: %v", target, err)
		}
	}
}

// A frozen ancestor freezes what descends from it, and a child's freeze leaves
// the parent alone.
// Where the names of users are those that a token has, one can look like that of
// a holder: both are stopped.
func TestATK24_UsersNamedLikeHolders(t *testing.T) {
	w := newTown(t)
	for _, user := range []string{"spiffe://example.org/ns/web", "client:alice", "user:alice"} {
		if _, err := w.issuer.Freeze(t.Context(), "operator", user, "odd calls"); err != nil {
			t.Fatal(err)
		}
		name, told := w.issuer.Outside(user)
		if at := w.issuer.Pseudonym("documents", user); !w.issuer.Frozen(at) || !slices.Contains(told, at) {
			t.Errorf("ATK-24 %s: gates are told of %s and %v", user, name, told)
		}
		if told := strings.Join(append(told, name), " "); user == "user:alice" && strings.Contains(told, user) {
			t.Errorf("ATK-24 the name of a user is told: %s", told)
		}
	}
}

func TestATK24_FreezeReachesDescendants(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	root := w.read(alice)
	child, err := w.issuer.Narrow(t.Context(), "documents", alice, root.ID, issuer.Narrowing{Operations: []string{"search"}})
	if err != nil {
		t.Fatal(err)
	}
	freeze := func(id string) {
		t.Helper()
		if _, err := w.issuer.Freeze(t.Context(), "operator", id, "r"); err != nil {
			t.Fatal(err)
		}
	}
	freeze(child.ID)
	if w.issuer.Stopped(root) || !w.issuer.Stopped(child) {
		t.Error("the child's freeze is not the child's alone")
	}
	freeze(root.ID)
	if _, err := w.issuer.Thaw(t.Context(), "operator", child.ID, "r"); err != nil || !w.issuer.Stopped(child) {
		t.Errorf("thawed below a frozen one: %v", err)
	}
}

// Names that nothing has, and a missing reason, stop nothing and say what would
// be right.
func TestFreezeRefusesWhatItCannotMean(t *testing.T) {
	w := newTown(t)
	for target, want := range map[string]string{
		"agent:document": `no agent "document" is configured; there are [documents]`, "cap_1": "no capability", "rv_1": "no capability",
		"": "cannot be frozen", "alice": "cannot be frozen", "user:": "cannot be frozen", "user:a b": "cannot be frozen", "user:" + strings.Repeat("a", 256): "cannot be frozen",
	} {
		_, err := w.issuer.Freeze(t.Context(), "operator", target, "r")
		var e *issuer.TargetError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("freeze %q: %v", target, err)
		}
		if _, err := w.issuer.Thaw(t.Context(), "operator", target, "r"); !errors.As(err, &e) || !strings.Contains(err.Error(), "is not frozen") {
			t.Errorf("thaw %q: %v", target, err)
		}
	}
	for _, reason := range []string{"", " \n", strings.Repeat("r", 1025)} {
		if _, err := w.issuer.Freeze(t.Context(), "operator", "agent:documents", reason); err == nil {
			t.Errorf("reason of %d bytes", len(reason))
		}
	}
	if w.issuer.RevocationSequence() != 0 {
		t.Error("something was stored")
	}
	// A target that is no longer configured can still be thawed.
	if _, err := w.issuer.Freeze(t.Context(), "operator", "agent:documents", "r"); err != nil {
		t.Fatal(err)
	}
	w.config.Agents = nil
	w.restart()
	if _, err := w.issuer.Thaw(t.Context(), "operator", "agent:documents", "r"); err != nil || len(w.issuer.Freezes()) != 0 {
		t.Errorf("thaw of an agent that is gone: %v", err)
	}
}

// However the events of one target come in, the last of the sequence counts.
func TestFreezesAndThawsAtOnce(t *testing.T) {
	w := newTown(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for _, do := range []func() error{
				func() error { _, err := w.issuer.Freeze(t.Context(), "operator", "user:alice", "r"); return err },
				func() error { _, err := w.issuer.Thaw(t.Context(), "operator", "user:alice", "r"); return err },
			} {
				var e *issuer.TargetError
				if err := do(); err != nil && !errors.As(err, &e) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	live := w.issuer.Frozen("user:alice")
	w.restart()
	if stored := w.issuer.Frozen("user:alice"); stored != live {
		t.Errorf("frozen %t, after a restart %t", live, stored)
	}
}

// A frozen caller gives back what it has: that is no new authority.
func TestFrozenCallersCanRevoke(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c := w.read(alice)
	if _, err := w.issuer.Freeze(t.Context(), "operator", "user:alice", "r"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.issuer.Revoke(t.Context(), "documents", identity.Caller{Principal: alice.Principal, Holder: alice.Holder}, c.RevocationID); err != nil || !w.issuer.Revoked(c.ID) {
		t.Errorf("revoking: %v", err)
	}
}

// An extension of the feed's lease is an event with a record, and for an hour
// at the most.
func TestATK25_ExtensionsAreBoundedAndOnRecord(t *testing.T) {
	w := newTown(t)
	e, err := w.issuer.Extend(t.Context(), "operator", w.now.Add(time.Hour), "a new disk")
	if err != nil || e.Sequence != 1 || w.issuer.RevocationSequence() != 1 || len(w.issuer.Freezes()) != 0 {
		t.Errorf("extended: %+v, %v", e, err)
	}
	if r := w.last(); r.ActionType != "operator.extend" || r.Intent.Purpose != "a new disk" || r.AgentID != "powerbox" {
		t.Errorf("record: %+v", r)
	}
	if _, err := w.issuer.Extend(t.Context(), "operator", w.now.Add(time.Hour+time.Second), "a new disk"); err == nil {
		t.Error("extended for more than an hour")
	}
	if _, err := w.issuer.Extend(t.Context(), "operator", w.now.Add(time.Minute), ""); err == nil {
		t.Error("extended for no reason")
	}
}
