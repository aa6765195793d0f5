package graph_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func exact(ops []powerbox.Operation) []powerbox.Pattern {
	var out []powerbox.Pattern
	for _, op := range ops {
		out = append(out, powerbox.ExactPattern(op))
	}
	return out
}

// TestGATE12_EdgesArePreflights: the graph says of a wire what the gate would say
// to it, whatever the declarations are.
func TestGATE12_EdgesArePreflights(t *testing.T) {
	names := []string{"a", "a.b", "a.b.c", "b", "b.c", "c"}
	scopes := []string{"a", "a.*", "b.c", "b.*", "c", "a.b"}
	rapid.Check(t, func(t *rapid.T) {
		surface := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "surface")
		required := rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "required")
		scope := rapid.SliceOfDistinct(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5}), rapid.ID).Draw(t, "scope")
		var ps []powerbox.Pattern
		for _, i := range scope {
			p, err := powerbox.ParseScope(scopes[i])
			if err != nil {
				t.Fatal(err)
			}
			ps = append(ps, p)
		}
		ops := func(list []string) (out []powerbox.Operation) {
			for _, name := range list {
				op, err := powerbox.ParseOperation(name)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, op)
			}
			return out
		}
		wire := graph.Wire{From: "x", To: "y", Requires: ops(required)}
		g, err := graph.New([]graph.Node{{ID: "x"}, {ID: "y", Surface: ops(surface)}}, []graph.Span{{From: "x", To: "y", Patterns: ps}}, []graph.Wire{wire})
		if err != nil {
			t.Fatal(err)
		}
		var clauses []powerbox.Clause
		for _, p := range ps {
			clauses = append(clauses, powerbox.Clause{Pattern: p, Shape: powerbox.AnyArguments()})
		}
		window := powerbox.Window{Until: noon.Add(time.Hour)}
		scoped, err := powerbox.NewAuthority(window, 16, clauses...)
		if err != nil {
			t.Fatal(err)
		}
		clauses = nil
		for _, p := range exact(ops(surface)) {
			clauses = append(clauses, powerbox.Clause{Pattern: p, Shape: powerbox.AnyArguments()})
		}
		caps, err := powerbox.NewAuthority(window, 16, clauses...)
		if err != nil {
			t.Fatal(err)
		}
		want := gate.Preflight(gate.Handoff{From: "x", To: "y", Required: wire.Requires, Caps: caps, Scope: scoped}, noon)
		if diff := cmp.Diff(want, g.Edges()[0].Failure); diff != "" {
			t.Fatalf("GATE-12 surface %v scope %v required %v: %s", surface, scope, required, diff)
		}
	})
}

// house is a small graph: an origin, two in a circle, and one that sends mail.
func house(t *testing.T) *graph.Graph {
	t.Helper()
	g, err := graph.New(
		[]graph.Node{{ID: "analyst"}, {ID: "reports", Surface: operationsOf("reports.read", "reports.write")}, {ID: "mailer", Surface: operationsOf("mail.read", "mail.send")}, {ID: "lonely", Surface: operationsOf("x")}},
		[]graph.Span{
			{From: "analyst", To: "reports", Patterns: scopesOf("reports.*", "reports.print")},
			{From: "reports", To: "mailer", Patterns: scopesOf("mail.send")},
			{From: "analyst", To: "lonely", Patterns: scopesOf("x")},
		},
		[]graph.Wire{
			{From: "analyst", To: "reports", Requires: operationsOf("reports.read")},
			{From: "reports", To: "mailer", Requires: operationsOf("mail.send")},
			{From: "mailer", To: "reports", Requires: operationsOf("reports.read", "reports.write")},
		})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGATE12_Graph: edges that never pass, over-broad scopes, circles, and the
// reach of a compromised agent, ambient and gated.
func TestGATE12_Graph(t *testing.T) {
	g := house(t)
	var failures []string
	for _, e := range g.Edges() {
		if e.Failure != nil {
			failures = append(failures, fmt.Sprintf("%s>%s scoped %t %s", e.Wire.From, e.Wire.To, e.Scoped, e.Failure))
		}
	}
	if diff := cmp.Diff([]string{"mailer>reports scoped false Capability scope violation: {reports.read, reports.write}"}, failures); diff != "" {
		t.Error("GATE-12", diff)
	}
	wantBroad := []graph.Broad{
		{From: "analyst", To: "reports", Pattern: "reports.*", Unused: []string{"reports.write"}},
		{From: "analyst", To: "reports", Pattern: "reports.print.**", Nothing: true, Unused: []string{}},
		{From: "analyst", To: "lonely", Pattern: "x.**", Unused: []string{"x"}},
	}
	if diff := cmp.Diff(wantBroad, g.OverBroad()); diff != "" {
		t.Error("GATE-12", diff)
	}
	if diff := cmp.Diff([][]string{{"reports", "mailer"}}, g.Cycles()); diff != "" {
		t.Error("GATE-12", diff)
	}
	if diff := cmp.Diff([]string{"analyst"}, g.Origins()); diff != "" {
		t.Error("GATE-12", diff)
	}
	wantRadii := []graph.Radius{
		{Agent: "analyst", AmbientAgents: 2, AmbientOperations: 4, GatedAgents: 2, GatedOperations: 3},
		{Agent: "reports", AmbientAgents: 1, AmbientOperations: 2, GatedAgents: 1, GatedOperations: 1},
		{Agent: "mailer", AmbientAgents: 1, AmbientOperations: 2},
		{Agent: "lonely"},
	}
	if diff := cmp.Diff(wantRadii, g.Radii()); diff != "" {
		t.Error("GATE-12", diff)
	}
	wantReach := []graph.Reached{
		{Agent: "reports", Through: []string{}, Operations: []string{"reports.read", "reports.write"}, Gated: []string{"reports.read", "reports.write"}},
		{Agent: "mailer", Through: []string{"reports"}, Operations: []string{"mail.read", "mail.send"}, Gated: []string{}},
		{Agent: "lonely", Through: []string{}, Operations: []string{}, Gated: []string{"x"}},
	}
	if diff := cmp.Diff(wantReach, g.Reach("analyst")); diff != "" {
		t.Error("GATE-12", diff)
	}
}

// TestGATE12_Radii holds the counts against a walk from every agent, on graphs
// with circles and loops of all kinds.
func TestGATE12_Radii(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "agents")
		nodes := make([]graph.Node, n)
		for i := range nodes {
			nodes[i] = graph.Node{ID: fmt.Sprint(i)}
			for o := range rapid.IntRange(0, 2).Draw(t, "operations") {
				op, _ := powerbox.ParseOperation(fmt.Sprintf("%d.%d", i, o))
				nodes[i].Surface = append(nodes[i].Surface, op)
			}
		}
		var wires []graph.Wire
		for range rapid.IntRange(0, 16).Draw(t, "wires") {
			wires = append(wires, graph.Wire{From: fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, "from")), To: fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, "to"))})
		}
		g, err := graph.New(nodes, nil, wires)
		if err != nil {
			t.Fatal(err)
		}
		cyclic := map[string]bool{}
		for i, r := range g.Radii() {
			seen := map[string]bool{}
			queue := []string{r.Agent}
			for len(queue) > 0 {
				at := queue[0]
				queue = queue[1:]
				for _, w := range wires {
					if w.From == at && !seen[w.To] {
						seen[w.To] = true
						queue = append(queue, w.To)
					}
				}
			}
			if seen[r.Agent] {
				cyclic[r.Agent] = true
				delete(seen, r.Agent)
			}
			operations := 0
			for _, node := range nodes {
				if seen[node.ID] {
					operations += len(node.Surface)
				}
			}
			if r.AmbientAgents != len(seen) || r.AmbientOperations != operations || len(g.Reach(r.Agent)) != len(seen) {
				t.Fatalf("GATE-12 %+v of %d: a walk finds %d agents and %d operations; wires %v", r, i, len(seen), operations, wires)
			}
		}
		for _, circle := range g.Cycles() {
			for _, name := range circle {
				if !cyclic[name] {
					t.Fatalf("GATE-12 %s is in no circle; wires %v", name, wires)
				}
				delete(cyclic, name)
			}
		}
		if len(cyclic) > 0 {
			t.Fatalf("GATE-12 circles of %v are missing; wires %v", cyclic, wires)
		}
	})
}

