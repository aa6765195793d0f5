package gateway

import (
	"net/http"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/peer"
)

// maxCallers bounds how many callers a limiter remembers. Beyond it all are
// forgotten at once, which gives each of them one fresh burst.
const maxCallers = 1 << 16

// limiter bounds the rate of every caller by itself.
type limiter struct {
	perSecond int

	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

func newLimiter(perSecond int) *limiter {
	return &limiter{perSecond: perSecond, callers: map[string]*rate.Limiter{}}
}

// allow reports whether a caller may make one more call now.
func (l *limiter) allow(g *Gateway, caller string) bool {
	if l.perSecond == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.callers) >= maxCallers {
		clear(l.callers)
	}
	one := l.callers[caller]
	if one == nil {
		one = rate.NewLimiter(rate.Limit(l.perSecond), l.perSecond)
		l.callers[caller] = one
	}
	return one.AllowN(g.config.Now(), 1)
}

// limited is by what a caller's rate is counted. It must not be free to make, as
// a key is: who has no session, no verified certificate or client and no
// configured name is known by the address that it calls from, as package peer reads it.
func limited(c identity.Caller, r *http.Request) string {
	switch holder := c.Holder.ID; {
	case c.Principal != "" || c.Agent != "":
		return "caller:" + c.Agent + "\x00" + c.Principal
	case holder != "" && !strings.HasPrefix(holder, "key:"):
		return holder
	}
	return "address:" + peer.Of(r).Network()
}
