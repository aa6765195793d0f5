package shed

import (
	"context"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

// hour is longer than any test, so that nothing is turned away by the time that it waited.
const hour = time.Hour

type clock struct{ now time.Time }

func (c *clock) queue(places int, wait time.Duration) *Queue {
	c.now = epoch
	return New(Config{Places: places, Wait: wait, Now: func() time.Time { return c.now }})
}

func enter(t *testing.T, q *Queue, rank Rank) func() {
	t.Helper()
	leave, ok := q.Enter(t.Context(), rank)
	if !ok {
		t.Fatal("the call is turned away; want a place")
	}
	return leave
}

// ended is the context of a call that does not wait: it leaves the queue uncounted, while
// rejected calls are counted.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// joins has a call wait, and returns when it stands in the queue.
func joins(t *testing.T, q *Queue) <-chan func() {
	t.Helper()
	q.mu.Lock()
	before := q.waiting.Len()
	q.mu.Unlock()
	has := make(chan func(), 1)
	go func() {
		leave, ok := q.Enter(t.Context(), Known)
		if !ok {
			leave = nil
		}
		has <- leave
	}()
	for {
		q.mu.Lock()
		n := q.waiting.Len()
		q.mu.Unlock()
		if n > before {
			return has
		}
	}
}

func TestCallsWaitInTheirOrder(t *testing.T) {
	q := (&clock{}).queue(1, hour)
	leave := enter(t, q, Known)
	first := joins(t, q)
	second := joins(t, q)
	leave()
	leave() // once
	next := <-first
	select {
	case <-second:
		t.Fatal("two calls have one place")
	default:
	}
	next()
	(<-second)()
	if q.busy != 0 || q.Shed() != 0 {
		t.Errorf("%d places are taken and %d calls shed; want none", q.busy, q.Shed())
	}
}

// A queue that gives back a place every minute holds as many calls as minutes are allowed.
func TestQueueIsBoundedByTime(t *testing.T) {
	c := &clock{}
	q := c.queue(1, hour)
	leave := enter(t, q, Known)
	for range 100 { // the pace becomes known
		next := joins(t, q)
		c.now = c.now.Add(10 * time.Minute)
		leave()
		leave = <-next
	}
	var in []<-chan func()
	for len(in) < 100 && !q.Full() {
		in = append(in, joins(t, q))
	}
	if len(in) < 5 || len(in) > 6 {
		t.Errorf("%d calls wait at one in 10 minutes; want those of an hour", len(in))
	}
	if _, ok := q.Enter(ended(), Known); ok || q.Shed() != 1 {
		t.Errorf("a call that would wait too long is let in (%v), %d shed", ok, q.Shed())
	}
	for _, one := range in {
		leave()
		leave = <-one
	}
	leave()
	enter(t, q, Known)()
}

// After one call has waited for its whole time, further ones are turned away at once until
// a place is given back.
func TestAQueueThatStandsTurnsAway(t *testing.T) {
	q := (&clock{}).queue(1, time.Nanosecond)
	leave := enter(t, q, Known)
	if _, ok := q.Enter(t.Context(), Known); ok {
		t.Fatal("two calls have one place")
	}
	q.config.Wait = hour // no call may wait
	if !q.Full() {
		t.Error("the queue stands and lets calls wait")
	}
	if _, ok := q.Enter(ended(), Known); ok || q.Shed() != 2 {
		t.Fatal("two calls have one place")
	}
	leave()
	enter(t, q, Known)()
}

func TestWhoGoesLeavesTheQueue(t *testing.T) {
	q := (&clock{}).queue(1, hour)
	leave := enter(t, q, Known)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := q.Enter(ctx, Known); ok {
		t.Fatal("two calls have one place")
	}
	if q.Full() {
		t.Error("a caller that went makes the queue stand")
	}
	leave()
	if q.busy != 0 {
		t.Error("the place was given to a caller that went")
	}
}

// Calls that show nothing neither wait nor take the last places.
func TestUnknownCallsLeavePlaces(t *testing.T) {
	q := (&clock{}).queue(4, hour)
	for range 3 {
		enter(t, q, Unknown)
	}
	if _, ok := q.Enter(t.Context(), Unknown); ok {
		t.Error("unknown calls take all places")
	}
	enter(t, q, Known)
}

func TestNoQueueTurnsNothingAway(t *testing.T) {
	for _, q := range []*Queue{nil, New(Config{Places: 1})} {
		enter(t, q, Known)
		enter(t, q, Unknown)
		if q.Full() || q.Shed() != 0 {
			t.Error("no queue is full")
		}
	}
}