// TestGATE12_BadDeclarations: a declaration that names no agent is refused.
func TestGATE12_BadDeclarations(t *testing.T) {
	a := []graph.Node{{ID: "a"}}
	for name, f := range map[string]func() (*graph.Graph, error){
		"an agent twice": func() (*graph.Graph, error) { return graph.New([]graph.Node{{ID: "a"}, {ID: "a"}}, nil, nil) },
		"no name":        func() (*graph.Graph, error) { return graph.New([]graph.Node{{}}, nil, nil) },
		"a wire away":    func() (*graph.Graph, error) { return graph.New(a, nil, []graph.Wire{{From: "a", To: "b"}}) },
		"a scope away":   func() (*graph.Graph, error) { return graph.New(a, []graph.Span{{From: "b", To: "a"}}, nil) },
		"a scope twice": func() (*graph.Graph, error) {
			return graph.New(a, []graph.Span{{From: "a", To: "a"}, {From: "a", To: "a"}}, nil)
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("GATE-12 %s is accepted", name)
		}
	}
	if !slices.Equal(house(t).Origins(), []string{"analyst"}) || house(t).From("nobody") != nil || house(t).Reach("nobody") != nil {
		t.Error("GATE-12 somebody who is not there")
	}
}

// fleet is a graph of many agents in layers, each handing on to some of those
// further down.
func fleet(tb testing.TB, agents, wires int) ([]graph.Node, []graph.Span, []graph.Wire) {
	tb.Helper()
	nodes := make([]graph.Node, agents)
	for i := range nodes {
		nodes[i] = graph.Node{ID: fmt.Sprintf("agent-%05d", i), Surface: operationsOf(fmt.Sprintf("a%d.read", i), fmt.Sprintf("a%d.write", i), fmt.Sprintf("a%d.list", i))}
	}
	spans, seen := []graph.Span{}, map[[2]int]bool{}
	out := make([]graph.Wire, 0, wires)
	for n := 0; len(out) < wires; n++ {
		from := n % (agents - 1)
		to := from + 1 + (n*7919+n/agents*104729)%(agents-from-1)
		out = append(out, graph.Wire{From: nodes[from].ID, To: nodes[to].ID, Requires: nodes[to].Surface[:1]})
		if pair := [2]int{from, to}; !seen[pair] {
			seen[pair] = true
			spans = append(spans, graph.Span{From: nodes[from].ID, To: nodes[to].ID, Patterns: scopesOf(fmt.Sprintf("a%d.*", to))})
		}
	}
	return nodes, spans, out
}

// Benchmark analyses 10,000 agents and 100,000 wires: everything that graph
// check and graph show ask.
func Benchmark(b *testing.B) {
	nodes, spans, wires := fleet(b, 10_000, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		g, err := graph.New(nodes, spans, wires)
		if err != nil {
			b.Fatal(err)
		}
		if len(g.Edges()) != len(wires) || len(g.OverBroad()) == 0 || len(g.Cycles()) != 0 || len(g.Radii()) != len(nodes) {
			b.Fatal("another graph")
		}
	}
}
