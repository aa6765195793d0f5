// Package graph is who may hand what to whom, from declarations alone (GATE-12):
// which delegations can never pass, which scopes are wider than what they are for,
// and how far an agent reaches that was taken over.
package graph

import (
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

// Node is an agent of a delegation graph.
type Node struct {
	ID      string
	Surface []powerbox.Operation // Caps: what it can be asked for
}

// Span is a scope: what From may have done by To.
type Span struct {
	From, To string
	Patterns []powerbox.Pattern
}

// Wire is a delegation that someone built: From hands tasks to To.
type Wire struct {
	From, To string
	Requires []powerbox.Operation // what such a task needs; none is a violation (GATE-5)
}

// Graph is who may hand what to whom, from declarations alone (GATE-12). It does
// not change after [New].
type Graph struct {
	nodes []Node
	wires []Wire
	spans []Span

	index   map[string]int                  // of nodes
	surface []map[string]bool               // by node
	scope   map[[2]int]int                  // index in spans
	out     [][]int32                       // wires by node that hands on
	ends    [][2]int                        // nodes of each wire
	needed  map[[2]int][]powerbox.Operation // by two nodes, what wires between them require
	sizes   []int                           // of surfaces
}

// New reads declarations. An agent that is there twice or not at all, and
// two scopes of one pair, are errors.
func New(nodes []Node, spans []Span, wires []Wire) (*Graph, error) {
	g := &Graph{
		nodes: nodes, wires: wires, spans: spans, index: make(map[string]int, len(nodes)), surface: make([]map[string]bool, len(nodes)),
		scope: make(map[[2]int]int, len(spans)), out: make([][]int32, len(nodes)), needed: make(map[[2]int][]powerbox.Operation, len(wires)), sizes: make([]int, len(nodes)), ends: make([][2]int, len(wires)),
	}
	for i, n := range nodes {
		if _, twice := g.index[n.ID]; twice || n.ID == "" {
			return nil, fmt.Errorf("agent %q has no name of its own", n.ID)
		}
		g.index[n.ID] = i
		g.surface[i] = make(map[string]bool, len(n.Surface))
		for _, op := range n.Surface {
			g.surface[i][op.String()] = true
		}
		g.sizes[i] = len(g.surface[i])
	}
	for i, s := range spans {
		pair, err := g.pair(s.From, s.To)
		if err != nil {
			return nil, fmt.Errorf("scope of %s at %s: %w", s.From, s.To, err)
		}
		if _, twice := g.scope[pair]; twice {
			return nil, fmt.Errorf("scope of %s at %s is there twice", s.From, s.To)
		}
		g.scope[pair] = i
	}
	for i, w := range wires {
		pair, err := g.pair(w.From, w.To)
		if err != nil {
			return nil, fmt.Errorf("wire from %s to %s: %w", w.From, w.To, err)
		}
		g.out[pair[0]] = append(g.out[pair[0]], int32(i))
		g.ends[i] = pair
		if have, more := g.needed[pair]; more {
			g.needed[pair] = slices.Concat(have, w.Requires)
		} else {
			g.needed[pair] = w.Requires
		}
	}
	return g, nil
}

func (g *Graph) pair(from, to string) ([2]int, error) {
	a, ok := g.index[from]
	if !ok {
		return [2]int{}, fmt.Errorf("there is no agent %q", from)
	}
	b, ok := g.index[to]
	if !ok {
		return [2]int{}, fmt.Errorf("there is no agent %q", to)
	}
	return [2]int{a, b}, nil
}

// Nodes returns the agents.
func (g *Graph) Nodes() []Node { return g.nodes }

// Edge is a wire with what the gate would say to it.
type Edge struct {
	Wire    Wire
	Scoped  bool          // a scope is declared for the pair
	Failure *gate.Failure // nil where it passes; an edge with one can never pass
}

// Edges judges every wire: Required within Caps(To) meet Scope(From), as
// [gate.Preflight] does.
func (g *Graph) Edges() []Edge {
	edges := make([]Edge, len(g.wires))
	for i, w := range g.wires {
		edges[i] = g.edge(i, w)
	}
	return edges
}

func (g *Graph) edge(i int, w Wire) Edge {
	b := g.ends[i][1]
	span, scoped := g.scope[g.ends[i]]
	e := Edge{Wire: w, Scoped: scoped}
	var allowed, missing []string
	for _, op := range w.Requires {
		if scoped && g.surface[b][op.String()] && admits(g.spans[span].Patterns, op) {
			allowed = append(allowed, op.String())
		} else {
			missing = append(missing, op.String())
		}
	}
	if len(missing) == 0 && len(w.Requires) > 0 {
		return e
	}
	f := &gate.Failure{From: w.From, To: w.To, Required: append(append([]string{}, allowed...), missing...), Allowed: append([]string{}, allowed...), Missing: append([]string{}, missing...)}
	for _, list := range []*[]string{&f.Required, &f.Allowed, &f.Missing} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	e.Failure = f
	return e
}

func admits(patterns []powerbox.Pattern, op powerbox.Operation) bool {
	return slices.ContainsFunc(patterns, func(p powerbox.Pattern) bool { return p.Matches(op) })
}

// Broad is a part of a scope that is wider than what it is for.
type Broad struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Pattern is the part, as it is shown to people.
	Pattern string `json:"scope"`
	// Nothing is set where it matches nothing that To can do: it is a mistake, or
	// waits for To to widen.
	Nothing bool `json:"nothing"`
	// Unused are the operations that it allows and no wire of the pair requires.
	Unused []string `json:"unused"`
}

