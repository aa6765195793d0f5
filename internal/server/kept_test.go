package server

import (
	"context"
	"errors"
	"testing"
	"time"
)

// failing is a keeper whose store is away.
type failing struct{ Keeper }

var errAway = errors.New("the database is away")

func (failing) Once(context.Context, string, string, time.Time, time.Time) (bool, error) {
	return false, errAway
}

// ATK-20: where the store cannot say whether a proof was used, it is neither fresh
// nor used: the call is one that may be tried again.
func TestATK20_TheStoreCannotSay(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	r := Replays{Keeper: failing{}, Kind: "proof"}
	if fresh, err := r.UseFor(true, "p", now.Add(time.Minute), now); fresh || !errors.Is(err, errAway) {
		t.Errorf("%t %v", fresh, err)
	}
	if r.Use("p", now.Add(time.Minute), now) {
		t.Error("whoever cannot be told is told that it is fresh")
	}
	g := &Gateways{Used: r}
	if fresh, err := g.used("p", now.Add(time.Minute), now); fresh || !errors.Is(err, errAway) {
		t.Errorf("at a gateway: %t %v", fresh, err)
	}
}
