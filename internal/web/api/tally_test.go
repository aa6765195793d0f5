package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
)

// attempt is a record of an attempt of desk at mail.
// everyAgent sees every agent.
func everyAgent(string) bool { return true }

func attempt(at time.Time, d evidence.Decision) evidence.Record {
	return evidence.Record{AgentID: "mail", ActionType: "a2a.SendMessage", Decision: d, Time: at, Details: evidence.Details{Gate: &evidence.Gate{Origin: "desk", Target: "mail", Required: []string{"mail/send"}}}}
}

// A pair is counted as it was at a time, in whole steps, also where records come late.
func TestPairsUpToATime(t *testing.T) {
	named := func(string) bool { return true }
	s := &seen{}
	for _, r := range []evidence.Record{
		attempt(noon, evidence.Allow), attempt(noon.Add(20*time.Minute), evidence.Deny), attempt(noon.Add(-time.Hour), evidence.Deny), attempt(noon.Add(2*time.Minute), evidence.Allow),
		{AgentID: "mail", ActionType: action.CapabilityRequest.String(), Decision: evidence.Allow, Time: noon.Add(10 * time.Minute), Details: evidence.Details{Requester: "desk"}},
		{AgentID: "mail", ActionType: action.CapabilityRequest.String(), Decision: evidence.Deny, Time: noon, Details: evidence.Details{Requester: "desk"}},
	} {
		s.add(r, named)
	}
	for until, want := range map[time.Duration]string{
		-2 * time.Hour: "0 0 0 false", -time.Hour: "0 1 0 true", -time.Minute: "0 1 0 true", 4 * time.Minute: "2 1 0 true", 10 * time.Minute: "2 1 1 true", time.Hour: "2 2 1 true",
	} {
		p, ok := s.pairs[[2]string{"desk", "mail"}].upTo(noon.Add(until))
		if got := fmt.Sprint(p.Allowed, p.Denied, p.Given, ok); got != want {
			t.Errorf("%s after noon: %s; want %s", until, got, want)
		}
	}
}

// Steps double where there are too many counts, and nothing is lost.
func TestPairsHaveBoundedMemory(t *testing.T) {
	s := &seen{}
	named := func(string) bool { return true }
	for i := range 100 {
		s.add(attempt(noon.Add(time.Duration(i)*5*time.Minute), evidence.Allow), named)
	}
	for range 2 {
		s.coarser()
	}
	p := s.pairs[[2]string{"desk", "mail"}]
	if s.step != 4*firstStep || s.count != 25 || len(p.tallies) != 25 || p.tallies[0].at > noon.Unix() {
		t.Errorf("steps of %d s, %d counts, %d of the pair", s.step, s.count, len(p.tallies))
	}
	if all, _ := p.upTo(noon.Add(24 * time.Hour)); all.Allowed != 100 {
		t.Errorf("%d calls are left of 100", all.Allowed)
	}
	if some, _ := p.upTo(noon.Add(19 * time.Minute)); some.Allowed != 4 {
		t.Errorf("%d calls in the first step; want 4", some.Allowed)
	}
}

// A page does not wait until a long log is read: it counts a part, and says so. The rest is read
// meanwhile, so that the next page has it however long the log is.
func TestPagesDoNotWaitForALongLog(t *testing.T) {
	log := &shelf{}
	log.work(t, "mail", evidence.Achieved, 1)
	one := log.all[0]
	for range 3 * scoresLook {
		log.all = append(log.all, one)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &Scores{Log: log, Agents: func() []string { return nil }, Now: func() time.Time { return noon }, Slog: slog.New(slog.DiscardHandler), Named: func(string) bool { return true }}
		if tried, err := s.Pairs(t.Context(), time.Time{}, everyAgent); err != nil || !tried.Behind {
			t.Errorf("after a look at a long log: behind %t, %v", tried.Behind, err)
		}
		synctest.Wait()
		if s.reading || s.ledger.place != int64(len(log.all)) || s.Levels() == nil {
			t.Errorf("after a page: %d of %d records, %v", s.ledger.place, len(log.all), s.Levels())
		}
		if _, behind, err := s.Drifts(t.Context(), "mail"); err != nil || behind {
			t.Errorf("after a second look: behind %t, %v", behind, err)
		}
	})
}

// A log that cannot be read is tried again by the next page.
func TestALogThatCannotBeReadIsTriedAgain(t *testing.T) {
	log := &shelf{}
	log.work(t, "mail", evidence.Achieved, 1)
	one := log.all[0]
	for range 2 * scoresLook {
		log.all = append(log.all, one)
	}
	synctest.Test(t, func(t *testing.T) {
		broken := &brokenShelf{shelf: log, after: scoresLook}
		s := &Scores{Log: broken, Agents: func() []string { return nil }, Now: func() time.Time { return noon }, Slog: slog.New(slog.DiscardHandler), Named: func(string) bool { return true }}
		if tried, err := s.Pairs(t.Context(), time.Time{}, everyAgent); err != nil || !tried.Behind {
			t.Errorf("the first look: behind %t, %v", tried.Behind, err)
		}
		synctest.Wait()
		broken.after = math.MaxInt64
		for range 2 {
			if _, err := s.Pairs(t.Context(), time.Time{}, everyAgent); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if s.ledger.place != int64(len(log.all)) {
			t.Errorf("%d of %d records", s.ledger.place, len(log.all))
		}
	})
}

// brokenShelf cannot be read from a place on.
type brokenShelf struct {
	*shelf
	after int64
}

func (b *brokenShelf) From(ctx context.Context, place int64) ([]evidence.Sealed, error) {
	if place >= b.after {
		return nil, errors.New("the disk does not answer")
	}
	return b.shelf.From(ctx, place)
}
