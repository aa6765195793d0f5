package token

import (
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestChainOfEveryDepthIsVerifiedAndDecides(t *testing.T) {
	for hops := range MaxDepth + 1 {
		f := newFamily(t, hops)
		v := f.verify(t)
		if got, want := v.Authority().Depth(), MaxDepth-hops; got != want {
			t.Errorf("%d hops: depth %d, want %d", hops, got, want)
		}
		op, args := operation(t, "read"), value(t, `{"path":"/q1"}`)
		attempt, err := powerbox.Invocation(op, args)
		if err != nil {
			t.Fatal(err)
		}
		if d := powerbox.Decide(attempt, v.Authority(), at); !d.Allowed {
			t.Errorf("%d hops: %v", hops, d.Err())
		}
		proof, err := SignProof(f.holders[hops], Proof{ID: "p", IssuedAt: at, TokenID: v.ID(), Operation: "read", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.CheckProof(proof, Expected{Now: at, Operation: op, Arguments: args}); err != nil {
			t.Errorf("%d hops: %v", hops, err)
		}
	}
}
