package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
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
	if fresh, err := r.UseFor(gate.ProofUse{Reads: true}, "p", now.Add(time.Minute), now); fresh || !errors.Is(err, errAway) {
		t.Errorf("%t %v", fresh, err)
	}
	if r.Use("p", now.Add(time.Minute), now) {
		t.Error("whoever cannot be told is told that it is fresh")
	}
	g := &Gateways{Used: r}
	if fresh, err := g.used("documents", false, "p", now.Add(time.Minute), now); fresh || !errors.Is(err, errAway) {
		t.Errorf("at a gateway: %t %v", fresh, err)
	}
	for _, own := range []ApartProofs{{Own: r}, {Own: gate.NewMemory(1)}, {}} {
		own.Gateways = func() *Gateways { return &Gateways{Used: r, fronted: map[string]bool{"documents": true}} }
		if fresh, err := own.UseFor(gate.ProofUse{Agent: "documents"}, "p", now.Add(time.Minute), now); fresh || !errors.Is(err, errAway) {
			t.Errorf("at the server: %t %v", fresh, err)
		}
	}
}

// TestATK128_ProofsOfTheServersOwnGateway has the server's own gateway ask the memory of the
// remote gateways about their agents, and about no others.
func TestATK128_ProofsOfTheServersOwnGateway(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	g := &Gateways{Used: gate.NewMemory(8), fronted: map[string]bool{"documents": true}}
	p := ApartProofs{Own: gate.NewMemory(8), Gateways: func() *Gateways { return g }}
	used := func(agent, id string) bool {
		fresh, err := p.UseFor(gate.ProofUse{Agent: agent}, id, now.Add(time.Minute), now)
		return err == nil && !fresh
	}
	if fresh, err := g.used("documents", false, "1", now.Add(time.Minute), now); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	for n, c := range []struct {
		agent, id string
		used      bool
	}{{"documents", "1", true}, {"documents", "2", false}, {"documents", "2", true}, {"mail", "3", false}, {"mail", "3", true}} {
		if got := used(c.agent, c.id); got != c.used {
			t.Errorf("ATK-128 use %d, %s of %s: used %t; want %t", n, c.id, c.agent, got, c.used)
		}
	}
	if !p.Use("4", now.Add(time.Minute), now) || p.Use("4", now.Add(time.Minute), now) {
		t.Error("ATK-128 a proof of no agent is used once here")
	}
}

// kept keeps values, of whatever kind, for ever.
type kept struct {
	Keeper
	values map[string][]byte
}

func (k kept) Keep(_ context.Context, _, id string, value []byte, _ time.Time) error {
	k.values[id] = value
	return nil
}

func (k kept) Kept(_ context.Context, _, id string, _ time.Time) ([]byte, error) {
	v, ok := k.values[id]
	if !ok {
		return nil, issuer.ErrNotFound
	}
	return v, nil
}

func (k kept) Take(_ context.Context, _, id string, _ time.Time) ([]byte, error) {
	v := k.values[id]
	delete(k.values, id)
	return v, nil
}

// unwritten is a recorder whose store is away.
type unwritten struct{ wrote int }

func (u *unwritten) Record(context.Context, evidence.Record) (evidence.Sealed, error) {
	u.wrote++
	return evidence.Sealed{}, errAway
}

// EXT-25: an outcome that could not be recorded can be told again, by the guard whose
// attempt it is, and the one who told it has gone meanwhile.
func TestEXT25_AnOutcomeIsNotLost(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	now := func() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }
	for name, recorded := range map[string]error{"the attempt cannot be read": errAway, "the outcome cannot be written": nil} {
		k := kept{values: map[string][]byte{"rec_1": []byte("a guard")}}
		u := &unwritten{}
		d := &Decisions{Keeper: k, Now: now, Gate: &gate.Gate{Recorder: u, Now: now, NewID: func() (string, error) { return "rec_2", nil }}, Recorded: func(ctx context.Context, _ string) (evidence.Record, error) {
			return evidence.Record{OutcomeStatus: evidence.Pending}, errors.Join(recorded, ctx.Err())
		}}
		if _, err := d.outcomeAnywhere(gone, &Guard{Name: "another"}, "rec_1", evidence.Achieved); err == nil || errors.Is(err, errAway) || u.wrote != 0 {
			t.Errorf("%s, told by another guard: %v", name, err)
		}
		if _, err := d.outcomeAnywhere(gone, &Guard{Name: "a guard"}, "rec_1", evidence.Achieved); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", name, err)
		}
		if string(k.values["rec_1"]) != "a guard" {
			t.Errorf("%s: nobody waits for the outcome any more", name)
		}
	}
}
