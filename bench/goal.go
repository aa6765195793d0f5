package main

import "fmt"

// goal is one row of the table: a number per round, and what it should be.
type goal struct {
	row     string // the measured operation
	against string // compared with what
	value   func(round) float64
	want    float64
	atMost  bool   // want is an upper bound
	context bool   // nothing is wanted: the row helps to read others
	unit    string // behind the number
}

// faster wants a peer to take at least want times as long.
func faster(row, ours, peer string, want float64) goal {
	return goal{row: row, against: peer, want: want, unit: "x", value: ratio(peer, ours)}
}

// within wants ours to take at most want times as long as something else.
func within(row, ours, other string, want float64) goal {
	return goal{row: row, against: other, want: want, atMost: true, unit: "x", value: ratio(ours, other)}
}

// beside compares ours with something else, and wants nothing.
func beside(row, against, ours, other string) goal {
	return goal{row: row, against: against, atMost: true, context: true, unit: "x", value: ratio(ours, other)}
}

// quicker is [faster] that wants nothing.
func quicker(row, ours, peer string) goal {
	g := faster(row, ours, peer, 0)
	g.context = true
	return g
}

// refusal wants a refusal to take at most 2 us.
func refusal(row, ours string) goal {
	return goal{row: row, against: "-", want: 2, atMost: true, unit: " us", value: func(r round) float64 { return r[ours] / 1e3 }}
}

func ratio(over, under string) func(round) float64 {
	return func(r round) float64 { return r[over] / r[under] }
}

// result is a row of the table with the measured values.
type result struct {
	goal
	median   float64
	quartile float64 // the lower one, or the upper one where want is an upper bound
}

func (g goal) judge(rounds []round) result {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = g.value(r)
	}
	bad := 0.25
	if g.atMost {
		bad = 0.75
	}
	return result{g, quantile(values, 0.5), quantile(values, bad)}
}

func (r result) met() bool {
	if r.atMost {
		return r.quartile <= r.want
	}
	return r.quartile >= r.want
}

func (r result) String() string {
	bound, met := "at least", "met"
	if r.atMost {
		bound = "at most"
	}
	wanted := fmt.Sprintf("%s %s%s", bound, number(r.want), r.unit)
	switch {
	case r.context:
		wanted, met = "-", ""
	case !r.met():
		met = "**missed**"
	}
	return fmt.Sprintf("| %s | %s | %s | %s%s | %s%s | %s |",
		r.row, r.against, wanted, number(r.median), r.unit, number(r.quartile), r.unit, met)
}

// number has three digits, more only before the point.
func number(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
