package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// codeRepeated is the code of denials that come again and again. On record it
// stands beside the reasons and says how many there were.
const codeRepeated = "denials_repeated"

// retryRepeated is after how many seconds a caller that is denied again and
// again should ask again, if it must.
const retryRepeated = 30

// shareOfNobody is how many callers those without a name count as together.
const shareOfNobody = 10

// repeats counts the denials of callers. A burst begins with one denial more
// than a caller may have in a minute, and ends once it has had fewer for half of
// that. Denials of a burst are answered, but recorded in part alone: the first,
// the tenth, the hundredth, every thousandth, each with how many were left out.
// Whatever a caller may do is not touched by it.
type repeats struct {
	perMinute int // 0 records all

	mu      sync.Mutex
	callers map[string]*repeated
	nobody  *repeated // all callers without a name together
}

// repeated are the denials of one caller, or of many.
type repeated struct {
	most    float64 // in a minute
	budget  *rate.Limiter
	burst   int // denials of the current burst, 0 for none
	leftOut int // denials that no record tells of yet
}

func newRepeats(perMinute int) *repeats {
	return &repeats{perMinute: perMinute, callers: map[string]*repeated{}, nobody: newRepeated(shareOfNobody * perMinute)}
}

func newRepeated(perMinute int) *repeated {
	most := float64(perMinute)
	return &repeated{most: most, budget: rate.NewLimiter(rate.Limit(most/time.Minute.Seconds()), perMinute)}
}

// repetition is what one denial is among those of its caller.
type repetition struct {
	throttled bool
	begins    bool // a burst
	recorded  bool
	burst     int // denials of the burst so far
	leftOut   int // before this one, of which no record tells
}

// deny counts one denial of a caller, and of all callers where it is one without
// a name: an attacker may have many addresses.
func (r *repeats) deny(caller string, nobody bool, now time.Time) repetition {
	if r.perMinute == 0 {
		return repetition{recorded: true}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if nobody {
		if what := r.nobody.deny(now); what.throttled {
			return what
		}
	}
	if len(r.callers) >= maxCallers {
		for _, c := range r.callers {
			r.nobody.leftOut += c.leftOut
		}
		clear(r.callers)
	}
	c := r.callers[caller]
	if c == nil {
		c = newRepeated(r.perMinute)
		r.callers[caller] = c
	}
	return c.deny(now)
}

func (c *repeated) deny(now time.Time) repetition {
	quiet := c.budget.TokensAt(now) >= c.most/2
	within := c.budget.AllowN(now, 1)
	if c.burst > 0 && quiet {
		c.burst = 0
	}
	what := repetition{recorded: true, leftOut: c.leftOut}
	if c.burst > 0 || !within {
		c.burst++
		what.throttled, what.begins, what.burst = true, c.burst == 1, c.burst
		what.recorded = c.burst == 1 || c.burst == 10 || c.burst == 100 || c.burst%1000 == 0
	}
	if c.leftOut = 0; !what.recorded {
		c.leftOut = what.leftOut + 1
	}
	return what
}

// note is what the record of a denial says of those before it, nil for nothing.
func (r repetition) note() *evidence.Reason {
	if !r.throttled && r.leftOut == 0 {
		return nil
	}
	return &evidence.Reason{
		Code:    codeRepeated,
		Message: fmt.Sprintf("%d denials of this caller in a row that are more than it may have; %d before this one are not recorded singly", r.burst, r.leftOut),
	}
}

// deniedAs is by what the denials of a call are counted, and whether nothing tells who the
// caller is but its address.
func (x *decoded) deniedAs() (name string, anonymous bool) {
	anonymous = x.caller.Agent == "" && x.caller.Principal == ""
	if x.count != nil && x.count.settled {
		return x.count.shares[0].name, anonymous && !x.count.accountable()
	}
	return limited(x.caller, x.request), anonymous
}

// denied is what the gate asks when it denies a call.
func (g *Gateway) denied(ctx context.Context, x *decoded) func(gate.Verdict) (*evidence.Reason, bool) {
	return func(v gate.Verdict) (*evidence.Reason, bool) {
		name, anonymous := x.deniedAs()
		what := g.repeats.deny(name, anonymous, g.config.Now())
		x.notes.throttled, x.notes.signal = what.throttled, what.begins
		if what.begins {
			code := ""
			if len(v.Reasons) > 0 {
				code = v.Reasons[0].Code
			}
			g.config.Log.WarnContext(ctx, "a caller is denied again and again: it may be hijacked, or does not know what it may do",
				slog.String("agent", x.ID), slog.String("caller", x.caller.Agent), slog.String("holder", x.caller.Holder.ID), slog.String("reason", code))
		}
		return what.note(), what.recorded
	}
}

// again words a denial that is one of many. Its code stays what it is.
func again(w http.ResponseWriter, d a2a.Denial) a2a.Denial {
	w.Header().Set("Retry-After", strconv.Itoa(retryRepeated))
	d.Message = "this caller is denied again and again, and asking again does not help: stop, and tell the user what is missing; " + d.Message
	return d
}
