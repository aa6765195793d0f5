package storetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// together hands changes to a store while it is busy, so that they are likely to
// share a commit, and returns what became of each.
func together(t *testing.T, s Store, changes ...func(issuer.Tx) error) []error {
	t.Helper()
	held, begun := make(chan struct{}), make(chan struct{})
	var busy, all sync.WaitGroup
	var once sync.Once
	busy.Go(func() {
		_ = s.Update(t.Context(), func(issuer.Tx) error { once.Do(func() { close(begun) }); <-held; return nil })
	})
	<-begun
	results := make([]error, len(changes))
	waiting := make(chan struct{}, len(changes))
	for i, change := range changes {
		all.Go(func() {
			waiting <- struct{}{}
			results[i] = s.Update(t.Context(), change)
		})
	}
	for range changes {
		<-waiting
	}
	close(held)
	busy.Wait()
	all.Wait()
	return results
}

// anIDThatIsUsedFailsItsChangeAlone: an id that is used already, in the log or in
// the same commit, is refused to the change that uses it again, and to no other.
func anIDThatIsUsedFailsItsChangeAlone(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	if err := appendOne(t, s, record("rec_old")); err != nil {
		t.Fatal(err)
	}
	var changes []func(issuer.Tx) error
	ids := []string{"rec_1", "rec_old", "rec_2", "rec_1", "rec_3"}
	for i, id := range ids {
		changes = append(changes, func(tx issuer.Tx) error {
			if err := tx.SetMode(fmt.Sprint("agent", i), "require"); err != nil {
				return err
			}
			_, err := tx.Append(record(id))
			return err
		})
	}
	failed := 0
	for i, err := range together(t, s, changes...) {
		if (modeOf(t, s, fmt.Sprint("agent", i)) == "") != (err != nil) {
			t.Errorf("change %d: %v, and its mode is %q", i, err, modeOf(t, s, fmt.Sprint("agent", i)))
		}
		if err == nil {
			continue
		}
		failed++
		if !errors.Is(err, evidence.ErrNotWritten) || !strings.Contains(err.Error(), `record id "`+ids[i]+`" is already used`) {
			t.Errorf("change %d: %v", i, err)
		}
		if errors.Is(err, evidence.ErrUnavailable) {
			t.Errorf("EXT-27 change %d: %v; want no failure of the store, which would let reads go on without a record", i, err)
		}
	}
	if failed != 2 {
		t.Errorf("%d changes failed; want 2", failed)
	}
	f.wantLog(t, s, 4, 1)
}

// aFailedStatementIsItsChangesAlone: a change that the database refuses a statement
// affects no other change, and its earlier writes are undone.
func aFailedStatementIsItsChangesAlone(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	put(t, s, capability("cap_1"))
	var changes []func(issuer.Tx) error
	for i := range 8 {
		changes = append(changes, func(tx issuer.Tx) error {
			if err := tx.SetMode(fmt.Sprint("agent", i), "require"); err != nil {
				return err
			}
			if _, err := tx.Append(record(fmt.Sprint("rec_", i))); err != nil {
				return err
			}
			if i%2 == 1 {
				return tx.PutCapability(capability("cap_1")) // is there
			}
			return nil
		})
	}
	for i, err := range together(t, s, changes...) {
		if (err != nil) != (i%2 == 1) || (modeOf(t, s, fmt.Sprint("agent", i)) == "") != (i%2 == 1) {
			t.Errorf("change %d: %v, mode %q", i, err, modeOf(t, s, fmt.Sprint("agent", i)))
		}
	}
	f.wantLog(t, s, 4, 1)
}

// whoGaveUpIsNotRun: a change whose caller has gone before it ran does not happen.
func whoGaveUpIsNotRun(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Update(ctx, func(tx issuer.Tx) error { return tx.SetMode("documents", "require") })
	if !errors.Is(err, context.Canceled) || modeOf(t, s, "documents") != "" {
		t.Errorf("%v, mode %q", err, modeOf(t, s, "documents"))
	}
}

