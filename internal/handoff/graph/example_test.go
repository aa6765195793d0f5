package graph_test

import (
	"fmt"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
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

// How far triage reaches if the text that it reads took it over, and which scopes
// are wider than their delegations need.
func ExampleGraph_Reach() {
	g, err := graph.New(
		[]graph.Node{
			{ID: "triage"},
			{ID: "refunds", Surface: operationsOf("refund.look", "refund.pay")},
			{ID: "files", Surface: operationsOf("files.read", "files.delete")},
		},
		[]graph.Span{
			{From: "triage", To: "refunds", Patterns: scopesOf("refund.look")},
			{From: "refunds", To: "files", Patterns: scopesOf("files.*")},
		},
		[]graph.Wire{
			{From: "triage", To: "refunds", Requires: operationsOf("refund.look", "refund.pay")},
			{From: "refunds", To: "files", Requires: operationsOf("files.read")},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range g.Reach("triage") {
		fmt.Println(r.Agent, "through", r.Through, "ungated:", r.Operations, "gated:", r.Gated)
	}
	for _, b := range g.OverBroad() {
		fmt.Println(b.From, "->", b.To, b.Pattern, "unused:", b.Unused)
	}
	// Output:
	// refunds through [] ungated: [refund.look refund.pay] gated: [refund.look]
	// files through [refunds] ungated: [files.delete files.read] gated: []
	// refunds -> files files.* unused: [files.delete]
}
