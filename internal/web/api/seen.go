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
	Operations      []string // that the attempts required, in order; at most 64
	Last            time.Time
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
}

// add takes over one record.
func (s *seen) add(r evidence.Record, known func(origin string) bool) {
	if r.Details.OutcomeOf != "" {
		s.addDrift(r)
		return
	}
	g := r.Details.Gate
	if g == nil || g.Origin == "" || g.Target == "" {
		return
	}
	key := [2]string{g.Origin, g.Target}
	if !known(g.Origin) {
		key[0] = unnamed
	}
	p := s.pairs[key]
	if p == nil {
		if len(s.pairs) >= maxPairs {
			return
		}
		if s.pairs == nil {
			s.pairs = map[[2]string]*Pair{}
		}
		p = &Pair{From: key[0], To: key[1]}
		s.pairs[key] = p
	}
	if r.Decision == evidence.Deny {
		p.Denied++
	} else {
		p.Allowed++
	}
	p.Last = r.Time
	for _, op := range g.Required {
		if at, there := slices.BinarySearch(p.Operations, op); !there && len(p.Operations) < maxPairNames {
			p.Operations = slices.Insert(p.Operations, at, strings.Clone(op))
		}
	}
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

// Pairs returns the recorded attempts of all callers at all agents, in order of their
// names.
func (s *Scores) Pairs(ctx context.Context) ([]Pair, error) {
	if err := s.Update(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Pair, 0, len(s.ledger.seen.pairs))
	for _, p := range s.ledger.seen.pairs {
		one := *p
		one.Operations = slices.Clone(p.Operations)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out, nil
}

// Drifts returns the recorded behaviour of an agent that its card does not declare, in
// order of the behaviours' names.
func (s *Scores) Drifts(ctx context.Context, agent string) ([]Drift, error) {
	if err := s.Update(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.ledger.seen.drift[agent]
	var out []Drift
	for _, b := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[b])
	}
	return out, nil
}
