package api

import (
	"slices"
	"time"
)

// The times of the counts of pairs. They begin with steps of five minutes. Where there are too
// many counts the steps double, so that memory is bounded however long the log is.
const (
	firstStep  = 300 // seconds
	maxTallies = 500_000
)

// tally counts the attempts of a pair, and the capabilities that were given, in one step.
type tally struct {
	at                     int64 // its beginning, in Unix seconds
	allowed, denied, given uint32
}

// tallies returns the counts of a pair in the step of a time.
func (s *seen) tallies(p *Pair, at time.Time) *tally {
	if s.step == 0 {
		s.step = firstStep
	}
	if s.count >= maxTallies {
		s.coarser()
	}
	begins := at.Unix() - at.Unix()%s.step
	i, there := slices.BinarySearchFunc(p.tallies, begins, func(t tally, begins int64) int { return int(t.at - begins) })
	if !there {
		p.tallies = slices.Insert(p.tallies, i, tally{at: begins})
		s.count++
	}
	return &p.tallies[i]
}

// coarser doubles the steps.
func (s *seen) coarser() {
	s.step *= 2
	s.count = 0
	for _, p := range s.pairs {
		merged := p.tallies[:0]
		for _, t := range p.tallies {
			t.at -= t.at % s.step
			if n := len(merged) - 1; n >= 0 && merged[n].at == t.at {
				merged[n].allowed, merged[n].denied, merged[n].given = merged[n].allowed+t.allowed, merged[n].denied+t.denied, merged[n].given+t.given
				continue
			}
			merged = append(merged, t)
		}
		p.tallies = slices.Clip(merged)
		s.count += len(merged)
	}
}

// upTo returns a pair as it was at the end of the step of a time; false where nothing had been
// recorded of it.
func (p Pair) upTo(at time.Time) (Pair, bool) {
	out := Pair{From: p.From, To: p.To, Operations: p.Operations}
	for _, t := range p.tallies {
		if t.at > at.Unix() {
			break
		}
		out.Allowed, out.Denied, out.Given = out.Allowed+int(t.allowed), out.Denied+int(t.denied), out.Given+int(t.given)
		if t.allowed > 0 || t.denied > 0 {
			out.Last = time.Unix(t.at, 0).UTC()
		}
	}
	return out, out.Allowed+out.Denied+out.Given > 0
}
