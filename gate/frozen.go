package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// CardPrefix begins the id that stands for everything that an agent issued with one
// card in view, among the links of a capability: "card:AGENT:DIGEST" (CARD-13).
const CardPrefix = "card:"

// frozen reports that an operator has stopped whom a call is made by or for,
// the agent that it is made at, or a capability that it is made under. A freeze
// is in force in every mode. Beside ids of capabilities and holders and the
// pseudonyms of principals it names agents, as "agent:" with their configured
// name.
func (g *Gate) frozen(call *Call, held Held) (evidence.Reason, bool) {
	stopped := func(what string) (evidence.Reason, bool) {
		return evidence.Reason{Code: CodeFrozen, Message: "an operator stopped " + what + "; asking again does not help until an operator thaws it"}, true
	}
	r := g.Revocations
	for _, name := range append([]string{call.Caller.Name, held.Origin}, g.throughAgents(call, held)...) {
		if name != "" && r.Frozen("agent:"+name) {
			return stopped("the calling agent, or one that the capability came through")
		}
	}
	switch {
	case r.Frozen("agent:" + call.Target.ID):
		return stopped("this agent")
	case r.Frozen(call.Caller.Principal), r.Frozen(held.Principal):
		return stopped("the user")
	case r.Frozen(call.Caller.Holder), r.Frozen(held.Holder), slices.ContainsFunc(held.Through, r.Frozen):
		return stopped("the caller, or a holder that the capability came through")
	}
	widened := false
	for _, id := range held.Links {
		switch {
		case !r.Frozen(id):
		case strings.HasPrefix(id, CardPrefix):
			widened = true // what an operator stopped counts first: it holds in every mode
		default:
			return stopped("the capability, or one that it descends from")
		}
	}
	if widened {
		return because(CodeCardWidened)[0], true
	}
	return evidence.Reason{}, false
}

// throughAgents returns the configured names of the holders that a capability
// came through: what a frozen agent has handed on is frozen with it.
func (g *Gate) throughAgents(call *Call, held Held) []string {
	names := make([]string, 0, len(held.Through))
	for _, holder := range held.Through {
		names = append(names, call.Origin(holder))
	}
	return names
}

// isFrozen recognises the reason that no mode lets a call continue with.
func isFrozen(r evidence.Reason) bool { return r.Code == CodeFrozen }

// Await returns when a verdict no longer holds, with the reason, or when ctx
// ends; then good is true. Streams await while nothing flows, so that they end
// with what they run under (ATK-24).
func (g *Gate) Await(ctx context.Context, v Verdict) (why evidence.Reason, good bool) {
	for {
		// The channel first: what changes after the look closes it.
		changed := g.Revocations.Changed()
		if why, good = g.Recheck(v); !good {
			return why, false
		}
		timer := time.NewTimer(g.untilExpiry(v))
		select {
		case <-ctx.Done():
			timer.Stop()
			return evidence.Reason{}, true
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ends is when the basis of a verdict expires, and the basis: the
// capability, or the session in which the caller's scope or role was found. Zero where
// nothing ends: a caller without a session is known by its key or certificate.
func (v Verdict) ends() (until time.Time, what string) {
	switch v.Basis {
	case OnCapability:
		return v.Held.Authority.Window().Until, "capability"
	case OnStanding, OnPolicy:
		if v.call != nil {
			return v.call.Caller.Expires, "session"
		}
	case OnAmbient, OnNothing:
	}
	return time.Time{}, ""
}

// untilExpiry is how long a verdict can hold at the most.
func (g *Gate) untilExpiry(v Verdict) time.Duration {
	const longest, shortest = time.Hour, time.Millisecond
	until, _ := v.ends()
	if until.IsZero() {
		return longest
	}
	return min(max(until.Sub(g.Now()), shortest), longest)
}
