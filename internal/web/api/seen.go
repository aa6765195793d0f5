package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Bounds of the memory of the log beside scores.
const (
	maxPairs     = 10000 // of an origin and a target
	maxPairNames = 64    // operations of one pair
	maxDrifts    = 64    // behaviours of one agent
)

// unnamed is the origin of those that the operator has no name for.
const unnamed = "(unnamed callers)"

// Pair is the recorded attempts of one caller at one agent (GATE-10).
type Pair struct {
	From, To        string
	Allowed, Denied int
	Given           int      // capabilities that the agent gave the caller
	Operations      []string // that the attempts required, in order; at most 64
	Last            time.Time

	tallies []tally // in the order of their times
}

// Tried are the pairs of the log.
type Tried struct {
	Pairs []Pair // in order of their names
	// First is the time of the first of them, the zero time for none. Until is the end of the
	// step up to which they are counted, the zero time for all; Step is how long one is.
	First, Until time.Time
	Step         time.Duration
	// Behind says that the log is still being read: its newest records are not counted.
	Behind bool
}

// Drift is something that an agent did and its card does not declare (CARD-12).
type Drift struct {
	Behaviour string    `json:"behaviour"`
	Times     int       `json:"times"`
	Last      time.Time `json:"last"`
}

// seen is the content of the log beside the input of scores.
type seen struct {
	pairs map[[2]string]*Pair
	drift map[string]map[string]*Drift // by agent and behaviour

	step  int64 // seconds of a tally
	count int   // of tallies
}

// add takes over one record.
func (s *seen) add(r evidence.Record, known func(origin string) bool) {
	if r.Details.OutcomeOf != "" {
		s.addDrift(r)
		return
	}
	if action.CapabilityRequest.Is(r.ActionType) && r.Decision == evidence.Allow && r.Details.Requester != "" {
		if p := s.pair(r.Details.Requester, r.AgentID, known); p != nil {
			p.Given++
			s.tallies(p, r.Time).given++
		}
		return
	}
	g := r.Details.Gate
	if g == nil || g.Origin == "" || g.Target == "" {
		return
	}
	p := s.pair(g.Origin, g.Target, known)
	if p == nil {
		return
	}
	if r.Decision == evidence.Deny {
		p.Denied++
		s.tallies(p, r.Time).denied++
	} else {
		p.Allowed++
		s.tallies(p, r.Time).allowed++
	}
	p.Last = r.Time
	for _, op := range g.Required {
		if at, there := slices.BinarySearch(p.Operations, op); !there && len(p.Operations) < maxPairNames {
			p.Operations = slices.Insert(p.Operations, at, strings.Clone(op))
		}
	}
}

// pair returns a pair, nil where there are too many.
func (s *seen) pair(origin, target string, known func(origin string) bool) *Pair {
	key := [2]string{origin, target}
	if !known(origin) {
		key[0] = unnamed
	}
	p := s.pairs[key]
	if p == nil && len(s.pairs) < maxPairs {
		if s.pairs == nil {
			s.pairs = map[[2]string]*Pair{}
		}
		p = &Pair{From: strings.Clone(key[0]), To: strings.Clone(key[1])}
		s.pairs[[2]string{p.From, p.To}] = p
	}
	return p
}

// driftOf is what an outcome says of undeclared behaviour.
func driftOf(r evidence.Record) []string {
	if !bytes.Contains(r.Outcome, []byte(`"drift"`)) {
		return nil
	}
	var told struct {
		Drift []string `json:"drift"`
	}
	if json.Unmarshal(r.Outcome, &told) != nil {
		return nil // a record of another version
	}
	return told.Drift
}

func (s *seen) addDrift(r evidence.Record) {
	for _, b := range driftOf(r) {
		of := s.drift[r.AgentID]
		switch {
		case of == nil && s.drift == nil:
			s.drift = map[string]map[string]*Drift{}
			fallthrough
		case of == nil:
			of = map[string]*Drift{}
			s.drift[r.AgentID] = of
		}
		if of[b] == nil {
			if len(of) >= maxDrifts {
				continue
			}
			of[b] = &Drift{Behaviour: b}
		}
		of[b].Times++
		of[b].Last = r.Time
	}
}

// earlier returns the earlier of two times, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Pairs returns the recorded attempts of all callers at the agents that sees is true for, up to
// a time; all for the zero time.
func (s *Scores) Pairs(ctx context.Context, until time.Time, sees func(to string) bool) (Tried, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind, err := s.recent(ctx)
	if err != nil {
		return Tried{}, err
	}
	seen := &s.ledger.seen
	out := Tried{Pairs: make([]Pair, 0, len(seen.pairs)), Step: time.Duration(max(seen.step, firstStep)) * time.Second, Behind: behind}
	if !until.IsZero() {
		out.Until = until.UTC().Truncate(out.Step).Add(out.Step)
	}
	for _, p := range seen.pairs {
		if !sees(p.To) {
			continue
		}
		if len(p.tallies) > 0 {
			out.First = earlier(out.First, time.Unix(p.tallies[0].at, 0).UTC())
		}
		one, ok := *p, true
		if !until.IsZero() {
			one, ok = p.upTo(until)
		}
		if ok {
			one.Operations, one.tallies = slices.Clone(p.Operations), nil
			out.Pairs = append(out.Pairs, one)
		}
	}
	sorting.Sort(out.Pairs, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out, nil
}

// Drifts returns the recorded behaviour of an agent that its card does not declare, in
// order of the behaviours' names. behind says that the log is still being read.
func (s *Scores) Drifts(ctx context.Context, agent string) (out []Drift, behind bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if behind, err = s.recent(ctx); err != nil {
		return nil, behind, err
	}
	of := s.ledger.seen.drift[agent]
	for _, b := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[b])
	}
	return out, behind, nil
}
