package gate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/powerbox-project/powerbox/evidence"
)

// confirm looks again at an allowing verdict once its record is durable. The record may have waited
// for the disk, and meanwhile what the verdict rests on may have been revoked, frozen or over. Then
// the call is denied, and an outcome says that it was not made.
//
// Gate.Current makes the look as new as the record: no call is made whose capability another node
// had revoked before the decision was written.
func (g *Gate) confirm(ctx context.Context, call *Call, v Verdict) (Verdict, error) {
	if !v.Allowed {
		return v, nil
	}
	why, good := g.currently(ctx, v)
	if good || call.Mode == Observe && !isFrozen(why) {
		return v, nil
	}
	if err := g.Outcome(context.WithoutCancel(ctx), v, evidence.Failed, notMade(why.Code)); err != nil {
		return Verdict{}, errors.Join(evidence.ErrNotWritten, err)
	}
	if v.Record.OutcomeStatus == evidence.Pending {
		v.Record.OutcomeStatus = evidence.Failed
	}
	return Verdict{Held: v.Held, Reasons: []evidence.Reason{why}, Record: v.Record, Data: v.Data, call: call, takenBack: true}, nil
}

// currently is [Gate.Recheck] by what all nodes have written.
func (g *Gate) currently(ctx context.Context, v Verdict) (evidence.Reason, bool) {
	if g.Current != nil {
		if err := g.Current(ctx); err != nil {
			g.Log.WarnContext(ctx, "what other nodes revoked cannot be told", slog.Any("error", err))
			return because(CodeStale)[0], false
		}
	}
	return g.Recheck(v)
}

// TakenBack reports whether a call was allowed on record and then denied before it was made.
func (v Verdict) TakenBack() bool { return v.takenBack }
