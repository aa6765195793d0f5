// Package shed bounds how long calls wait for this process. Some calls are worked on at
// once; further ones wait in a queue that is bounded by time, and what would wait longer is
// turned away before work is spent on it.
package shed

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a queue needs.
type Config struct {
	// Places is how many calls are worked on at once.
	Places int
	// Wait is how long a call waits for a place. 0 turns nothing away.
	Wait time.Duration
	// Now is required if Wait is not 0.
	Now func() time.Time
}

// Queue gives places to calls. A nil Queue gives a place to every call. Its methods can be
// called by many goroutines.
type Queue struct {
	config Config
	shed   atomic.Int64

	mu      sync.Mutex
	busy    int
	waiting list.List     // of chan struct{}, each closed when it has a place
	stands  bool          // a call waited for its whole time, and no place was given back since
	pace    time.Duration // between two places that are given back while all are taken
	since   time.Time     // of the last one, or of when all were taken
}

// New returns a queue.
func New(c Config) *Queue { return &Queue{config: c} }

// Rank is how a call is treated while places are scarce.
type Rank int

// The ranks.
const (
	// Known calls show something by which their caller can be known. They wait.
	Known Rank = iota
	// Unknown calls show nothing. They get one of the places that are free, leave a
	// quarter of the places to known callers, and never wait.
	Unknown
)

// Enter waits for a place. It returns false if the call must be turned away, and otherwise
// leave, which gives the place back and can be called more than once.
func (q *Queue) Enter(ctx context.Context, rank Rank) (leave func(), ok bool) {
	if q == nil || q.config.Wait == 0 {
		return func() {}, true
	}
	q.mu.Lock()
	most := q.config.Places
	if rank == Unknown {
		most -= q.config.Places / 4
	}
	if q.busy < most {
		if q.busy++; q.busy == q.config.Places {
			q.since = q.config.Now()
		}
		q.mu.Unlock()
		return q.leaver(), true
	}
	if rank == Unknown || q.full() {
		q.mu.Unlock()
		q.shed.Add(1)
		return nil, false
	}
	mine := q.waiting.PushBack(make(chan struct{}))
	q.mu.Unlock()
	return q.await(ctx, mine)
}

// await waits until a call in the queue has a place, or its time is over.
func (q *Queue) await(ctx context.Context, mine *list.Element) (leave func(), ok bool) {
	timer := time.NewTimer(q.config.Wait)
	defer timer.Stop()
	late := false
	select {
	case <-mine.Value.(chan struct{}):
		return q.leaver(), true
	case <-timer.C:
		late = true
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-mine.Value.(chan struct{}): // it was given meanwhile
		return q.leaver(), true
	default:
	}
	q.waiting.Remove(mine)
	if late {
		q.stands = true
		q.shed.Add(1)
	}
	return nil, false
}

// Full reports whether a call that comes now would be turned away.
func (q *Queue) Full() bool {
	if q == nil || q.config.Wait == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy >= q.config.Places && q.full()
}

// Busy reports whether a call that comes now would have to wait for a place.
func (q *Queue) Busy() bool {
	if q == nil || q.config.Wait == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy >= q.config.Places
}

// full reports whether one more in the queue would wait for too long, by the pace at which
// places are given back.
func (q *Queue) full() bool {
	return q.stands || time.Duration(q.waiting.Len()+1)*q.pace > q.config.Wait
}

// Shed is how many calls were turned away.
func (q *Queue) Shed() int64 {
	if q == nil {
		return 0
	}
	return q.shed.Load()
}

// Refused counts a call that was turned away because the queue is full, before it entered.
func (q *Queue) Refused() { q.shed.Add(1) }

func (q *Queue) leaver() func() { return sync.OnceFunc(q.leave) }

// leave gives a place to the call that waits for the longest time.
func (q *Queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stands = false
	if q.busy == q.config.Places {
		now := q.config.Now()
		// One long pause says nothing of the next.
		took := min(max(now.Sub(q.since), 0), q.config.Wait)
		q.pace, q.since = (7*q.pace+took)/8, now
	}
	next := q.waiting.Front()
	if next == nil {
		q.busy--
		return
	}
	q.waiting.Remove(next)
	close(next.Value.(chan struct{}))
}
