package gate

import (
	"slices"
	"time"
)

// What one event of the revocations can end at once, whatever was issued to how
// many (EXT-15): everything that has its root in a time up to the event and
//
//	issuer            was issued by an agent
//	principal         was issued for a user, by pseudonym
//	holder            is held by a holder, or came through it
//	agent             is held by, or came through, a holder of a configured name
//	delegator         a holder has handed on to another
//	delegating-agent  a holder of a configured name has handed on to another
//
// Capabilities issued later are not revoked. The time is that of the root, by the
// issuer's clock: a holder chooses those of the links that it signs.
const (
	BulkIssuer          = "issuer"
	BulkPrincipal       = "principal"
	BulkHolder          = "holder"
	BulkAgent           = "agent"
	BulkDelegator       = "delegator"
	BulkDelegatingAgent = "delegating-agent"
)

// Line is where a capability comes from, as far as one event can end it along
// with others.
type Line struct {
	Issuer    string    // agent that issued it, "" where it is another issuer's
	Principal string    // pseudonym
	Holders   []string  // root's first, its own last
	Issued    time.Time // its root; the zero time is before every event
	// Origin returns the configured name of a holder, "" for none.
	Origin func(holder string) string
}

// Ended reports whether a line has been ended along with others. ended answers
// for one name; see [Revocations].
func (l Line) Ended(ended func(of, name string, issued time.Time) bool) bool {
	is := func(of, name string) bool { return name != "" && ended(of, name, l.Issued) }
	if is(BulkIssuer, l.Issuer) || is(BulkPrincipal, l.Principal) {
		return true
	}
	for n, h := range l.Holders {
		name := l.Origin(h)
		if is(BulkHolder, h) || is(BulkAgent, name) {
			return true
		}
		// To narrow for oneself is not to hand on.
		handedOn := slices.ContainsFunc(l.Holders[n+1:], func(next string) bool { return next != h })
		if handedOn && (is(BulkDelegator, h) || is(BulkDelegatingAgent, name)) {
			return true
		}
	}
	return false
}

// revoked reports whether a capability has been revoked, by one of its links or
// along with others, and the place of the link, -1 for none.
func (g *Gate) revoked(call *Call, held Held) (link int, yes bool) {
	if n := slices.IndexFunc(held.Links, g.Revocations.Revoked); n >= 0 {
		return n, true
	}
	line := Line{Issuer: call.Target.ID, Principal: held.Principal, Holders: append(slices.Clone(held.Through), held.Holder), Issued: held.Issued, Origin: call.Origin}
	if held.Foreign != "" {
		line.Issuer = ""
	}
	return -1, line.Ended(g.Revocations.Ended)
}
