package gate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/powerbox-project/powerbox/evidence"
)

// lateCode is the code that an outcome says the caller was told, where a decision was
// recorded after the caller had been refused.
const lateCode = "evidence_unavailable"

// late is the verdict of a call whose record was not written, or not in time: nothing goes
// on. It names the record only if that may still be written. Should it say ALLOW then, an
// outcome follows it that says that the call was not made, so that evidence never claims
// more than happened.
func (g *Gate) late(ctx context.Context, v Verdict, record evidence.Record, failed error) Verdict {
	var late *evidence.LateError
	if !errors.As(failed, &late) {
		return Verdict{}
	}
	record.Detached = nil
	refused := Verdict{Record: evidence.Record{ID: record.ID, AgentID: record.AgentID}}
	if !v.Allowed {
		return refused
	}
	v.Record = record
	go func() {
		if <-late.Result != nil {
			return // it was not written
		}
		ctx := context.WithoutCancel(ctx)
		if err := g.Outcome(ctx, v, evidence.Failed, notMade(lateCode)); err != nil {
			g.Log.ErrorContext(ctx, "a decision was recorded too late for its call, and that the call was not made cannot be recorded",
				slog.String("agent", record.AgentID), slog.String("record", record.ID), slog.Any("error", err))
		}
	}()
	return refused
}

// notMade is the outcome of a call that was not brought to the agent behind, with the code
// that its caller was told.
func notMade(told string) []byte { return []byte(notMadeAndTold + `"` + told + `"}`) }
