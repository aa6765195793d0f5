package main

import (
	"strings"
	"testing"
	"time"
)

// TestThePageListsTheCostlyRows: those that miss a goal, and those with the most CPU and memory.
func TestThePageListsTheCostlyRows(t *testing.T) {
	var rows []measured
	for n := range 100 {
		m := measured{request: &request{name: "request" + strings.Repeat("'", n)}, identity: identities[0], sent: 1, bytes: 1, answer: "413", cpu: time.Duration(n) * time.Microsecond, peak: float64(100-n) / 10}
		rows = append(rows, m)
	}
	rows[50].cpu = time.Second
	text := page(rows, time.Unix(0, 0))
	if n := strings.Count(text, "\n| request'") + strings.Count(text, "\n| request |"); n != 1+2*listed {
		t.Errorf("%d rows with the head; want %d, one of them slow\n%s", n, 1+2*listed, text)
	}
	if !strings.Contains(text, "**CPU before authentication**") {
		t.Errorf("the slow row is missing:\n%s", text)
	}
}
