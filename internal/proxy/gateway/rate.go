package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/bucket"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// maxCallers bounds how many callers are remembered by their denials.
const maxCallers = 1 << 16

// limiter bounds the rate of each caller. Only proven identity selects
// the bucket of a caller. Anything that is not proven counts for the address that it comes from, and
// in a bucket apart from that of requests which show nothing.
type limiter struct {
	perSecond int
	buckets   bucket.Table
	proven    *recent
}

func newLimiter(perSecond int) *limiter {
	return &limiter{perSecond: perSecond, proven: newRecent(maxProven)}
}

// share is a name under which a caller is counted, with how many times the limit it has.
type share struct {
	name  string
	times int
}

// grantedTimes is how many times the limit the capabilities of one person have together, where
// callers show nothing else. A capability alone has the limit once. So capabilities, which a
// person can request again and again, do not raise the limit, and one that was handed on does
// not use up that of the others (ATK-121).
const grantedTimes = 4

// granted are the shares of a caller that a capability alone tells. The person stands for all
// their capabilities; without one it is the issuer, or the holder at the top.
func granted(held gate.Held) []share {
	whose := held.Principal
	switch {
	case whose != "":
	case held.Foreign != "":
		whose = held.Foreign
	case len(held.Through) > 0:
		whose = held.Through[0]
	default:
		whose = held.Holder
	}
	return []share{{"capability:" + held.Root, 1}, {"granted:" + whose, grantedTimes}}
}

// allow reports whether one more may be taken from all shares now.
func (l *limiter) allow(g *Gateway, shares []share) bool {
	if l.perSecond == 0 {
		return true
	}
	buckets := make([]bucket.Bucket, len(shares))
	for i, s := range shares {
		buckets[i] = bucket.Bucket{Name: s.name, Each: rate.Limit(l.perSecond * s.times), Burst: l.perSecond * s.times}
	}
	_, ok := l.buckets.TakeAll(g.config.Now(), buckets...)
	return ok
}

// left reports whether a bucket has something left, and takes nothing.
func (l *limiter) left(now time.Time, name string) bool {
	return l.perSecond == 0 || l.buckets.Left(now, name)
}

// limited is by what a caller is counted that was identified without its capability. It
// must not be free to make, as a key is: callers that have shown a key alone count together
// for the address that they call from, as package peer reads it.
func limited(c identity.Caller, r *http.Request) string {
	switch holder := c.Holder.ID; {
	case c.Principal != "" || c.Agent != "":
		return "caller:" + c.Agent + "\x00" + c.Principal
	case strings.HasPrefix(holder, "key:"):
		return "keys:" + peer.Of(r).Network()
	case holder != "":
		return holder
	}
	return "address:" + peer.Of(r).Network()
}

// tally is by whom one request is counted. It is settled once, as soon as it is known
// what the request has proven.
type tally struct {
	gateway *Gateway
	request *http.Request
	shown   string // digest of the secrets that the request shows, "" for none
	work    string // bucket of proofs and credentials that do not hold

	settled bool
	shares  []share // of the caller, once it is settled
	stream  bool    // a stream of the caller is counted until the end
	place   func()  // gives back the place in which the call is decided; nil for none
}

// count looks at what a request shows, before any of it is verified. A caller that shows an identity that was
// proven here a short while ago has its own bucket for invalid proofs, so that
// false proofs from the same address do not stop it.
func (g *Gateway) count(r *http.Request) *tally {
	address := peer.Of(r).Network()
	c := &tally{gateway: g, request: r, shown: shownBy(r.Header), work: "unproven:" + address}
	if c.shown != "" {
		c.shown += address // a chain is known to those that it was handed to
	}
	if g.limiter.proven.has(c.shown) {
		c.work = "shown:" + c.shown
	}
	return c
}

// shownTail is how much of a value at its end tells it from others, in bytes. Sessions are
// shorter or end with a signature, as capabilities do.
const shownTail = 512

// shownBy is the digest of what a request shows that only its sender has: its session, or
// else its capability. The key of a proof is none of it: every proof tells that.
func shownBy(h http.Header) string {
	for _, name := range []string{"Authorization", HeaderCapability} {
		if values := h.Values(name); len(values) > 0 {
			parts := append(make([]byte, 0, 2*shownTail), name...)
			for _, v := range values {
				parts = binary.BigEndian.AppendUint64(parts, uint64(len(v)))
				parts = append(parts, v[max(0, len(v)-shownTail):]...)
			}
			d := sha256.Sum256(parts)
			return string(d[:])
		}
	}
	return ""
}

// shows reports whether a request has anything that must be verified.
func (c *tally) shows() bool {
	h := c.request.Header
	return c.shown != "" || h.Get("DPoP") != "" || h.Get(HeaderProof) != ""
}

