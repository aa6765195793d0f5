// Package steady tells which times are surely past. A wall clock can jump: an entry that is forgotten at one
// reading of it, such as a revocation, is missing when the clock comes back.
package steady

import (
	"sync"
	"sync/atomic"
	"time"
)

// Margin is how long revocations are kept beyond their end, for clocks that were wrong
// when a process began.
const Margin = 24 * time.Hour

const (
	// tolerance is how far a clock may be adjusted at once without that being a jump.
	tolerance = 2 * time.Second
	// settled is how long a clock must continue after a jump until it is believed. It is
	// longer than any proof is good.
	settled = 15 * time.Minute
)

// Clock holds readings of a wall clock against one that only continues. Its zero value is
// ready.
type Clock struct {
	elapsed func() time.Duration // nil for that of the process

	mu       sync.Mutex
	read     bool
	offset   time.Duration // of the wall clock from what has elapsed, as it is believed
	jumped   bool          // it reads something else now
	to       time.Duration // the offset after the jump
	since    time.Duration // when that was seen first
	jumps    int64
	announce func(by time.Duration) // nil for none
}

var (
	began   = time.Now()
	process Clock
)

// Past returns a time that is surely past, given what a wall clock reads. Ends before it
// may be forgotten.
func Past(wall time.Time) time.Time { return process.Past(wall) }

// Over is [Past] with the [Margin]: before it lie the ends of revocations that may be
// forgotten.
func Over(wall time.Time) time.Time { return Past(wall).Add(-Margin) }

var believed atomic.Bool

// Believe has every reading of every wall clock believed until restore is called. It is
// for tests that move a clock of their own.
func Believe() (restore func()) {
	believed.Store(true)
	return func() { believed.Store(false) }
}

// Jumps returns how often the clock of this process has jumped by more than two seconds.
func Jumps() int64 {
	process.mu.Lock()
	defer process.mu.Unlock()
	return process.jumps
}

// Announce has someone told of each jump of the clock of this process, once.
func Announce(tell func(by time.Duration)) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.announce = tell
}

// Past is the function of the same name for one clock.
func (c *Clock) Past(wall time.Time) time.Time {
	if believed.Load() {
		return wall
	}
	past, by := c.reading(wall)
	if by != 0 {
		c.mu.Lock()
		tell := c.announce
		c.mu.Unlock()
		if tell != nil {
			tell(by)
		}
	}
	return past
}

// reading returns the time that is surely past, and by how much the clock has jumped if it just did.
func (c *Clock) reading(wall time.Time) (past time.Time, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed := c.sinceBegin()
	offset := wall.Sub(time.Unix(0, 0)) - elapsed
	near := func(a time.Duration) bool { return (offset - a).Abs() <= tolerance }
	switch {
	case !c.read || near(c.offset):
		c.read, c.offset, c.jumped = true, offset, false
		return wall, 0
	case !c.jumped || !near(c.to):
		c.jumped, c.to, c.since = true, offset, elapsed
		c.jumps++
		by = offset - c.offset
	case elapsed-c.since >= settled:
		c.offset, c.jumped = offset, false
		return wall, 0
	}
	if without := time.Unix(0, 0).Add(c.offset + elapsed); without.Before(wall) {
		return without, by
	}
	return wall, by
}

func (c *Clock) sinceBegin() time.Duration {
	if c.elapsed != nil {
		return c.elapsed()
	}
	return time.Since(began)
}
