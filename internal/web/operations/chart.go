package operations

import (
	"strconv"

	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
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

// callsChart stacks denied calls on observed ones, and those on allowed ones.
func callsChart(l *lang.Language, minutes []api.Minute) Chart {
	most, allowed, denied, observed := 1, 0, 0, 0
	for _, m := range minutes {
		most = max(most, m.Allowed+m.Denied+m.Observed)
		allowed, denied, observed = allowed+m.Allowed, denied+m.Denied, observed+m.Observed
	}
	c := Chart{Top: l.T("%s a minute", number(most)), Says: l.T("Allowed calls in the last hour: %s, denied calls: %s, observed calls: %s, by minute", number(allowed), number(denied), number(observed))}
	slot := float64(chartWidth) / float64(max(1, len(minutes)))
	scale := float64(chartHeight) / float64(most)
	for i, m := range minutes {
		when, top := m.At.Format("15:04")+" UTC: ", float64(chartHeight)
		bar := func(n int, class, says string) {
			if n > 0 {
				top -= float64(n) * scale
				c.Bars = append(c.Bars, Bar{at(float64(i) * slot), at(top), at(slot - 1), at(float64(n) * scale), class, when + says})
			}
		}
		bar(m.Allowed, "allowed", l.T("%s allowed", number(m.Allowed)))
		bar(m.Observed, "observed", l.T("%s observed", number(m.Observed)))
		bar(m.Denied, "denied", l.T("%s denied", number(m.Denied)))
	}
	return c
}

// latencyChart draws the 99th percentile of each minute, and the median over it.
func latencyChart(l *lang.Language, minutes []api.Minute) Chart {
	var most int64 = 1
	for _, m := range minutes {
		most = max(most, m.P99)
	}
	c := Chart{Top: strconv.FormatInt(most, 10) + " ms", Says: l.T("Milliseconds from the decision to the outcome, by minute: median and 99th percentile, at most %s", number(most))}
	slot := float64(chartWidth) / float64(max(1, len(minutes)))
	scale := float64(chartHeight) / float64(most)
	for i, m := range minutes {
		if m.P99 == 0 {
			continue
		}
		when := m.At.Format("15:04") + " UTC: "
		high, middle := float64(m.P99)*scale, float64(m.P50)*scale
		c.Bars = append(c.Bars,
			Bar{at(float64(i) * slot), at(chartHeight - high), at(slot - 1), at(high), "p99", when + l.T("99 %% within %s ms", number(m.P99))},
			Bar{at(float64(i) * slot), at(chartHeight - middle), at(slot - 1), at(middle), "p50", when + l.T("half within %s ms", number(m.P50))})
	}
	return c
}