// mayVerify reports whether more may be verified for who sends the request.
func (c *tally) mayVerify() bool {
	return !c.shows() || c.gateway.limiter.left(c.gateway.config.Now(), c.work)
}

// capable reports whether a capability can tell later by whom a request is counted: it
// shows one, or a key to which one on record may be bound.
func (c *tally) capable(caller identity.Caller) bool {
	h := c.request.Header
	_, scopes := scopeCredential(h)
	return scopes || len(h.Values(HeaderCapability)) > 0 || h.Get(HeaderProof) != "" || caller.Holder.ID != ""
}

// identified settles by whom a request is counted as far as authentication tells, and
// reports whether there may be one more. A caller that only a capability can tell is counted
// when that was verified.
func (c *tally) identified(caller identity.Caller, failed error) bool {
	own := limited(caller, c.request)
	switch {
	case failed != nil:
		return c.settle(once(c.work)) // in observe it continues, as a stranger's
	case caller.Principal != "" || caller.Agent != "" || caller.Holder.ID != "" && !strings.HasPrefix(own, "keys:"):
		c.prove()
		return c.settle(once(own))
	case c.capable(caller):
		return true
	}
	return c.settle(once(own))
}

// verified settles what identified left open. held is a capability that was verified and is
// the caller's; the zero Held is none. A capability counts by the one at its top: those that
// a holder derives from it are free to make.
func (c *tally) verified(caller identity.Caller, held gate.Held) bool {
	switch {
	case c.settled:
		return true
	case held.Root != "":
		c.prove()
		return c.settle(granted(held)...)
	case caller.Holder.ID != "":
		return c.settle(once(limited(caller, c.request)))
	}
	return c.settle(once(c.work))
}

// prove remembers that what the request shows was proven.
func (c *tally) prove() {
	if c.shown != "" {
		c.gateway.limiter.proven.add(c.shown)
	}
}

// once is a share that has the limit as it is.
func once(name string) share { return share{name, 1} }

func (c *tally) settle(shares ...share) bool {
	c.settled, c.shares = true, shares
	return c.gateway.limiter.allow(c.gateway, shares)
}

// leave gives back the place in which a call was decided.
func (c *tally) leave() {
	if c != nil && c.place != nil {
		c.place()
	}
}

// close counts a request that was answered before it was settled: its verification
// had no result.
func (c *tally) close(caller identity.Caller) {
	c.leave()
	if !c.settled {
		c.verified(caller, gate.Held{})
	}
	if c.stream {
		c.gateway.streams.leave(c.shares...)
	}
}

// accountable reports whether the request is counted by something that is not free to make.
func (c *tally) accountable() bool {
	for _, free := range []string{"address:", "unproven:", "shown:", "keys:"} {
		if len(c.shares) > 0 && strings.HasPrefix(c.shares[0].name, free) {
			return false
		}
	}
	return c.settled
}

// refusal is a call that is turned away before it is recorded.
type refusal struct{ denial a2a.Denial }

func (r *refusal) Error() string { return r.denial.Message }

// Denial is what the caller is told.
func (r *refusal) Denial() a2a.Denial { return r.denial }

var (
	errRate = &refusal{a2a.Denial{Reason: "rate_limited", Message: "this caller makes more calls than the operator allows", Retryable: true}}
	errMany = &refusal{a2a.Denial{Reason: "too_many_streams", Message: "this caller has as many streams open as the operator allows; close one", Retryable: true}}
)

// admitted is what the gate asks before it records a call: whether the caller, as the
// capability tells it, may make one more.
func (x *decoded) admitted(held gate.Held) error {
	c := x.count
	if !c.verified(x.caller, held) {
		return errRate
	}
	if x.call.Streaming && !c.stream {
		if c.stream = c.gateway.streams.take(c.shares...); !c.stream {
			return errMany
		}
	}
	return nil
}

// turnedAway answers a call that was refused before it was recorded, and reports whether
// err is such a refusal.
func (g *Gateway) turnedAway(w http.ResponseWriter, x stage, err error) bool {
	var why *refusal
	if !errors.As(err, &why) {
		return false
	}
	w.Header().Set("Retry-After", "1")
	g.deny(w, x, why.denial)
	return true
}

// maxProven bounds the memory of proven identities.
const maxProven = 1 << 15

// recent remembers the last names that it was given, in two generations: the last ones for
// sure, and at most twice as many.
type recent struct {
	most      int
	mu        sync.Mutex
	now, past map[string]struct{}
}

func newRecent(most int) *recent { return &recent{most: most, now: map[string]struct{}{}} }

func (r *recent) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, now := r.now[name]
	_, past := r.past[name]
	return now || past
}

func (r *recent) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.now) >= r.most {
		r.past, r.now = r.now, map[string]struct{}{}
	}
	r.now[name] = struct{}{}
}
