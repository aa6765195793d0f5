package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
)

// Delegations returns the hand-overs that configuration, cards and records know of, without
// those of one pair and those to agents that are not seen. The zero pair leaves nothing out.
type Delegations func(ctx context.Context, without [2]string, sees func(agent string) bool) (*gate.Graph, []Pair, error)

// GraphReport is who may hand what to whom.
type GraphReport struct {
	Agents []GraphAgent `json:"agents"`
	Edges  []GraphEdge  `json:"edges"`
	// Reach is what the agent that was asked about could reach if it were taken over,
	// nearest first.
	Reach  []gate.Reached `json:"reach"`
	Cycles [][]string     `json:"cycles"`
}

// GraphAgent is an agent, or a caller, with its blast radius.
type GraphAgent struct {
	gate.Radius
	Operations []string `json:"operations"` // that it offers
}

// GraphEdge is what one agent may hand to another, and what it tried.
type GraphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Granted are the operations that a scope allows, Missing those that were tried and
	// that no scope allows.
	Granted []string `json:"granted"`
	Missing []string `json:"missing"`
	// Allowed and Denied count the recorded attempts.
	Allowed int        `json:"allowed"`
	Denied  int        `json:"denied"`
	Last    *time.Time `json:"last,omitempty"`
}

// graph answers with the delegation graph: with agent, also with the reach of that one, and
// with without=FROM,TO as it would be without that edge.
func (a *Admin) graph(r *http.Request) (any, error) {
	var without [2]string
	for name, values := range r.URL.Query() {
		switch value := values[len(values)-1]; name {
		case "agent":
		case "without":
			from, to, ok := strings.Cut(value, ",")
			if !ok || from == "" || to == "" {
				return nil, status{http.StatusBadRequest, "without: want FROM,TO, the two ends of an edge"}
			}
			without = [2]string{from, to}
		default:
			return nil, status{http.StatusBadRequest, "the graph cannot be selected by " + name + "; want agent or without"}
		}
	}
	g, tried, err := a.Delegations(r.Context(), without, func(agent string) bool { return at(r, agent) })
	if err != nil {
		return nil, err
	}
	out := GraphReport{Agents: []GraphAgent{}, Reach: []gate.Reached{}, Cycles: append([][]string{}, g.Cycles()...)}
	radii := g.Radii()
	for i, n := range g.Nodes() {
		one := GraphAgent{Radius: radii[i], Operations: []string{}}
		for _, op := range n.Surface {
			one.Operations = append(one.Operations, op.String())
		}
		out.Agents = append(out.Agents, one)
	}
	out.Edges = edges(g, tried, without)
	if agent := r.URL.Query().Get("agent"); agent != "" {
		if !slices.ContainsFunc(out.Agents, func(one GraphAgent) bool { return one.Agent == agent }) {
			return nil, status{http.StatusNotFound, "there is no such agent in the graph"}
		}
		out.Reach = append(out.Reach, g.Reach(agent)...)
	}
	return out, nil
}

// edges has one edge for each pair with a wire or an attempt.
func edges(g *gate.Graph, tried []Pair, without [2]string) []GraphEdge {
	all := map[[2]string]*GraphEdge{}
	of := func(from, to string) *GraphEdge {
		key := [2]string{from, to}
		if all[key] == nil {
			all[key] = &GraphEdge{From: from, To: to, Granted: []string{}, Missing: []string{}}
		}
		return all[key]
	}
	for _, e := range g.Edges() {
		one := of(e.Wire.From, e.Wire.To)
		if e.Failure != nil {
			one.Granted, one.Missing = append(one.Granted, e.Failure.Allowed...), append(one.Missing, e.Failure.Missing...)
			continue
		}
		for _, op := range e.Wire.Requires {
			one.Granted = append(one.Granted, op.String())
		}
	}
	known := map[string]bool{}
	for _, n := range g.Nodes() {
		known[n.ID] = true
	}
	for _, t := range tried {
		if !known[t.From] || !known[t.To] || without == [2]string{t.From, t.To} {
			continue
		}
		one := of(t.From, t.To)
		one.Allowed, one.Denied, one.Last = t.Allowed, t.Denied, &t.Last
	}
	out := make([]GraphEdge, 0, len(all))
	for _, one := range all {
		slices.Sort(one.Granted)
		slices.Sort(one.Missing)
		one.Granted, one.Missing = slices.Compact(one.Granted), slices.Compact(one.Missing)
		out = append(out, *one)
	}
	slices.SortFunc(out, func(x, y GraphEdge) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	return out
}
