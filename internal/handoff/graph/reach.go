package graph

import (
	"math/bits"
	"slices"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Radius is what an agent could reach if what it reads took it over.
type Radius struct {
	Agent string `json:"agent"`
	// Ambient: wherever wires lead, with whatever is there to be asked for. This is
	// what holds where nothing is gated.
	AmbientAgents     int `json:"ambient_agents"`
	AmbientOperations int `json:"ambient_operations"`
	// Gated: what its own scopes allow of what others can do. Since authority only
	// narrows along a chain, no route through another agent adds to it (GATE-2).
	GatedAgents     int `json:"gated_agents"`
	GatedOperations int `json:"gated_operations"`
}

// Radii returns the blast radius of every agent, in their order.
func (g *Graph) Radii() []Radius {
	out := make([]Radius, len(g.nodes))
	for i, n := range g.nodes {
		out[i].Agent = n.ID
	}
	g.ambient(out)
	for _, s := range g.spans {
		if s.From == s.To {
			continue
		}
		if n := len(g.reachable(s)); n > 0 {
			r := &out[g.index[s.From]]
			r.GatedAgents++
			r.GatedOperations += n
		}
	}
	return out
}

// reachable are the operations of To that a scope allows.
func (g *Graph) reachable(s Span) []string {
	var ops []string
	for _, op := range g.nodes[g.index[s.To]].Surface {
		if admits(s.Patterns, op) {
			ops = append(ops, op.String())
		}
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// ambient fills in the agents that are reachable by wires: the closure over strongly
// connected components, whose members reach the same.
func (g *Graph) ambient(out []Radius) {
	component, order := g.components()
	words := (len(g.nodes) + 63) / 64
	reach := make([][]uint64, len(order))
	for c, members := range order { // what a component hands on to comes before it
		set := make([]uint64, words)
		inside := len(members) > 1
		for _, v := range members {
			for _, w := range g.out[v] {
				to := g.ends[w][1]
				if component[to] == c {
					inside = inside || to != v
					continue
				}
				set[to/64] |= 1 << (to % 64)
				for i, word := range reach[component[to]] {
					set[i] |= word
				}
			}
		}
		if inside {
			for _, v := range members {
				set[v/64] |= 1 << (v % 64)
			}
		}
		reach[c] = set
		agents, operations := 0, 0
		for i, word := range set {
			agents += bits.OnesCount64(word)
			for ; word != 0; word &= word - 1 {
				operations += g.sizes[i*64+bits.TrailingZeros64(word)]
			}
		}
		for _, v := range members {
			out[v].AmbientAgents, out[v].AmbientOperations = agents, operations
			if inside { // an agent's own surface is no reach
				out[v].AmbientAgents--
				out[v].AmbientOperations -= g.sizes[v]
			}
		}
	}
}

// Cycles are the groups of agents that hand to each other in circles, each in the
// order of the agents: a task could go round for ever.
func (g *Graph) Cycles() [][]string {
	_, order := g.components()
	var out [][]string
	for _, members := range order {
		loop := len(members) > 1
		for _, w := range g.out[members[0]] {
			loop = loop || g.ends[w][0] == g.ends[w][1]
		}
		if !loop {
			continue
		}
		slices.Sort(members)
		names := make([]string, len(members))
		for i, v := range members {
			names[i] = g.nodes[v].ID
		}
		out = append(out, names)
	}
	sorting.Sort(out, slices.Compare)
	return out
}

// components finds the strongly connected components (Tarjan's algorithm, without
// recursion, since a graph may be one long chain). Each component comes after
// those that it hands on to.
func (g *Graph) components() (of []int, order [][]int) {
	n := len(g.nodes)
	of = make([]int, n)
	low, seen := make([]int, n), make([]int, n)
	onStack := make([]bool, n)
	type frame struct{ v, next int }
	var stack []int
	var calls []frame
	count := 0
	enter := func(v int) {
		count++
		seen[v], low[v], onStack[v] = count, count, true
		stack, calls = append(stack, v), append(calls, frame{v, 0})
	}
	for root := range n {
		if seen[root] > 0 {
			continue
		}
		for enter(root); len(calls) > 0; {
			f := &calls[len(calls)-1]
			if f.next < len(g.out[f.v]) {
				to := g.ends[g.out[f.v][f.next]][1]
				f.next++
				if seen[to] == 0 {
					enter(to)
				} else if onStack[to] {
					low[f.v] = min(low[f.v], seen[to])
				}
				continue
			}
			v := f.v
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				parent := calls[len(calls)-1].v
				low[parent] = min(low[parent], low[v])
			}
			if low[v] != seen[v] {
				continue
			}
			var members []int
			for {
				u := stack[len(stack)-1]
				stack, onStack[u] = stack[:len(stack)-1], false
				of[u] = len(order)
				if members = append(members, u); u == v {
					break
				}
			}
			order = append(order, members)
		}
	}
	return of, order
}

// Reached is an agent within someone's reach.
type Reached struct {
	Agent      string   `json:"agent"`
	Through    []string `json:"through"`    // agents in between, along a shortest way of wires
	Operations []string `json:"operations"` // what could be asked of it along wires; none where only a scope leads there
	Gated      []string `json:"gated"`      // what the origin's own scope allows
}

// Reach lists what an agent that was taken over could reach, nearest first: along
// wires where nothing is gated, and of that what its own scopes allow. An agent
// that it has a scope for and no wire to is in it too.
func (g *Graph) Reach(agent string) []Reached {
	start, ok := g.index[agent]
	if !ok {
		return nil
	}
	before := map[int]int{start: -1}
	queue := []int{start}
	for i := 0; i < len(queue); i++ {
		for _, w := range g.out[queue[i]] {
			if to := g.ends[w][1]; !hasKey(before, to) {
				before[to] = queue[i]
				queue = append(queue, to)
			}
		}
	}
	wired := len(queue)
	for i := range g.nodes {
		if span, scoped := g.scope[[2]int{start, i}]; scoped && !hasKey(before, i) && len(g.reachable(g.spans[span])) > 0 {
			before[i] = start
			queue = append(queue, i)
		}
	}
	var out []Reached
	for i, v := range queue[1:] {
		r := Reached{Agent: g.nodes[v].ID, Through: []string{}, Operations: []string{}, Gated: []string{}}
		for at := before[v]; at != start; at = before[at] {
			r.Through = append(r.Through, g.nodes[at].ID)
		}
		slices.Reverse(r.Through)
		for op := range g.surface[v] {
			if i+1 < wired {
				r.Operations = append(r.Operations, op)
			}
		}
		slices.Sort(r.Operations)
		if span, scoped := g.scope[[2]int{start, v}]; scoped {
			r.Gated = append(r.Gated, g.reachable(g.spans[span])...)
		}
		out = append(out, r)
	}
	return out
}

func hasKey(m map[int]int, k int) bool {
	_, ok := m[k]
	return ok
}
