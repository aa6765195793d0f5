package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// A binary that is compared with itself is measured in every row.
func TestAgainst(t *testing.T) {
	var out bytes.Buffer
	must(t, runAgainst(t.Context(), t.TempDir(), program, program, 1, time.Millisecond, &out, io.Discard))
	if rows := strings.Count(out.String(), "\n| gateway") + 1; rows != 3 || strings.Contains(out.String(), "| 0.00x |") || strings.Contains(out.String(), "NaN") {
		t.Errorf("%s", &out)
	}
	if err := runAgainst(t.Context(), t.TempDir(), program, "no such binary", 1, time.Millisecond, &out, io.Discard); err == nil {
		t.Error("a binary that does not exist is measured")
	}
}

// The interval of a median is that of tables of the sign test.
func TestMedianInterval(t *testing.T) {
	for n, want := range map[int][2]float64{1: {1, 1}, 5: {1, 5}, 6: {1, 6}, 20: {6, 15}, 40: {14, 27}} {
		var rounds []round
		for i := range n {
			rounds = append(rounds, round{"value": float64(i + 1)})
		}
		low, high := medianInterval(rounds, func(r round) float64 { return r["value"] })
		if got := [2]float64{low, high}; got != want {
			t.Errorf("%d rounds: %v, want %v", n, got, want)
		}
	}
}
