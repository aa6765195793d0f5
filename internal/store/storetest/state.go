package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func capability(id string) issuer.Capability {
	clause := powerbox.Clause{Pattern: powerbox.ExactPattern(must(powerbox.ParseOperation("documents/documents:read/retrieve"))), Shape: powerbox.AnyArguments()}
	window := powerbox.Window{From: noon, Until: noon.Add(time.Hour)}
	return issuer.Capability{
		ID: id, Root: id, Agent: "documents", Grant: "documents:read", Principal: "user:alice", Holder: "key:abc", Requester: "planner",
		Purpose: "a report", Authority: must(powerbox.NewAuthority(window, 2, clause)),
		Handles:      []issuer.Handle{{Handle: "h-1", Name: "Q1", Resource: "/q1"}},
		RevocationID: "rv_" + id, Attenuable: true, PolicyDigest: "sha256:0", Created: noon, Expires: noon.Add(time.Hour),
	}
}

func put(t *testing.T, s Store, all ...issuer.Capability) {
	t.Helper()
	for _, c := range all {
		if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutCapability(c) }); err != nil {
			t.Fatal(err)
		}
	}
}

func aCapabilityComesBackAsItWas(t *testing.T, place Place) {
	s, want := newFixture(t, place).open(t), capability("cap_1")
	put(t, s, want)
	later := capability("cap_2")
	later.Created = noon.Add(time.Minute)
	put(t, s, later)
	err := s.View(t.Context(), func(r issuer.Reader) error {
		for name, get := range map[string]func() (issuer.Capability, error){
			"by id":            func() (issuer.Capability, error) { return r.Capability("cap_1") },
			"by revocation id": func() (issuer.Capability, error) { return r.CapabilityByRevocation("rv_cap_1") },
		} {
			got, err := get()
			if diff := cmp.Diff(want, got, cmp.Comparer(powerbox.Authority.Equal)); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
		if _, err := r.Capability("cap_9"); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("an unknown capability: %v; want ErrNotFound", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutCapability(want) }); err == nil {
		t.Error("a capability was stored twice; it never changes")
	}
}

// The sequence has no gaps although changes run at the same time and some are
// taken back, and revoking twice is revoking once.
func revocationsHaveNoGaps(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 10 {
				err := s.Update(t.Context(), func(tx issuer.Tx) error {
					one := issuer.Revocation{Kind: issuer.KindRevoke, Target: fmt.Sprintf("cap_%d_%d", p, i), By: "alice", At: noon, Until: noon.Add(time.Hour)}
					first, err := tx.Revoke(one)
					if again, _ := tx.Revoke(one); again != first {
						t.Errorf("revoked twice: %d and %d", first, again)
					}
					if err == nil && i%3 == 0 {
						err = boom
					}
					return err
				})
				if (i%3 == 0) != errors.Is(err, boom) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	err := s.View(t.Context(), func(r issuer.Reader) error {
		all, err := r.Revocations(0)
		for i, one := range all {
			if one.Sequence != int64(i+1) || !one.At.Equal(noon) || !one.Until.Equal(noon.Add(time.Hour)) || one.By != "alice" {
				t.Fatalf("number %d is %+v", i+1, one)
			}
		}
		if len(all) != 48 {
			t.Errorf("%d revocations; want 48", len(all))
		}
		if some, err := r.Revocations(40); err != nil || len(some) != 8 || some[0].Sequence != 41 {
			t.Errorf("behind 40: %v %v", some, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func theFirstOwnerOfATaskStays(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	first, second := issuer.Owner{Root: "cap_1", Principal: "user:alice", Holder: "key:abc"}, issuer.Owner{Principal: "user:eve"}
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for _, o := range []issuer.Owner{first, second} {
			got, err := tx.BindTask("documents", "", "task-1", o)
			if err != nil || got != first {
				t.Errorf("%v %v; want the first owner", got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.View(t.Context(), func(r issuer.Reader) error {
		if got, ok, err := r.TaskOwner("documents", "", "task-1"); err != nil || !ok || got != first {
			t.Errorf("%v %v %v", got, ok, err)
		}
		if got, ok, err := r.TaskOwner("other", "", "task-1"); err != nil || ok {
			t.Errorf("another agent's task: %v %v %v", got, ok, err)
		}
		return nil
	})
}

// An agent can give one id to a task in each of its tenants: they are as many tasks,
// with as many owners, also where tenant and task together are the same text.
func theTasksOfATenantAreItsOwn(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	tasks := []struct{ tenant, task string }{{"", "1"}, {"t1", "1"}, {"t2", "1"}, {"T1", "1"}, {"t", "11"}, {"t1/", "1"}, {"t", "1/1"}, {"t1\x00", "1"}, {"t1 ", "1"}}
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for n, of := range tasks {
			o := issuer.Owner{Principal: "user:alice", Holder: fmt.Sprint("key:", n)}
			if got, err := tx.BindTask("documents", of.tenant, of.task, o); err != nil || got != o {
				t.Errorf("%q is bound to %+v, %v", of, got, err)
			}
		}
		return tx.NameTask("documents", "t1", "1")
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.View(t.Context(), func(r issuer.Reader) error {
		for n, of := range tasks {
			if got, ok, err := r.TaskOwner("documents", of.tenant, of.task); err != nil || !ok || got.Holder != fmt.Sprint("key:", n) {
				t.Errorf("%q is %+v's, %v %v", of, got, ok, err)
			}
			if named, err := r.TaskNamed("documents", of.tenant, of.task); err != nil || named != (n == 1) {
				t.Errorf("a capability was issued for %q: %v %v", of, named, err)
			}
		}
		if got, ok, err := r.TaskOwner("documents", "t3", "1"); err != nil || ok {
			t.Errorf("in a tenant that has none: %v %v %v", got, ok, err)
		}
		return nil
	})
}

func modeIsWhatWasSetLast(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	if mode := modeOf(t, s, "documents"); mode != "" {
		t.Errorf("mode %q before any was set", mode)
	}
	for _, mode := range []string{"observe", "require"} {
		if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.SetMode("documents", mode) }); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, s, "documents"); got != mode {
			t.Errorf("mode %q; want %q", got, mode)
		}
	}
}

func recordsAreSelected(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for i, agent := range []string{"a", "b", "a"} {
			r := record(fmt.Sprintf("rec_%d", i))
			r.AgentID, r.Time = agent, noon.Add(time.Duration(i)*time.Minute)
			if _, err := tx.Append(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.View(t.Context(), func(r issuer.Reader) error {
		for name, c := range map[string]struct {
			query issuer.RecordQuery
			want  []string
		}{
			"all, newest first": {issuer.RecordQuery{}, []string{"rec_2", "rec_1", "rec_0"}},
			"of an agent":       {issuer.RecordQuery{Agent: "a"}, []string{"rec_2", "rec_0"}},
			"since":             {issuer.RecordQuery{Since: noon.Add(time.Minute)}, []string{"rec_2", "rec_1"}},
			"limited":           {issuer.RecordQuery{Limit: 1}, []string{"rec_2"}},
			"denied":            {issuer.RecordQuery{Decision: evidence.Deny}, nil},
		} {
			page, err := r.Records(c.query)
			var got []string
			for _, one := range page.Records {
				got = append(got, one.Record().ID)
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
		return nil
	})
}

// A start reads the revocations that have not ended, the other events, and the last one.
func aStartReadsWhatIsInForce(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	all := []issuer.Revocation{
		{Kind: issuer.KindRevoke, Target: "cap_1", By: "alice", At: noon, Until: noon.Add(time.Hour)},
		{Kind: issuer.KindFreeze, Target: "cap_1", By: "operator", Reason: "odd calls", At: noon},
		{Kind: issuer.KindRevoke, Target: "cap_1", By: "alice", At: noon, Until: noon.Add(3 * time.Hour)},
		{Kind: issuer.KindRevoke, Target: "cap_2", By: "alice", At: noon, Until: noon.Add(2 * time.Hour)},
		{Kind: issuer.KindRevoke, Target: "cap_3", By: "alice", At: noon, Until: noon.Add(time.Hour)},
	}
	look := func(wantStops []issuer.Revocation, wantRevoked map[string]int64) {
		t.Helper()
		err := s.View(t.Context(), func(r issuer.Reader) error {
			stops, err := r.Stops()
			if diff := cmp.Diff(wantStops, stops); diff != "" {
				t.Error(diff)
			}
			revoked := map[string]int64{}
			behind := issuer.RevokedPlace{Until: noon.Add(2 * time.Hour).Unix()}
			err = errors.Join(err, r.Revoked(behind, 100, func(one issuer.RevokedPlace) { revoked[one.Target] = one.Until }))
			if diff := cmp.Diff(wantRevoked, revoked); diff != "" {
				t.Error(diff)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	look(nil, map[string]int64{})
	for i := range all {
		all[i].Sequence = int64(i + 1)
		if err := s.Update(t.Context(), func(tx issuer.Tx) error { _, err := tx.Revoke(all[i]); return err }); err != nil {
			t.Fatal(err)
		}
	}
	look([]issuer.Revocation{all[1], all[4]}, map[string]int64{"cap_1": noon.Add(3 * time.Hour).Unix(), "cap_2": noon.Add(2 * time.Hour).Unix()})
	err := s.View(t.Context(), func(r issuer.Reader) error {
		for target, ends := range map[string]int{"cap_1": 3, "cap_2": 2, "cap_3": 1, "cap_4": -1} {
			for hours := range 4 {
				if got, err := r.RevokedUntil(target, noon.Add(time.Duration(hours)*time.Hour)); err != nil || got != (hours <= ends) {
					t.Errorf("%s is revoked for %d hours: %t, %v", target, hours, got, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Revocations are read in pages, in the order of their ends and then of their targets. Each page
// begins behind the last one of the page before it.
func revocationsAreReadInPages(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	var want []issuer.RevokedPlace
	for n, target := range []string{"A", "a", "a\nb", "b", "task:a/z", "task:a/\u00e4", "a"} {
		want = append(want, issuer.RevokedPlace{Until: noon.Add(time.Duration(n/6) * time.Hour).Unix(), Target: target})
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error {
		var errs []error
		for _, one := range append(want, issuer.RevokedPlace{Until: noon.Unix() - 1, Target: "over"}) {
			_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: one.Target, By: "alice", At: noon, Until: time.Unix(one.Until, 0)})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit < len(want)+2; limit++ {
		var got []issuer.RevokedPlace
		if err := s.View(t.Context(), func(r issuer.Reader) error {
			next := issuer.RevokedPlace{Until: noon.Unix()}
			for n := limit; n == limit; {
				n = 0
				if err := r.Revoked(next, limit, func(one issuer.RevokedPlace) { n, next, got = n+1, one, append(got, one) }); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in pages of %d:\n%s", limit, diff)
		}
	}
}

// Freezes and thaws are in the sequence of revocations, and every one is kept.
func freezesShareTheSequence(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	want := []issuer.Revocation{
		{Kind: issuer.KindRevoke, Target: "cap_1", By: "alice", At: noon, Until: noon.Add(time.Hour)},
		{Kind: issuer.KindFreeze, Target: "cap_1", By: "operator", Reason: "odd calls", At: noon},
		{Kind: issuer.KindFreeze, Target: "cap_1", By: "operator", Reason: "more of them", At: noon},
		{Kind: issuer.KindThaw, Target: "cap_1", By: "operator", Reason: "explained", At: noon},
	}
	for i := range want {
		want[i].Sequence = int64(i + 1)
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			n, err := tx.Revoke(want[i])
			if n != want[i].Sequence {
				t.Errorf("event %d got number %d", i+1, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { _, err := tx.Revoke(issuer.Revocation{Target: "cap_2"}); return err }); err == nil {
		t.Error("an event of no kind was stored")
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		got, err := r.Revocations(0)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
