package gateway

import (
	"context"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/gate"
)

// oldNews holds the known revocations.
type oldNews struct {
	gate.Revocations
	stale bool
}

func (o *oldNews) Stale(bool) bool { return o.stale }

// asked counts how often it is asked for approved calls, of which it has none.
type asked struct {
	Releases
	times int
}

func (a *asked) Take(context.Context) (Released, bool, error) {
	a.times++
	return Released{}, false, nil
}

// A gateway that has just started, or that has lost the feed, begins none of the
// calls that people have approved: they would be refused, and have been approved
// once.
func TestGATE3_ApprovedCallsWaitForTheFeed(t *testing.T) {
	news, holds := &oldNews{stale: true}, &asked{}
	g := &Gateway{config: Config{Gate: &gate.Gate{Revocations: news}, Asking: Asking{Releases: holds}}}
	var made sync.WaitGroup
	room := make(chan struct{}, 1)
	for range 2 {
		if g.releaseOne(t.Context(), &made, room) || holds.times != 0 {
			t.Errorf("GATE-3 while it is not known what was revoked, %d calls are asked for", holds.times)
		}
	}
	news.stale = false
	if g.releaseOne(t.Context(), &made, room) || holds.times != 1 {
		t.Errorf("GATE-3 once it is known, %d calls are asked for; want 1", holds.times)
	}
}
