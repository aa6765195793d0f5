package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Delegations returns the hand-overs that configuration, cards and records know of.
type Delegations func(ctx context.Context, q DelegationQuery) (*graph.Graph, Tried, error)

// DelegationQuery is which hand-overs are wanted.
type DelegationQuery struct {
	Without [2]string // a pair that is left out; the zero pair for none
	// Until leaves out later records; the zero time for nothing. Configuration and
	// cards are those of now.
	Until time.Time
	// Sees reports whether hand-overs to an agent are shown.
	Sees func(agent string) bool
}

// GraphReport is who may hand what to whom.
type GraphReport struct {
	Agents []GraphAgent `json:"agents"`
	Edges  []GraphEdge  `json:"edges"`
	// Reach is what the agent that was asked about could reach if it were taken over,
	// nearest first.
	Reach  []graph.Reached `json:"reach"`
	Cycles [][]string      `json:"cycles"`
	// Open are the agents whose mode lets calls without a capability pass: observe and prefer.
	// At other agents, a call needs a capability or, in mode scoped, a scope.
	Open []string `json:"open"`
	// First is the time of the first recorded attempt. Until is up to when attempts are counted,
	// where that was asked for, and Step in which steps, in seconds.
	First *time.Time `json:"first,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	Step  int64      `json:"step"`
	// Behind says that the log is still being read: the newest attempts are not counted.
	Behind bool `json:"behind,omitempty"`
}

// GraphAgent is an agent, or a caller, with its blast radius.
type GraphAgent struct {
	graph.Radius
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
	// Allowed and Denied count the recorded attempts, Given the capabilities that the one agent
	// was given at the other.
	Allowed int        `json:"allowed"`
	Denied  int        `json:"denied"`
	Given   int        `json:"given"`
	Last    *time.Time `json:"last,omitempty"`
}

// graphQuery reads which graph is wanted.
func graphQuery(query url.Values) (q DelegationQuery, err error) {
	if query.Has("without") {
		from, to, ok := strings.Cut(query.Get("without"), ",")
		if !ok || from == "" || to == "" {
			return q, status{http.StatusBadRequest, "without: want FROM,TO, the two ends of an edge"}
		}
		q.Without = [2]string{from, to}
	}
	if query.Has("until") {
		q.Until, err = moment("until", query.Get("until"))
	}
	return q, err
}

// graph answers with the delegation graph: with agent, also with the reach of that one, with
// without=FROM,TO as it would be without that edge, and with until=TIME as records had it then.
func (a *Admin) graph(r *http.Request) (any, error) {
	q, err := graphQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	q.Sees = func(agent string) bool { return at(r, agent) }
	g, tried, err := a.Delegations(r.Context(), q)
	if err != nil {
		return nil, err
	}
	out := GraphReport{Agents: []GraphAgent{}, Reach: []graph.Reached{}, Cycles: append([][]string{}, g.Cycles()...), Open: []string{}, Step: int64(tried.Step / time.Second), Behind: tried.Behind}
	if !tried.First.IsZero() {
		out.First = &tried.First
	}
	if !tried.Until.IsZero() {
		out.Until = &tried.Until
	}
	radii := g.Radii()
	for i, n := range g.Nodes() {
		one := GraphAgent{Radius: radii[i], Operations: []string{}}
		for _, op := range n.Surface {
			one.Operations = append(one.Operations, op.String())
		}
		out.Agents = append(out.Agents, one)
		// A caller that is no agent here has no mode.
		if mode, err := a.Mode(r.Context(), n.ID); err == nil && (mode == gate.Observe || mode == gate.Prefer) {
			out.Open = append(out.Open, n.ID)
		}
	}
	out.Edges = edges(g, tried.Pairs, q.Without)
	if agent := r.URL.Query().Get("agent"); agent != "" {
		if !slices.ContainsFunc(out.Agents, func(one GraphAgent) bool { return one.Agent == agent }) {
			return nil, status{http.StatusNotFound, "there is no such agent in the graph"}
		}
		out.Reach = append(out.Reach, g.Reach(agent)...)
	}
	return out, nil
}

// edges has one edge for each pair with a wire or an attempt.
func edges(g *graph.Graph, tried []Pair, without [2]string) []GraphEdge {
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
		one.Allowed, one.Denied, one.Given = t.Allowed, t.Denied, t.Given
		if !t.Last.IsZero() {
			one.Last = &t.Last
		}
	}
	out := make([]GraphEdge, 0, len(all))
	for _, one := range all {
		slices.Sort(one.Granted)
		slices.Sort(one.Missing)
		one.Granted, one.Missing = slices.Compact(one.Granted), slices.Compact(one.Missing)
		out = append(out, *one)
	}
	sorting.Sort(out, func(x, y GraphEdge) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	return out
}
