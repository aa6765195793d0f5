package main

import (
	"fmt"
	"math"
	"strings"
)

// The picture of the curves: two panels, p50 and p99, over the offered load, with a
// logarithmic axis of milliseconds.
const (
	panelWidth, panelHeight = 400.0, 280.0
	panelLeft, panelTop     = 50.0, 40.0
	panelStep               = panelWidth + 80
	lowest, highest         = 0.1, 1000.0 // ms
)

var colours = []string{"#555555", "#0b6bcb", "#0a8a4a", "#c2570c", "#7a3fb5"}

// drawCurves returns the picture as SVG. Overload is in the table alone.
func drawCurves(curves []curve) string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n",
		2*panelStep, panelTop+panelHeight+60+16*float64(len(curves)))
	s.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	for panel, of := range []struct {
		title string
		value func(point) float64
	}{
		{"p50, ms", func(p point) float64 { return p.p50 }},
		{"p99, ms", func(p point) float64 { return p.p99 }},
	} {
		drawPanel(&s, panelLeft+float64(panel)*panelStep, of.title, curves, of.value)
	}
	for i, c := range curves {
		y := panelTop + panelHeight + 56 + 16*float64(i)
		fmt.Fprintf(&s, `<rect x="%.0f" y="%.0f" width="18" height="3" fill="%s"/><text x="%.0f" y="%.0f">%s (capacity %.0f calls a second)</text>`+"\n",
			panelLeft, y-5, colours[i%len(colours)], panelLeft+26, y, c.name, c.capacity)
	}
	return s.String() + "</svg>\n"
}

func drawPanel(s *strings.Builder, left float64, title string, curves []curve, value func(point) float64) {
	fmt.Fprintf(s, `<text x="%.0f" y="%.0f" font-weight="bold">%s</text>`+"\n", left, panelTop-14, title)
	for ms := lowest; ms <= highest; ms *= 10 {
		fmt.Fprintf(s, `<path d="M%.1f %.1fh%.1f" stroke="#dddddd"/><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n",
			left, height(ms), panelWidth, left-6, height(ms)+4, ms)
	}
	for _, share := range shares {
		if share < overload {
			fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", along(left, share), panelTop+panelHeight+18, share)
		}
	}
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="middle">offered load, %% of capacity</text>`+"\n", left+panelWidth/2, panelTop+panelHeight+36)
	for i, c := range curves {
		var path []string
		for _, p := range c.points {
			if p.share < overload {
				path = append(path, fmt.Sprintf("%.1f,%.1f", along(left, p.share), height(value(p))))
			}
		}
		fmt.Fprintf(s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colours[i%len(colours)])
	}
}

func along(left float64, share int) float64 { return left + panelWidth*float64(share)/100 }

func height(ms float64) float64 {
	ms = min(max(ms, lowest), highest)
	return panelTop + panelHeight*(1-math.Log10(ms/lowest)/math.Log10(highest/lowest))
}
