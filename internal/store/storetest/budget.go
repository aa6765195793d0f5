package storetest

import (
	"math/big"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// SettledOnce says that a decision that is settled again gives nothing back again
// (ATK-42).
func SettledOnce(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	ctx := t.Context()
	reserve := func(decision string, amount int64) (ok bool) {
		t.Helper()
		err := s.UpdateProvider(ctx, func(tx provider.Tx) error {
			var err error
			ok, err = tx.Reserve(decision, "cap_1", provider.Reservation{Budget: "sum:amount", Amount: big.NewRat(amount, 1), Limit: big.NewRat(100, 1)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	settle := func(decision string) {
		t.Helper()
		if err := s.UpdateProvider(ctx, func(tx provider.Tx) error { return tx.Settle(decision, true) }); err != nil {
			t.Fatal(err)
		}
	}
	if !reserve("rec_1", 60) || !reserve("rec_2", 40) || reserve("rec_3", 1) {
		t.Error("reserved: want 60 and 40 of 100, and no more")
	}
	for range 3 {
		settle("rec_2")
	}
	if !reserve("rec_4", 40) || reserve("rec_5", 1) {
		t.Error("what was given back: want 40, once")
	}
}
