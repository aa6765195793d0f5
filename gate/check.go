package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// Check resolves, decides and records one call, in this order, and returns
// whether it may continue. It never returns an allowing verdict that is not
// recorded, but in Observe and in what [Degraded] admits, where the operator
// chose so.
func (g *Gate) Check(ctx context.Context, call *Call) (Verdict, error) {
	now := g.Now()
	v := g.decide(ctx, call, now)
	if v.call = call; call.Ask.Admit != nil && !v.admitted {
		v.stop = call.Ask.Admit(Held{})
	}
	if v.stop != nil {
		return Verdict{}, v.stop
	}
	begin := g.took(ctx, "decide", call, now)

	note, recorded := call.noted(v)
	if !recorded {
		return v, nil
	}
	record, err := g.record(call, &v, now)
	if err != nil {
		return Verdict{}, err
	}
	record.Details.Reasons = slices.Concat(record.Details.Reasons, call.Record.Details.Reasons, note, v.observed)

	// A call that continued without a record comes before what has one again. Where it
	// cannot be written, this record cannot either.
	_ = g.settle(ctx, call.Target.ID)
	sealed, err := g.write(ctx, record, &v)
	g.took(ctx, "record", call, begin)
	switch {
	case errors.Is(err, ErrSpent) && v.without != nil:
		return g.deny(ctx, call, *v.without)
	case errors.Is(err, ErrSpent), errors.Is(err, ErrUntold):
		return g.spent(ctx, call, v, err)
	case err == nil:
		v.Record = sealed.Record()
	case g.goesOn(call, &v, err, now):
		g.logUnrecorded(ctx, call, record, err)
		v.Record, v.gap = record, true
		if call.Mode != Observe {
			v.Record.OutcomeStatus = "" // an outcome would be that of a record which is not there
		}
	default:
		return g.late(ctx, v, record, err), errors.Join(evidence.ErrNotWritten, err)
	}
	v.Record.Detached = nil // a stream would hold it for as long as it is open
	return g.confirm(ctx, call, v)
}

// noted returns what the record of a denial says of the denials before it, and whether the
// denial is recorded at all.
func (c *Call) noted(v Verdict) (note []evidence.Reason, recorded bool) {
	if v.Allowed || v.Waits || c.Ask.Denied == nil {
		return nil, true
	}
	more, recorded := c.Ask.Denied(v)
	if more != nil {
		note = append(note, *more)
	}
	return note, recorded
}

// Would returns the verdict on a call that is not made. Nothing is recorded or used up, so a
// call that presents something, or has a proof of its caller, is denied.
func (g *Gate) Would(ctx context.Context, call *Call) Verdict {
	if len(call.Presented) > 0 || call.Caller.ProofID != "" {
		return Verdict{Reasons: because(CodeCapabilityUnknown)}
	}
	return g.decide(ctx, call, g.Now())
}

// decide answers a call without recording it: by what an operator stopped, by what could not
// be read, then by the presented capabilities, or by the caller's own rights where nothing is.
func (g *Gate) decide(ctx context.Context, call *Call, now time.Time) Verdict {
	refused := call.refused()
	if why, stopped := g.frozen(call, Held{}); stopped {
		return Verdict{Reasons: append([]evidence.Reason{why}, refused...)}
	}
	var v Verdict
	switch {
	case g.Revocations.Stale(call.Reads):
		// Whatever else holds may have been taken back.
		g.Log.WarnContext(ctx, "revocations and freezes are not known any more", slog.String("agent", call.Target.ID), slog.String("mode", string(call.Mode)))
		v.Reasons = append(because(CodeStale), refused...)
	case len(refused) > 0:
		v.Reasons = refused
	case len(call.Presented) == 0:
		v = g.given(ctx, call, g.unpresented(ctx, call, now), now)
	default:
		if v = g.underEach(ctx, call, now); v.stop != nil {
			return v
		}
	}
	return g.observe(call, v)
}

// underEach decides a call under every presented capability alone. One allow suffices; the
// reasons of a denial are those of all of them.
func (g *Gate) underEach(ctx context.Context, call *Call, now time.Time) Verdict {
	var all Verdict
	for n, p := range call.Presented {
		v := g.withCapability(ctx, call, p, now, all.admitted)
		if v.stop != nil {
			return v
		}
		all.admitted = all.admitted || v.admitted
		if v.admitted = all.admitted; v.Allowed || v.Waits {
			v.Beside = g.beside(ctx, call, call.Presented[n+1:], now)
			return v
		}
		all.Reasons = append(all.Reasons, v.Reasons...)
		all.Missing = append(all.Missing, v.Missing...)
		all.Held, all.Data, all.observed = v.Held, v.Data, v.observed
		all.refused = cmp.Or(all.refused, v.refused)
		if slices.ContainsFunc(v.Reasons, isFrozen) {
			// It is what to tell the caller, whatever else fails.
			all.Reasons = append(v.Reasons, all.Reasons[:len(all.Reasons)-len(v.Reasons)]...)
		}
	}
	slices.Sort(all.Missing)
	all.Missing = slices.Compact(all.Missing)
	return all
}

// beside are the authorities of further capabilities on record that allow a call too. None
// of them is used up.
func (g *Gate) beside(ctx context.Context, call *Call, more []Presented, now time.Time) []powerbox.Authority {
	var out []powerbox.Authority
	for _, p := range more {
		if !call.Beside || p.Reference == "" {
			continue
		}
		if v := g.withCapability(ctx, call, p, now, true); v.Allowed {
			out = append(out, v.Under)
		}
	}
	return out
}

// unpresented decides a call that presents nothing, with the checks of every call.
func (g *Gate) unpresented(ctx context.Context, call *Call, now time.Time) Verdict {
	v := g.withoutCapability(call, now)
	why := append(g.untrusted(call, call.Caller.Name), call.path(call.Caller.Name)...)
	scope := func() []pinning {
		if v.Basis != OnStanding {
			return nil
		}
		return []pinning{{authority: call.scope(call.Caller.Name)}} // an operator wrote it
	}
	if why = append(why, g.flows(ctx, call, scope, &v)...); len(why) > 0 {
		v = Verdict{Reasons: append(v.Reasons, why...), Missing: v.Missing, Data: v.Data, observed: v.observed}
	}
	if !v.Allowed {
		return v
	}
	if why = call.last(); len(why) == 0 {
		why = g.useSession(call, v.Basis, now)
	}
	if len(why) > 0 {
		return Verdict{Reasons: why}
	}
	return v.waiting(call)
}
