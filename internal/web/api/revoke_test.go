package api

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// Anyone who has not said that it has an event is waited for until its lease is
// over, by what it says of the lease within what a lease can be.
func TestEXT16_WhoeverIsSilentIsWaitedFor(t *testing.T) {
	now := noon
	g := &Gateways{Now: func() time.Time { return now }, known: []issuer.Gateway{
		{ID: "gw_closed", Closed: noon.Add(-time.Hour)}, {ID: "gw_short"}, {ID: "gw_long"}, {ID: "gw_none"}, {ID: "gw_silent"},
	}}
	g.heard("gw_short", link.StatusQuery{Sequence: 6, Lease: 1000})
	g.heard("gw_long", link.StatusQuery{Sequence: 6, Lease: 45_000})
	g.heard("gw_none", link.StatusQuery{Sequence: 6})
	for _, c := range []struct {
		after time.Duration
		heard []string // what says meanwhile that it has the event
		done  bool
	}{
		{0, nil, false},
		{2 * time.Second, nil, false},
		{2 * time.Second, []string{"gw_long", "gw_none"}, false},
		{29 * time.Second, nil, false},
		{30 * time.Second, nil, true},
		{2 * time.Second, []string{"gw_silent"}, true},
	} {
		now = noon.Add(c.after)
		for _, id := range c.heard {
			g.heard(id, link.StatusQuery{Sequence: 7})
		}
		r := g.reached(7, noon, time.Time{}, func(string) bool { return true })
		if r.Done != c.done || r.Reads != nil || len(r.Gateways) != 4 {
			t.Errorf("EXT-16 after %v with %v: %+v", c.after, c.heard, r)
		}
	}
	for n, want := range []bool{false, true, true, true} {
		if got := g.reached(7, noon, time.Time{}, func(string) bool { return true }).Gateways[n]; got.Has != want {
			t.Errorf("EXT-16 %+v", got)
		}
	}
	g.reports = nil
	g.heard("gw_long", link.StatusQuery{Sequence: 6, Lease: 45_000})
	g.heard("gw_none", link.StatusQuery{Sequence: 6})
	for _, one := range g.reached(7, noon, time.Time{}, func(string) bool { return true }).Gateways {
		if !one.Over.Equal(noon.Add(30 * time.Second)) {
			t.Errorf("EXT-16 the lease of %s is over at %v", one.ID, one.Over)
		}
	}
	// An extension lets reads continue, which is said.
	until := noon.Add(time.Minute)
	if r := g.reached(7, noon, until, func(string) bool { return true }); r.Reads == nil || !r.Reads.Equal(until) {
		t.Errorf("EXT-16 with an extension: %+v", r)
	}
}

// What a gateway says of itself is shown for an hour, and no more of it than a line has
// room for.
func TestGatewaysSayHowTheyAre(t *testing.T) {
	now := noon
	g := &Gateways{Now: func() time.Time { return now }}
	if _, ok := g.said("gw_1"); ok {
		t.Error("nobody has said anything")
	}
	g.heard("gw_1", link.StatusQuery{Sequence: 6, Version: "v1.2.3", Unsent: 4})
	if r, ok := g.said("gw_1"); !ok || r.version != "v1.2.3" || r.unsent != 4 || r.sequence != 6 || !r.at.Equal(noon) {
		t.Errorf("%+v %t", r, ok)
	}
	g.heard("gw_1", link.StatusQuery{Version: strings.Repeat("v", maxVersion+1), Unsent: -4})
	if r, _ := g.said("gw_1"); r.version != "" || r.unsent != 0 {
		t.Errorf("%+v", r)
	}
	now = noon.Add(reportLife)
	if r, ok := g.said("gw_1"); ok {
		t.Errorf("after an hour: %+v", r)
	}
}