// batchesEndSigned: the last record of each chain that is written is signed, also
// where a change after it failed, and covers those before.
func batchesEndSigned(t *testing.T, place Place) {
	f := newFixture(t, place)
	f.keys.Batches, f.trust.Batches = true, true
	s := f.open(t)
	failed := errors.New("the last changes fail")
	var changes []func(issuer.Tx) error
	for i := range 40 {
		changes = append(changes, func(tx issuer.Tx) error {
			r := record(fmt.Sprintf("rec_%d", i))
			r.AgentID = fmt.Sprintf("agent-%d", i%2)
			if _, err := tx.Append(r); err != nil || i < 32 {
				return err
			}
			return failed
		})
	}
	for i, err := range together(t, s, changes...) {
		if errors.Is(err, failed) != (i >= 32) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	report := f.verify(t, s)
	if report.Verdict() != evidence.OK || report.Records != 32 || report.Covered == 0 {
		t.Errorf("%d of %d covered, %v", report.Covered, report.Records, report.Problems)
	}
}

// chainsGoOnAfterAStart: what the store remembers and what it reads is the same.
func chainsGoOnAfterAStart(t *testing.T, place Place) {
	f := newFixture(t, place)
	const agents = 7
	total := 0
	for round, n := range []int{1, 30, 3, 40} {
		s := f.open(t)
		if empty, err := s.Empty(t.Context()); err != nil || empty != (round == 0) {
			t.Errorf("round %d: empty: %t, %v", round, empty, err)
		}
		fill(t, s, fmt.Sprint(round), n, agents)
		total += n
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := f.open(t)
	f.wantLog(t, s, total, agents)
	if n, err := s.Records(t.Context()); err != nil || n != int64(total) {
		t.Errorf("%d records, %v", n, err)
	}
	all, err := s.From(t.Context(), 0)
	if some, errSome := s.From(t.Context(), int64(total)-2); err != nil || errSome != nil || len(all) != total || len(some) != 2 || !bytes.Equal(some[1].Bytes(), all[total-1].Bytes()) {
		t.Errorf("followed: %d, %d: %v, %v", len(all), len(some), err, errSome)
	}
}

// anotherLogKeyIsRefused: evidence is not continued under another key.
func anotherLogKeyIsRefused(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	fill(t, s, "own", 2, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f.keys.Checkpoint, _, _ = evidence.NewLogSigner("example.org/log", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32)))
	if s, err := f.again(t.Context(), f.keys); err == nil {
		_ = s.Close()
		t.Error("a log goes on under another key")
	}
}

// twoChangesOfOneThingAreOneAfterTheOther: each sees what the one before did, so that
// nothing is lost and nothing is given twice.
func twoChangesOfOneThingAreOneAfterTheOther(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	var changes []func(issuer.Tx) error
	got := make([]string, 20)
	for i := range got {
		changes = append(changes, func(tx issuer.Tx) error {
			modes, err := tx.Modes()
			mode := modes["documents"]
			if err != nil {
				return err
			}
			got[i] = mode + "x"
			return tx.SetMode("documents", got[i])
		})
	}
	for _, err := range together(t, s, changes...) {
		if err != nil {
			t.Error(err)
		}
	}
	if want := strings.Repeat("x", len(got)); modeOf(t, s, "documents") != want {
		t.Errorf("%q; want %q", modeOf(t, s, "documents"), want)
	}
	seen := map[string]bool{}
	for _, one := range got {
		if seen[one] {
			t.Errorf("two changes saw the same state: %q", one)
		}
		seen[one] = true
	}
}

// aViewIsOneState: later writes are not seen.
func aViewIsOneState(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	put(t, s, capability("cap_1"))
	err := s.View(t.Context(), func(r issuer.Reader) error {
		if modes, err := r.Modes(); err != nil || modes["documents"] != "" {
			t.Errorf("%q %v", modes, err)
		}
		if err := s.Update(t.Context(), func(tx issuer.Tx) error {
			if err := tx.SetMode("documents", "require"); err != nil {
				return err
			}
			_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: "cap_1", At: noon, Until: noon.Add(time.Hour)})
			return err
		}); err != nil {
			t.Error(err)
		}
		modes, err := r.Modes()
		mode := modes["documents"]
		all, errAll := r.Revocations(0)
		if err != nil || errAll != nil || mode != "" || len(all) != 0 {
			t.Errorf("a change came into a view: %q %d %v %v", mode, len(all), err, errAll)
		}
		return nil
	})
	if err != nil || modeOf(t, s, "documents") != "require" {
		t.Errorf("%v, %q", err, modeOf(t, s, "documents"))
	}
}

// timesAreTheCallers: a store has no clock. What expired long ago, and what begins
// in centuries, comes back to the millisecond or second that it keeps.
func timesAreTheCallers(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for n, at := range []time.Time{time.Unix(-1e9, 0), time.Unix(1, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)} {
		at = at.UTC()
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			r := record(fmt.Sprint("rec_", n))
			r.Time = at
			if _, err := tx.Append(r); err != nil {
				return err
			}
			_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: fmt.Sprint("cap_", n), At: at, Until: at.Add(time.Hour)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(t.Context(), func(r issuer.Reader) error {
			all, err := r.Revocations(int64(n))
			if err == nil && (len(all) != 1 || !all[0].At.Equal(at) || !all[0].Until.Equal(at.Add(time.Hour))) {
				t.Errorf("%v came back as %+v", at, all)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// namesAreComparedBytewise: two names are one where their bytes are, whatever a
// collation, a normalisation or a text type would say, and any bytes are a name.
func namesAreComparedBytewise(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	names := []string{"straße", "strasse", "STRASSE", "stra\u00dfe ", "a\u0301", "\u00e1", "nul\x00byte", "nul\x00", "nul", "\xff\xfe", "quote'\"\\", "%", "_", "emoji\U0001F600", "\\x41", "A"}
	for n, name := range names {
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			if err := tx.SetMode(name, fmt.Sprint(n)); err != nil {
				return err
			}
			if _, err := tx.BindTask(name, name, name, issuer.Owner{Principal: name, Holder: fmt.Sprint(n)}); err != nil {
				return err
			}
			c := capability("cap_" + name)
			c.Holder, c.Principal, c.RevocationID = name, name, "rv_"+name
			return tx.PutCapability(c)
		})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	}
	for n, name := range names {
		err := s.View(t.Context(), func(r issuer.Reader) error {
			modes, err := r.Modes()
			mode := modes[name]
			if err != nil || mode != fmt.Sprint(n) {
				t.Errorf("mode of %q: %q %v; want %d", name, mode, err, n)
			}
			owner, known, err := r.TaskOwner(name, name, name)
			if want := (issuer.Owner{Principal: name, Holder: fmt.Sprint(n)}); err != nil || !known || !cmp.Equal(owner, want) {
				t.Errorf("owner of %q: %+v %v", name, owner, err)
			}
			held, err := r.HeldBy(issuer.HeldQuery{Agent: "documents", Holder: name, Principal: name, After: noon, Limit: 9})
			if err != nil || len(held) != 1 {
				t.Errorf("%q holds %d, %v; want one", name, len(held), err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
