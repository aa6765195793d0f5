package link

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/trust"
)

// TestEXT18_AStaleScoreIsTheLowest: a remote gateway believes the levels of the
// server for a bounded time, and knows no agent that the server did not name.
func TestEXT18_AStaleScoreIsTheLowest(t *testing.T) {
	now := noon
	r := &Remote{Now: func() time.Time { return now }}
	if got := r.Level("mail"); got != trust.None {
		t.Errorf("EXT-18 before anything was told: %s", got)
	}
	r.SetStatus(Status{Trust: map[string]trust.Level{"mail": trust.High, "odd": "BEST"}})
	for agent, want := range map[string]trust.Level{"mail": trust.High, "odd": trust.None, "documents": trust.None, "": trust.None} {
		if got := r.Level(agent); got != want {
			t.Errorf("EXT-18 %s: %s; want %s", agent, got, want)
		}
	}
	now = now.Add(levelsLife)
	if got := r.Level("mail"); got != trust.High {
		t.Errorf("EXT-18 not yet stale: %s", got)
	}
	if now = now.Add(1); r.Level("mail") != trust.None {
		t.Errorf("EXT-18 stale: %s", r.Level("mail"))
	}
	r.SetStatus(Status{})
	if got := r.Level("mail"); got != trust.None {
		t.Errorf("EXT-18 told no more: %s", got)
	}
}
