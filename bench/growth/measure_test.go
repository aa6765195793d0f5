package main

import (
	"math"
	"testing"
)

func TestExponent(t *testing.T) {
	sizes := []int{10, 100, 1000}
	for name, c := range map[string]struct {
		costs []float64
		want  float64
	}{
		"constant":    {[]float64{7, 7, 7}, 0},
		"linear":      {[]float64{2, 20, 200}, 1},
		"square root": {[]float64{1, math.Sqrt(10), 10}, 0.5},
		"falling":     {[]float64{100, 10, 1}, -1},
		"a kink":      {[]float64{1, 1, 10}, 0.5},
	} {
		if got := exponent(sizes, c.costs); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
