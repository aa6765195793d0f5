package gate

import (
	"strings"
	"testing"
	"time"
)

// TestEXT15_Lines: which one event ends a line, by the place that a holder has in
// it.
func TestEXT15_Lines(t *testing.T) {
	line := Line{
		Issuer: "documents", Principal: "pw_1", Holders: []string{"key:a", "key:a", "key:b"}, Issued: at,
		Origin: func(h string) string { return map[string]string{"key:a": "planner", "key:b": "reader"}[h] },
	}
	for event, want := range map[string]bool{
		"issuer documents": true, "issuer mail": false,
		"principal pw_1": true, "principal pw_2": false,
		"holder key:a": true, "holder key:b": true, "holder key:c": false,
		"agent planner": true, "agent reader": true, "agent other": false,
		"delegator key:a": true, "delegator key:b": false, "delegating-agent planner": true, "delegating-agent reader": false,
		"issuer ": false, "principal ": false, "agent ": false,
	} {
		ended := func(of, name string, issued time.Time) bool { return of+" "+name == event && !issued.After(at) }
		if got := line.Ended(ended); got != want {
			t.Errorf("EXT-15 %s: %t", event, got)
		}
		after := line
		after.Issued = at.Add(time.Second)
		if after.Ended(ended) {
			t.Errorf("EXT-15 %s ends what was issued afterwards", event)
		}
	}
	// An agent that narrows its own chain does not delegate; an empty name is no agent.
	own := Line{Holders: []string{"key:a", "key:a"}, Origin: func(string) string { return "" }}
	if own.Ended(func(of, name string, _ time.Time) bool { return strings.HasPrefix(of, "delegat") || name == "" }) {
		t.Error("EXT-15 a holder that narrowed for itself is a delegator, or nobody is somebody")
	}
}
