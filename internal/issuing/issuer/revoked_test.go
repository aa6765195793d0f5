package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// silent is a store that does not answer while it is off.
type silent struct {
	issuer.Store
	off bool
}

// anyRevoked reports whether any of the ids has been revoked.
func anyRevoked(i *issuer.Issuer, ids []string) bool { return slices.ContainsFunc(ids, i.Revoked) }

var errOff = errors.New("the store does not answer")

func (s *silent) View(ctx context.Context, read func(issuer.Reader) error) error {
	if s.off {
		return errOff
	}
	return s.Store.View(ctx, read)
}

// A start reads one page of revocations. Until the others are read, the store is asked for them,
// and everything counts as revoked that it cannot be asked for. No moment forgets a revocation.
func TestSEP20_RevocationsThatAStartLeaves(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c, meanwhile := w.read(alice), w.read(alice)
	const many = 2*1<<14 + 1000
	revoke := func(target string) issuer.Revocation {
		return issuer.Revocation{Kind: issuer.KindRevoke, Target: target, By: "alice", At: noon, Until: noon.Add(time.Hour)}
	}
	if err := w.store.Update(t.Context(), func(tx issuer.Tx) error {
		for n := range many {
			if _, err := tx.Revoke(revoke(fmt.Sprintf("rv_%06d", n))); err != nil {
				return err
			}
		}
		_, err := tx.Revoke(revoke("task:documents/last"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	store := &silent{Store: w.store}
	w.config.Store = store
	w.restart()
	all := func(when string, known bool) {
		t.Helper()
		for n := range many {
			if id := fmt.Sprintf("rv_%06d", n); (n%1000 == 0 || known) && !w.issuer.Revoked(id) {
				t.Fatalf("SEP-20 %s, %s is not revoked", when, id)
			}
		}
		if !w.issuer.Revoked("task:documents/last") || !anyRevoked(w.issuer, []string{"another", "task:documents/last"}) {
			t.Errorf("SEP-20 %s, the last one is not revoked", when)
		}
		if w.issuer.Revoked("another") || anyRevoked(w.issuer, []string{"another", "and another"}) || w.issuer.Dead(c) {
			t.Errorf("SEP-20 %s, others are revoked", when)
		}
	}
	all("after the start", false)
	// It ends before those that are left, so that reading them does not come to it.
	if _, err := w.issuer.Revoke(t.Context(), "documents", alice, meanwhile.RevocationID); err != nil {
		t.Fatal(err)
	}
	store.off = true
	if !w.issuer.Revoked("another") || !anyRevoked(w.issuer, []string{"another"}) || !w.issuer.Dead(c) {
		t.Error("SEP-20 a store that does not answer ends nothing")
	}
	if err := w.issuer.ReadRevocations(t.Context()); !errors.Is(err, errOff) {
		t.Errorf("reading without the store: %v", err)
	}
	if !w.issuer.Revoked("another") {
		t.Error("SEP-20 revocations that could not be read are not asked for")
	}
	store.off = false
	all("after reading failed", false)
	changed := w.issuer.Changed()
	if err := w.issuer.ReadRevocations(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.off = true // all are in memory now
	all("after all are read", true)
	if !w.issuer.Revoked(meanwhile.ID) {
		t.Error("SEP-20 a revocation of meanwhile is forgotten")
	}
	select {
	case <-changed:
		t.Error("reading what is known to all is a change")
	default:
	}
}
