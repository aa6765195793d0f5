package main

import (
	"math"
	"testing"
	"time"
)

// The values are worked out by hand from the formula: z of the first is 12.5/sqrt(275/12).
func TestMannWhitney(t *testing.T) {
	for name, c := range map[string]struct {
		x, y      []time.Duration
		chance, p float64
	}{
		"apart":   {[]time.Duration{6, 7, 8, 9, 10}, []time.Duration{1, 2, 3, 4, 5}, 1, 0.009023},
		"the one": {[]time.Duration{1, 3, 5, 7}, []time.Duration{2, 4, 6, 8}, 0.375, 0.563703},
		"same":    {[]time.Duration{5, 5, 5}, []time.Duration{5, 5, 5}, 0.5, 1},
	} {
		chance, p := mannWhitney(c.x, c.y)
		if math.Abs(chance-c.chance) > 1e-9 || math.Abs(p-c.p) > 1e-5 {
			t.Errorf("%s: %v, %v; want %v, %v", name, chance, p, c.chance, c.p)
		}
	}
}
