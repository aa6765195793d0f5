package sources_test

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/sources"
)

// held is a clock whose random part is always half of the largest one: the first draw is
// the value, and the second accepts it.
func held() sources.Clock {
	n := 0
	return sources.Clock{Now: now, Fine: wait, Random: func() float64 {
		n++
		return []float64{0, 0.5}[n%2]
	}}
}

// SEP-5: an answer comes at a time that the work does not change.
func TestATK112_AnAnswerComesAtATimeThatTheWorkDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := sources.Hold(40*time.Millisecond, held())
		for takes, want := range map[time.Duration]time.Duration{
			0: 50, time.Microsecond: 50, 3 * time.Millisecond: 50, 49 * time.Millisecond: 50, 50 * time.Millisecond: 50, 51 * time.Millisecond: 90, 129 * time.Millisecond: 130,
		} {
			began := now()
			if !hold("", func() { wait(takes) }) {
				t.Fatal("no work was done")
			}
			if took := now().Sub(began); took != want*time.Millisecond {
				t.Errorf("work of %s is answered after %s; want %dms", takes, took, want)
			}
		}
	})
}

// The runtime rounds timers to milliseconds after their start, which reveals the fraction of
// the millisecond at which the work was done. So the end of a wait is slept finely.
func TestATK112_TheEndOfAWaitIsSleptFinely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, last := held(), time.Duration(0)
		c.Fine = func(d time.Duration) { last = d; wait(d) }
		sources.Hold(40*time.Millisecond, c)("", func() { wait(3 * time.Millisecond) })
		if last != 2*time.Millisecond {
			t.Errorf("%s of the wait is slept finely; want 2ms", last)
		}
	})
}

// The random part has the smooth density 2 sin²(pi x) of its interval.
func TestATK112_TheRandomPartIsSmooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := sources.Hold(40*time.Millisecond, sources.Clock{Now: now, Fine: wait, Random: sources.Secure})
		var all []float64
		for range 4000 {
			began := now()
			hold("", func() {})
			x := float64(now().Sub(began)-40*time.Millisecond) / float64(20*time.Millisecond)
			if x < 0 || x >= 1 {
				t.Fatalf("the random part is %v of the largest", x)
			}
			all = append(all, x)
		}
		slices.Sort(all)
		// Kolmogorov's distance; above 0.045 with a chance of 2e-7.
		for n, x := range all {
			if want := x - math.Sin(2*math.Pi*x)/(2*math.Pi); math.Abs(float64(n)/4000-want) > 0.045 {
				t.Fatalf("%d of 4000 are below %v; want %v of them", n, x, want)
			}
		}
	})
}

// Waiting requests are bounded, in all and of one caller: those above a limit do no work.
func TestATK112_HeldAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := sources.Hold(40*time.Millisecond, sources.Clock{Now: now, Fine: wait, Random: sources.Secure})
		refused := func(why, caller string) {
			t.Helper()
			if hold(caller, func() { t.Errorf("the work of a request is done, %s", why) }) {
				t.Errorf("a request is held, %s", why)
			}
		}
		var all sync.WaitGroup
		for n := range 512 {
			all.Go(func() {
				if !hold(strconv.Itoa(n/64), func() {}) {
					t.Error("a request below the limits is refused")
				}
			})
			if n == 63 {
				synctest.Wait()
				refused("with an eighth of the places taken by its caller", "0")
			}
		}
		synctest.Wait()
		refused("with all places taken", "8")
		all.Wait()
		if !hold("0", func() {}) {
			t.Error("a place is not free again")
		}
	})
}
