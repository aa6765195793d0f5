package agentapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/powerbox-project/powerbox/internal/bucket"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Limits bound the requests of one address (AAP-F3). 0 is no limit.
type Limits struct {
	Requests  float64 // a second, from one address, with ten seconds' worth at once
	Unknown   int     // registrations of hosts that are not known, an hour, from one address
	Questions int     // an hour, that persons are asked on behalf of one host
	// Introspections are those a second from one address, with five seconds' worth at once,
	// where every caller may introspect (AAP-I3).
	Introspections float64
	// Agent, Host and User are executions a minute, by one agent, by all agents of one
	// host and by all of one user; Capability is the same by one agent, for
	// capabilities that have their own limit.
	Agent      int
	Host       int
	User       int
	Capability map[string]int
}

// limiter keeps its counts in two tables, so that strangers, who can have as many names
// as they like, take no room from those who are known.
type limiter struct {
	limits    Limits
	now       func() time.Time
	strangers bucket.Table // by address, and by keys that no person has approved
	known     bucket.Table // by agent, host and user
}

func newLimiter(l Limits, now func() time.Time) *limiter { return &limiter{limits: l, now: now} }

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
	if wait, ok := l.strangers.Take(l.now(), "request "+peer.Of(r).Network(), rate.Limit(l.limits.Requests), int(10*l.limits.Requests)+1); !ok {
		return limited(wait)
	}
	return nil
}

// introspection takes one introspection of an unauthenticated address (AAP-I3).
func (l *limiter) introspection(r *http.Request) error {
	if l.limits.Introspections <= 0 {
		return nil
	}
	if wait, ok := l.strangers.Take(l.now(), "introspection "+peer.Of(r).Network(), rate.Limit(l.limits.Introspections), int(5*l.limits.Introspections)+1); !ok {
		return limited(wait)
	}
	return nil
}

// unknown takes one registration of a host that is not known.
func (l *limiter) unknown(r *http.Request) error {
	return l.per(&l.strangers, time.Hour, "unknown "+peer.Of(r).Network(), l.limits.Unknown)
}

// fetchesEach is how many key sets are fetched for each host that one address may
// register: a set can be published a little late.
const fetchesEach = 4

// fetch takes one fetch of a key set at a URL that someone unknown named, whatever
// comes of it.
func (l *limiter) fetch(r *http.Request) error {
	return l.per(&l.strangers, time.Hour, "keys "+peer.Of(r).Network(), fetchesEach*l.limits.Unknown)
}

// aheadEach is how many rows a minute are written for the tokens of one host whose clock is
// ahead, and of its agents.
const aheadEach = 120

// write takes one row in the store for the token of a clock that is ahead. Hosts that no
// person has approved share those of their address (ATK-68); an approved host has its own
// (ATK-95).
func (l *limiter) write(r *http.Request, h provider.Host) error {
	if h.Status != agentauth.Active {
		return l.per(&l.strangers, time.Hour, "write "+peer.Of(r).Network(), fetchesEach*l.limits.Unknown)
	}
	var e *agentauth.Error
	err := l.per(&l.known, time.Minute, "ahead "+h.ID, aheadEach)
	if errors.As(err, &e) {
		e.Message = fmt.Sprintf("the token's iat is in the future, and the host has used up the %d such tokens a minute; set the clock of the host, or try again in %d seconds", aheadEach, e.RetryAfter)
	}
	return err
}

// question takes one question to a person on behalf of a host (ATK-48). The host is known by
// its id, which stays when it rotates its key. One that no person has approved is known by
// nothing that it cannot have again: it shares the limit of its address (ATK-68).
func (l *limiter) question(r *http.Request, h provider.Host) error {
	name := "host " + h.ID
	if h.ID == "" {
		name = "key " + h.Thumbprint
	}
	all := []bucket.Bucket{within(time.Hour, "question "+name, l.limits.Questions)}
	if h.Status != agentauth.Active {
		all = append(all, within(time.Hour, "questions from "+peer.Of(r).Network(), l.limits.Questions))
	}
	return l.all(&l.strangers, all...)
}

// per takes one of the n that there are in some time.
func (l *limiter) per(t *bucket.Table, d time.Duration, key string, n int) error {
	return l.all(t, within(d, key, n))
}

// within is a bucket of n in some time. Of 0 or less it bounds nothing.
func within(d time.Duration, key string, n int) bucket.Bucket {
	return bucket.Bucket{Name: key, Each: rate.Limit(float64(n) / d.Seconds()), Burst: n}
}

// all takes one from every bucket, or from none.
func (l *limiter) all(t *bucket.Table, buckets ...bucket.Bucket) error {
	if wait, ok := t.TakeAll(l.now(), buckets...); !ok {
		return limited(wait)
	}
	return nil
}

// execution takes one execution of a capability by an agent of a host, for a user or for
// none.
func (l *limiter) execution(agent, host, user, capability string) error {
	all := []bucket.Bucket{
		within(time.Minute, "capability "+agent+" "+capability, l.limits.Capability[capability]),
		within(time.Minute, "agent "+agent, l.limits.Agent),
		within(time.Minute, "host "+host, l.limits.Host),
	}
	if user != "" {
		all = append(all, within(time.Minute, "user "+user, l.limits.User))
	}
	return l.all(&l.known, all...)
}

// pollsAtOnce is how often someone can look at a waiting request before the interval
// counts.
const pollsAtOnce = 5

// poll takes one look at an agent that waits for a person (AAP-S3).
func (l *limiter) poll(agent string, interval time.Duration) error {
	if interval <= 0 {
		return nil
	}
	if wait, ok := l.known.Take(l.now(), "poll "+agent, rate.Every(interval), pollsAtOnce); !ok {
		return limited(wait)
	}
	return nil
}
