package gate

import (
	"context"
	"time"
)

// given decides a denied call that presents nothing under what an operator gave its caller
// for such calls. A call that presents a capability is held to that: falling back to other
// authority would make a caller its own confused deputy. Where nothing given allows the
// call, the denial stays as it was.
func (g *Gate) given(ctx context.Context, call *Call, denied Verdict, now time.Time) Verdict {
	if denied.Allowed || denied.Waits || call.Ask.Given == nil || call.Mode == Observe || call.Caller.Holder == "" || call.Caller.Principal == "" {
		return denied
	}
	all, err := call.Ask.Given(ctx)
	if err != nil {
		return denied
	}
	for n := range all {
		v := g.withCapability(ctx, call, Presented{Kept: &all[n]}, now, denied.admitted)
		denied.admitted = denied.admitted || v.admitted
		if v.stop != nil || v.Waits {
			return v
		}
		if v.Allowed {
			denied.call, v.without = call, &denied
			return v
		}
	}
	return denied
}
