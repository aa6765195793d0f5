package gate

import (
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// OnScope returns why an attempt is denied under a caller's scope alone, as a call without a
// capability is in mode scoped: with the same codes and words. None means that it is allowed.
func OnScope(attempt powerbox.Attempt, scope, caps powerbox.Authority, now time.Time) []evidence.Reason {
	var g Gate
	var v Verdict
	call := &Call{Attempts: []powerbox.Attempt{attempt}}
	g.against(call, unexpired(scope), now, CodeScope, &v)
	g.against(call, caps, now, CodeCaps, &v)
	return v.Reasons
}
