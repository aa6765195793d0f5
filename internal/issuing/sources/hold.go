package sources

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Clock has the time and the randomness of [Hold].
type Clock struct {
	Now    func() time.Time
	Fine   func(time.Duration) // sleeps a short time, without the rounding of timers
	Random func() float64      // uniform in [0, 1)
}

// Answers that are held at once for one collection, in all and for one caller. A request that
// exceeds one of them is not looked up.
const (
	maxHeld   = 512
	maxHeldOf = maxHeld / 8
)

// places are those of the answers that are held at once.
type places struct {
	mu    sync.Mutex // guards the fields below
	taken int
	of    map[string]int // by caller; none is 0
}

// take takes a place for a caller, and returns false where it may have none.
func (p *places) take(caller string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= maxHeld || p.of[caller] >= maxHeldOf {
		return false
	}
	p.taken++
	p.of[caller]++
	return true
}

func (p *places) leave(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[caller]--; p.of[caller] == 0 {
		delete(p.of, caller)
	}
}

// early is how long before the end [Clock.Fine] takes over. The runtime rounds a timer to
// whole milliseconds after the start of the wait. So the end of a timer has the fraction of
// the millisecond at which the work was done, and reveals it.
const early = 2 * time.Millisecond

// Hold returns a function that does the work of a request and returns at d plus a random
// part after its begin, or whole multiples of d later. Nothing ends the wait sooner: a
// caller can close its half of the connection and still read the answer. The function
// returns false, and does no work, while too many others wait, or too many of the same caller.
//
// The random part is up to half of d. Its density is sin². Of all laws in an interval, this
// one tells the least about a small shift. A uniform one would show it at its sharp ends.
func Hold(d time.Duration, c Clock) func(caller string, work func()) bool {
	held := &places{of: map[string]int{}}
	return func(caller string, work func()) bool {
		if !held.take(caller) {
			return false
		}
		defer held.leave(caller)
		began := c.Now()
		at := d + time.Duration(smooth(c.Random)*float64(d/2))
		work()
		if took := c.Now().Sub(began); took > at {
			at += (took - at + d - 1) / d * d
		}
		<-time.NewTimer(at - c.Now().Sub(began) - early).C
		c.Fine(at - c.Now().Sub(began))
		return true
	}
}

// smooth draws from [0, 1) with the density 2 sin²(pi x).
func smooth(random func() float64) float64 {
	for {
		x, y := random(), random()
		if s := math.Sin(math.Pi * x); y < s*s {
			return x
		}
	}
}

// Secure is a uniform number in [0, 1) that callers cannot predict.
func Secure() float64 { return rand.New(secure{}).Float64() } //nolint:gosec // its source is crypto/rand

type secure struct{}

// Uint64 implements [rand.Source].
func (secure) Uint64() uint64 {
	var b [8]byte
	_, _ = cryptorand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint64(b[:])
}
