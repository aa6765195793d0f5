package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func heldIDs(t *testing.T, s Store, q issuer.HeldQuery) string {
	t.Helper()
	var ids []string
	err := s.View(t.Context(), func(r issuer.Reader) error {
		held, err := r.HeldBy(q)
		for _, c := range held {
			ids = append(ids, c.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

func whatIsHeld(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for n, change := range []func(*issuer.Capability){
		func(*issuer.Capability) {},
		func(c *issuer.Capability) { c.Grant = "documents:write" },
		func(c *issuer.Capability) { c.Expires = noon.Add(time.Minute) },
		func(c *issuer.Capability) { c.Holder = "key:xyz" },
		func(c *issuer.Capability) { c.Principal = "user:bob" },
		func(c *issuer.Capability) { c.Agent = "mail" },
		func(*issuer.Capability) {},
	} {
		c := capability(fmt.Sprintf("cap_%d", n))
		c.Created = noon.Add(time.Duration(n) * time.Second)
		change(&c)
		put(t, s, c)
	}
	whole := issuer.HeldQuery{Agent: "documents", Holder: "key:abc", Principal: "user:alice", After: noon, Limit: 9}
	for name, c := range map[string]struct {
		change func(*issuer.HeldQuery)
		want   string
	}{
		"newest first":      {func(*issuer.HeldQuery) {}, "cap_6 cap_2 cap_1 cap_0"},
		"of one grant":      {func(q *issuer.HeldQuery) { q.Grant = "documents:write" }, "cap_1"},
		"live":              {func(q *issuer.HeldQuery) { q.After = noon.Add(time.Minute) }, "cap_6 cap_1 cap_0"},
		"as many":           {func(q *issuer.HeldQuery) { q.Limit = 2 }, "cap_6 cap_2"},
		"another holder":    {func(q *issuer.HeldQuery) { q.Holder = "key:xyz" }, "cap_3"},
		"another principal": {func(q *issuer.HeldQuery) { q.Principal = "user:bob" }, "cap_4"},
		"another agent":     {func(q *issuer.HeldQuery) { q.Agent = "mail" }, "cap_5"},
		"nobody":            {func(q *issuer.HeldQuery) { q.Holder = "" }, ""},
	} {
		q := whole
		c.change(&q)
		if got := heldIDs(t, s, q); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	err := s.View(t.Context(), func(r issuer.Reader) error { _, err := r.HeldBy(issuer.HeldQuery{}); return err })
	if err == nil {
		t.Error("without a limit it answers")
	}
}

// Revoking again never shortens, and has the number of the event that stands;
// only a longer one is a separate event. No event changes, so that anyone who
// follows the sequence knows everything.
func theLaterEndOfARevocationCounts(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	numbers := map[time.Duration]int64{1: 1, 3: 2, 2: 2}
	for _, hours := range []time.Duration{1, 3, 2} {
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			n, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: "cap_1", By: fmt.Sprint("by ", int(hours)), At: noon, Until: noon.Add(hours * time.Hour)})
			if n != numbers[hours] {
				t.Errorf("%d hours have number %d", hours, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		got, err := r.Revocations(0)
		want := []issuer.Revocation{
			{Sequence: 1, Kind: issuer.KindRevoke, Target: "cap_1", By: "by 1", At: noon, Until: noon.Add(time.Hour)},
			{Sequence: 2, Kind: issuer.KindRevoke, Target: "cap_1", By: "by 3", At: noon, Until: noon.Add(3 * time.Hour)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A task whose id an agent made up is never taken for one that has capabilities.
func aTaskIsNamedByACapabilityAlone(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if err := tx.NameTask("documents", "", "task-1"); err != nil {
			return err
		}
		if _, err := tx.BindTask("documents", "", "named:task-2", issuer.Owner{Principal: "user:eve"}); err != nil {
			return err
		}
		return tx.NameTask("documents", "", "task-1")
	})
	if err != nil {
		t.Fatal(err)
	}
	named(t, s, map[string]bool{"task-1": true, "task-2": false, "named:task-1": false})
}

func named(t *testing.T, s Store, want map[string]bool) {
	t.Helper()
	err := s.View(t.Context(), func(r issuer.Reader) error {
		for task, want := range want {
			if got, err := r.TaskNamed("documents", "", task); err != nil || got != want {
				t.Errorf("%s is named: %t, %v", task, got, err)
			}
			if _, known, err := r.TaskOwner("documents", "", "named:task-1"); err != nil || known {
				t.Errorf("an owner of a name: %t, %v", known, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
