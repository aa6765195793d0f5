// Package bucket keeps a token bucket for each of many names in bounded memory. A stranger
// with very many names locks no one else out.
package bucket

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Table is a table of buckets, each under a name. The zero value is an empty one. Its
// methods can be called by many goroutines.
type Table struct {
	mu   sync.Mutex
	of   map[string]*rate.Limiter
	next time.Time // when the full ones are forgotten
}

// Max bounds the buckets of a table, and evictFrom is among how many of a full table the
// one is chosen that makes room.
const (
	Max       = 1 << 16
	evictFrom = 16
)

// Take takes one from a bucket. If the bucket is empty, it returns in how many seconds
// there is one again.
func (t *Table) Take(now time.Time, name string, each rate.Limit, burst int) (wait int, ok bool) {
	return t.TakeAll(now, Bucket{name, each, burst})
}

// Bucket is one bucket of a table: how many a second come into it, and how many it has when
// it is full.
type Bucket struct {
	Name  string
	Each  rate.Limit
	Burst int
}

// PerMinute is a bucket with a number for every minute. Of 0 or less it bounds nothing.
func PerMinute(name string, most int) Bucket {
	return Bucket{name, rate.Limit(float64(most) / 60), most}
}

// TakeAll takes one from each bucket, or from none if one of them is empty: a request that one
// limit refuses uses up nothing of what others share. If one is empty, it returns in how many
// seconds there is one again. A bucket with a burst of 0 or less bounds nothing.
func (t *Table) TakeAll(now time.Time, all ...Bucket) (wait int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !now.Before(t.next) {
		t.forget(now)
		t.next = now.Add(time.Minute)
	}
	taken := make([]*rate.Limiter, 0, len(all))
	for _, one := range all {
		if one.Burst <= 0 {
			continue
		}
		b := t.bucket(now, one)
		if left := b.TokensAt(now); left < 1 {
			return 1 + int((1-left)/float64(one.Each)), false
		}
		taken = append(taken, b)
	}
	for _, b := range taken {
		b.AllowN(now, 1)
	}
	return 0, true
}

// bucket returns the bucket of a name, and makes it where there is none.
func (t *Table) bucket(now time.Time, one Bucket) *rate.Limiter {
	b := t.of[one.Name]
	if b == nil {
		if len(t.of) >= Max {
			t.evict(now)
		}
		b = rate.NewLimiter(one.Each, one.Burst)
		t.of[one.Name] = b
	}
	return b
}

// Left reports whether a bucket has one to take. It takes nothing and makes no bucket.
func (t *Table) Left(now time.Time, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.of[name]
	return b == nil || b.TokensAt(now) >= 1
}

// Len is how many buckets there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}

// forget removes the buckets that are full again.
func (t *Table) forget(now time.Time) {
	if t.of == nil {
		t.of = map[string]*rate.Limiter{}
	}
	for k, b := range t.of {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(t.of, k)
		}
	}
}

// evict makes room in a full table: of some, the one goes of which the least was taken. A
// client with new names all the time pushes out those names, and neither the buckets that
// are used up nor another client that is new.
func (t *Table) evict(now time.Time) {
	fullest, most, looked := "", -1.0, 0
	for k, b := range t.of {
		if left := b.TokensAt(now) / float64(b.Burst()); left > most {
			fullest, most = k, left
		}
		if looked++; looked == evictFrom {
			break
		}
	}
	delete(t.of, fullest)
}
