package operations

import (
	"strconv"

	"github.com/powerbox-project/powerbox/internal/web/api"
)

// The size of a chart, in its own units.
const (
	chartWidth  = 600
	chartHeight = 96
)

// Chart is a small chart with a bar for each minute. It is drawn on the server: a picture
// that needs no script is there for every reader, and the policy for scripts stays strict.
type Chart struct {
	Says string // in words, for those who do not see it
	Bars []Bar
	Top  string // of the scale
}

// Bar is one rectangle.
type Bar struct {
	X, Y, Width, Height string
	Class, Title        string
}

func at(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// callsChart stacks denied calls on allowed ones.
func callsChart(minutes []api.Minute) Chart {
	most, allowed, denied := 1, 0, 0
	for _, m := range minutes {
		most = max(most, m.Allowed+m.Denied)
		allowed, denied = allowed+m.Allowed, denied+m.Denied
	}
	c := Chart{Top: strconv.Itoa(most) + " a minute", Says: plural(allowed, "call") + " allowed and " + strconv.Itoa(denied) + " denied in the last hour, by minute"}
	slot := float64(chartWidth) / float64(max(1, len(minutes)))
	scale := float64(chartHeight) / float64(most)
	for i, m := range minutes {
		when := m.At.Format("15:04") + " UTC: "
		up, down := float64(m.Allowed)*scale, float64(m.Denied)*scale
		if m.Allowed > 0 {
			c.Bars = append(c.Bars, Bar{at(float64(i) * slot), at(chartHeight - up), at(slot - 1), at(up), "allowed", when + strconv.Itoa(m.Allowed) + " allowed"})
		}
		if m.Denied > 0 {
			c.Bars = append(c.Bars, Bar{at(float64(i) * slot), at(chartHeight - up - down), at(slot - 1), at(down), "denied", when + strconv.Itoa(m.Denied) + " denied"})
		}
	}
	return c
}

// latencyChart draws the 99th percentile of each minute, and the median over it.
func latencyChart(minutes []api.Minute) Chart {
	var most int64 = 1
	for _, m := range minutes {
		most = max(most, m.P99)
	}
	c := Chart{Top: strconv.FormatInt(most, 10) + " ms", Says: "Milliseconds from the decision to the outcome, by minute: median and 99th percentile, at most " + strconv.FormatInt(most, 10)}
	slot := float64(chartWidth) / float64(max(1, len(minutes)))
	scale := float64(chartHeight) / float64(most)
	for i, m := range minutes {
		if m.P99 == 0 {
			continue
		}
		when := m.At.Format("15:04") + " UTC: "
		high, middle := float64(m.P99)*scale, float64(m.P50)*scale
		c.Bars = append(c.Bars,
			Bar{at(float64(i) * slot), at(chartHeight - high), at(slot - 1), at(high), "p99", when + "99 % within " + strconv.FormatInt(m.P99, 10) + " ms"},
			Bar{at(float64(i) * slot), at(chartHeight - middle), at(slot - 1), at(middle), "p50", when + "half within " + strconv.FormatInt(m.P50, 10) + " ms"})
	}
	return c
}

// plural words a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return number(n) + " " + thing
}
