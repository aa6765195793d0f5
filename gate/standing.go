package gate

import (
	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/trust"
)

// untrusted refuses a calling agent whose score is below what the call needs
// (EXT-30, Flow 3). A score only ever takes away: what it lets through is decided
// by everything else (ATK-52).
func (g *Gate) untrusted(call *Call, origin string) []evidence.Reason {
	needed, about := call.trust()
	if needed == "" {
		return nil
	}
	has := trust.None
	if g.Standing != nil && origin != "" {
		has = g.Standing.Level(origin)
	}
	if has.Reaches(needed) {
		return nil
	}
	return []evidence.Reason{Worded(powerbox.Reason{Code: CodeTrust, Operation: about})}
}

// trust is the highest level that something of the call needs, with the operation
// that needs it; "" for none. Content that names no skill can be about any. To
// stop what one began takes no trust.
func (c *Call) trust() (needed trust.Level, about string) {
	raise := func(l trust.Level, operation string) {
		if l != "" && (needed == "" || !needed.Reaches(l)) {
			needed, about = l, operation
		}
	}
	if c.Cancels {
		return "", ""
	}
	raise(c.Target.TrustAny, "")
	for _, a := range c.Attempts {
		for _, op := range a.Required() {
			raise(c.Target.Trust[op.String()], op.String())
		}
	}
	if !c.Free.Any {
		return needed, about
	}
	for operation, l := range c.Target.Trust {
		if of := c.Free.Of.String(); of == "" || of == operation {
			raise(l, operation)
		}
	}
	return needed, about
}