// OverBroad lists the parts of scopes that allow more than any wire of their pair
// requires, in the order of the scopes.
func (g *Graph) OverBroad() []Broad {
	var out []Broad
	for _, s := range g.spans {
		a, b := g.index[s.From], g.index[s.To]
		needed := g.needed[[2]int{a, b}]
		for _, p := range s.Patterns {
			broad := Broad{From: s.From, To: s.To, Pattern: p.String(), Nothing: true, Unused: []string{}}
			for _, op := range g.nodes[b].Surface {
				if !p.Matches(op) {
					continue
				}
				broad.Nothing = false
				if !slices.Contains(needed, op) {
					broad.Unused = append(broad.Unused, op.String())
				}
			}
			if broad.Nothing || len(broad.Unused) > 0 {
				slices.Sort(broad.Unused)
				out = append(out, broad)
			}
		}
	}
	return out
}

// Origins are the agents to which no agent delegates, in their order: where
// delegations begin.
func (g *Graph) Origins() []string {
	into := make([]bool, len(g.nodes))
	for _, ends := range g.ends {
		if ends[0] != ends[1] {
			into[ends[1]] = true
		}
	}
	var out []string
	for i, n := range g.nodes {
		if !into[i] && len(g.out[i]) > 0 {
			out = append(out, n.ID)
		}
	}
	return out
}

// From returns the wires by which an agent hands on.
func (g *Graph) From(agent string) []Wire {
	i, ok := g.index[agent]
	if !ok {
		return nil
	}
	out := make([]Wire, len(g.out[i]))
	for n, w := range g.out[i] {
		out[n] = g.wires[w]
	}
	return out
}

// Effective is Caps(To) meet Scope(From) of one pair.
type Effective struct {
	From, To   string
	Operations []string // sorted
}

// Effective returns what every scope comes to, in their order (GATE-1).
func (g *Graph) Effective() []Effective {
	out := make([]Effective, len(g.spans))
	for i, s := range g.spans {
		out[i] = Effective{s.From, s.To, g.reachable(s)}
	}
	return out
}

// Handoff returns a delegation between two agents of the graph, with what their
// declarations come to at a time; what it requires is for the caller to fill in.
func (g *Graph) Handoff(from, to string, now time.Time) (gate.Handoff, error) {
	h := gate.Handoff{From: from, To: to}
	pair, err := g.pair(from, to)
	if err != nil {
		return h, err
	}
	authority := func(patterns []powerbox.Pattern) (powerbox.Authority, error) {
		clauses := make([]powerbox.Clause, 0, len(patterns))
		for _, p := range patterns {
			clauses = append(clauses, powerbox.Clause{Pattern: p, Shape: powerbox.AnyArguments()})
		}
		return powerbox.NewAuthority(powerbox.Window{Until: now.Add(time.Hour)}, 0, clauses...)
	}
	surface := make([]powerbox.Pattern, 0, len(g.nodes[pair[1]].Surface))
	for _, op := range g.nodes[pair[1]].Surface {
		surface = append(surface, powerbox.ExactPattern(op))
	}
	if h.Caps, err = authority(surface); err != nil {
		return h, err
	}
	if span, scoped := g.scope[pair]; scoped {
		h.Scope, err = authority(g.spans[span].Patterns)
	}
	return h, err
}
