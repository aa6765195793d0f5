package agentapi

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/powerbox-project/powerbox/internal/agentauth"
)

// Limits bound what one address may ask for (AAP-F3). 0 is no limit.
type Limits struct {
	Requests  float64 // a second, from one address, with ten seconds' worth at once
	Unknown   int     // registrations of hosts that are not known, an hour, from one address
	Questions int     // an hour, that persons are asked on behalf of one host
	// Agent and User are executions a minute, by one agent and by all agents of one
	// user; Capability is the same by one agent, for capabilities that have a limit
	// of their own.
	Agent      int
	User       int
	Capability map[string]int
}

// limiter keeps a bucket for each of what it limits, and forgets those that are
// full again.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
	next    time.Time // when the full ones are forgotten
}

type bucket struct{ *rate.Limiter }

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{limits: l, now: now, buckets: map[string]*bucket{}}
}

// maxBuckets bounds the memory; whoever comes when it is full waits.
const maxBuckets = 1 << 16

// take takes one from a bucket, and says in how many seconds there is one where it
// is empty.
func (l *limiter) take(key string, each rate.Limit, burst int) (wait int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !now.Before(l.next) {
		for k, b := range l.buckets {
			if b.TokensAt(now) >= float64(b.Burst()) {
				delete(l.buckets, k)
			}
		}
		l.next = now.Add(time.Minute)
	}
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= maxBuckets {
			return 60, false
		}
		b = &bucket{rate.NewLimiter(each, burst)}
		l.buckets[key] = b
	}
	if b.AllowN(now, 1) {
		return 0, true
	}
	missing := (1 - b.TokensAt(now)) / float64(each)
	return 1 + int(missing), false
}

func limited(wait int) error {
	e := agentauth.Errorf(agentauth.CodeRateLimited, "too many requests; try again in %d seconds", wait)
	e.RetryAfter = wait
	return e
}

// allow takes one request of an address.
func (l *limiter) allow(r *http.Request) error {
	if l.limits.Requests <= 0 {
		return nil
	}
	if wait, ok := l.take("request "+address(r), rate.Limit(l.limits.Requests), int(10*l.limits.Requests)+1); !ok {
		return limited(wait)
	}
	return nil
}

// unknown takes one registration of a host that is not known.
func (l *limiter) unknown(r *http.Request) error {
	return l.hourly("unknown "+address(r), l.limits.Unknown)
}

// question takes one question to a person on behalf of a host (ATK-48).
func (l *limiter) question(host string) error { return l.hourly("question "+host, l.limits.Questions) }

func (l *limiter) hourly(key string, n int) error { return l.per(time.Hour, key, n) }

// per takes one of the n that there are in some time.
func (l *limiter) per(d time.Duration, key string, n int) error {
	if n <= 0 {
		return nil
	}
	if wait, ok := l.take(key, rate.Limit(float64(n)/d.Seconds()), n); !ok {
		return limited(wait)
	}
	return nil
}

// execution takes one execution of a capability by an agent, who acts for a user or
// for nobody.
func (l *limiter) execution(agent, user, capability string) error {
	if err := l.per(time.Minute, "capability "+agent+" "+capability, l.limits.Capability[capability]); err != nil {
		return err
	}
	if err := l.per(time.Minute, "agent "+agent, l.limits.Agent); err != nil {
		return err
	}
	if user == "" {
		return nil
	}
	return l.per(time.Minute, "user "+user, l.limits.User)
}

// pollsAtOnce is how often somebody can look at what waits before the interval
// counts.
const pollsAtOnce = 5

// poll takes one look at an agent that waits for a person (AAP-S3).
func (l *limiter) poll(agent string, interval time.Duration) error {
	if interval <= 0 {
		return nil
	}
	if wait, ok := l.take("poll "+agent, rate.Every(interval), pollsAtOnce); !ok {
		return limited(wait)
	}
	return nil
}
