package gate_test

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

func operationsOf(names ...string) []powerbox.Operation {
	ops := make([]powerbox.Operation, len(names))
	for i, name := range names {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			panic(err)
		}
		ops[i] = op
	}
	return ops
}

// allowed has operations with any arguments, for an hour.
func allowed(now time.Time, names ...string) powerbox.Authority {
	clauses := make([]powerbox.Clause, 0, len(names))
	for _, op := range operationsOf(names...) {
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	a, err := powerbox.NewAuthority(powerbox.Window{Until: now.Add(time.Hour)}, 0, clauses...)
	if err != nil {
		panic(err)
	}
	return a
}

// A task is held against what its target can do and the sender may have done
// there, before a message is sent.
func ExamplePreflight() {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	failure := gate.Preflight(gate.Handoff{
		From: "triage", To: "refunds",
		Required: operationsOf("refund.look", "refund.pay"),
		Caps:     allowed(now, "refund.look", "refund.pay"),
		Scope:    allowed(now, "refund.look"),
	}, now)
	fmt.Println(failure)
	// Output:
	// Capability scope violation: {refund.pay}
}
