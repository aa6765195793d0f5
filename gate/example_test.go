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

func scopesOf(scopes ...string) []powerbox.Pattern {
	ps := make([]powerbox.Pattern, len(scopes))
	for i, scope := range scopes {
		p, err := powerbox.ParseScope(scope)
		if err != nil {
			panic(err)
		}
		ps[i] = p
	}
	return ps
}

// town is three agents: triage may have refunds looked at, and hands over tasks
// that pay as well.
func town() (*gate.Graph, error) {
	return gate.NewGraph(
		[]gate.Node{
			{ID: "triage"},
			{ID: "refunds", Surface: operationsOf("refund.look", "refund.pay")},
			{ID: "files", Surface: operationsOf("files.read", "files.delete")},
		},
		[]gate.Span{
			{From: "triage", To: "refunds", Patterns: scopesOf("refund.look")},
			{From: "refunds", To: "files", Patterns: scopesOf("files.*")},
		},
		[]gate.Wire{
			{From: "triage", To: "refunds", Requires: operationsOf("refund.look", "refund.pay")},
			{From: "refunds", To: "files", Requires: operationsOf("files.read")},
		})
}

// A task is held against what its target can do and the sender may have done
// there, before a message is sent.
func ExamplePreflight() {
	graph, err := town()
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for _, wire := range graph.From("triage") {
		handoff, err := graph.Handoff(wire.From, wire.To, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		handoff.Required = wire.Requires
		if failure := gate.Preflight(handoff, now); failure != nil {
			fmt.Println(failure)
		}
	}
	// Output:
	// Capability scope violation: {refund.pay}
}

// What an agent could reach if what it reads took it over, and which scopes are
// wider than what they are for.
func ExampleGraph_Reach() {
	graph, err := town()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range graph.Reach("triage") {
		fmt.Println(r.Agent, "through", r.Through, "ungated:", r.Operations, "gated:", r.Gated)
	}
	for _, b := range graph.OverBroad() {
		fmt.Println(b.From, "->", b.To, b.Pattern, "unused:", b.Unused)
	}
	// Output:
	// refunds through [] ungated: [refund.look refund.pay] gated: [refund.look]
	// files through [refunds] ungated: [files.delete files.read] gated: []
	// refunds -> files files.* unused: [files.delete]
}
