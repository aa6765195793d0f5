package gateway_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// An agent gets a context of its gateway's, or none where the operator chose so, and never
// the caller's.
func TestContextIsSignedOrLeftOut(t *testing.T) {
	for _, none := range []bool{false, true} {
		w := newTownWith(t, gate.Scoped, []string{readNote}, func(c *gateway.Config) { c.Agents[0].NoContext = none })
		a := w.post("", calls("read_note"), append(bearer("assistant"), "Powerbox-Context", "of the caller")...)
		bodies, header := w.agent.got()
		if a.code != "" || len(bodies) != 1 {
			t.Fatalf("%+v", a)
		}
		if got := header.Get("Powerbox-Context"); (got == "") != none || got == "of the caller" {
			t.Errorf("without a context: %t; the agent gets %q", none, got)
		}
	}
}
