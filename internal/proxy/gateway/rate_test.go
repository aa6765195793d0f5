package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/gate"
)

// TestATK121_CapabilitiesDoNotRaiseTheLimit calls under one capability after the other, each of
// which a person can request again and again. The person's calls and streams are bounded, one
// capability that was handed on does not use up the others, and no other person has less.
func TestATK121_CapabilitiesDoNotRaiseTheLimit(t *testing.T) {
	const limit = 5
	now := time.Unix(1_800_000_000, 0)
	g := &Gateway{config: Config{Now: func() time.Time { return now }}, limiter: newLimiter(limit), streams: newHolds(limit)}
	calls := func(held gate.Held, times int) (passed int) {
		for range times {
			if (&tally{gateway: g}).settle(granted(held)...) {
				passed++
			}
		}
		return passed
	}
	if n := calls(gate.Held{Root: "handed", Principal: "pw_alice"}, 100); n != limit {
		t.Errorf("%d calls under one capability; want %d", n, limit)
	}
	if n := calls(gate.Held{Root: "own", Principal: "pw_alice"}, 1); n != 1 {
		t.Error("a capability that was handed on uses up the limit of the others")
	}
	for name, whose := range map[string]gate.Held{
		"a person": {Principal: "pw_carol"}, "a foreign issuer": {Foreign: "https://other.example"}, "a holder": {Holder: "client:batch"},
		"a holder that handed on": {Holder: "key:x", Through: []string{"client:desk"}},
	} {
		passed, open := 0, 0
		for i := range 100 {
			whose.Root = fmt.Sprint(name, i)
			passed += calls(whose, 1)
			if g.streams.take(granted(whose)...) {
				open++
			}
		}
		if want := limit * grantedTimes; passed != want || open != want {
			t.Errorf("%s has %d calls and %d streams under 100 capabilities; want %d", name, passed, open, want)
		}
		for i := range open {
			whose.Root = fmt.Sprint(name, i)
			g.streams.leave(granted(whose)...)
		}
	}
	if n := calls(gate.Held{Root: "bobs", Principal: "pw_bob"}, 1); n != 1 {
		t.Error("another person has no calls left")
	}
	if len(g.streams.open) != 0 {
		t.Errorf("%d streams are counted that ended", len(g.streams.open))
	}
}
