package api

import (
	"encoding/binary"
	"errors"
	"time"
)

// keptSeen is the content of the log beside the input of scores, as it is kept.
type keptSeen struct {
	Step  int64                        `json:"step"`
	Pairs []keptPair                   `json:"pairs"`
	Drift map[string]map[string]*Drift `json:"drift"`
}

// keptPair is a pair with its counts.
type keptPair struct {
	From       string    `json:"from"`
	To         string    `json:"to"`
	Allowed    int       `json:"allowed"`
	Denied     int       `json:"denied"`
	Given      int       `json:"given"`
	Operations []string  `json:"operations"`
	Last       time.Time `json:"last"`
	Tallies    []byte    `json:"tallies"` // whole numbers, four for each: seconds since the one before, allowed, denied, given
}

func (s *seen) keep() keptSeen {
	k := keptSeen{Step: s.step, Drift: s.drift, Pairs: make([]keptPair, 0, len(s.pairs))}
	for _, p := range s.pairs {
		k.Pairs = append(k.Pairs, keptPair{p.From, p.To, p.Allowed, p.Denied, p.Given, p.Operations, p.Last, keepTallies(p.tallies)})
	}
	return k
}

func (k keptSeen) read() (seen, error) {
	s := seen{step: k.Step, drift: k.Drift, pairs: make(map[[2]string]*Pair, len(k.Pairs))}
	for _, one := range k.Pairs {
		p := &Pair{From: one.From, To: one.To, Allowed: one.Allowed, Denied: one.Denied, Given: one.Given, Operations: one.Operations, Last: one.Last}
		var err error
		if p.tallies, err = readTallies(one.Tallies); err != nil {
			return seen{}, err
		}
		s.pairs[[2]string{p.From, p.To}] = p
		s.count += len(p.tallies)
	}
	return s, nil
}

func keepTallies(all []tally) (out []byte) {
	var before int64
	for _, t := range all {
		out = binary.AppendVarint(out, t.at-before)
		for _, n := range []uint32{t.allowed, t.denied, t.given} {
			out = binary.AppendUvarint(out, uint64(n))
		}
		before = t.at
	}
	return out
}

func readTallies(data []byte) (out []tally, err error) {
	var at int64
	for len(data) > 0 {
		after, size := binary.Varint(data)
		at += after
		t := tally{at: at}
		for _, to := range []*uint32{&t.allowed, &t.denied, &t.given} {
			if size <= 0 {
				return nil, errors.New("the counts of a pair are cut")
			}
			data = data[size:]
			var n uint64
			n, size = binary.Uvarint(data)
			*to = uint32(n)
		}
		if size <= 0 {
			return nil, errors.New("the counts of a pair are cut")
		}
		data = data[size:]
		out = append(out, t)
	}
	return out, nil
}
