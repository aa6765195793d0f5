package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// outcomeKind is the kind of kept value that names the asking guard of an attempt whose
// outcome any node may be told. The attempt itself is on record.
const outcomeKind = "awaited outcome"

// outcomeTelling bounds the telling of an outcome, also while another database takes
// over.
const outcomeTelling = 30 * time.Second

// awaitAnywhere keeps a verdict until its outcome is told, at any node.
func (d *Decisions) awaitAnywhere(g *Guard, v gate.Verdict, now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	if err := d.Keeper.Keep(ctx, outcomeKind, v.Record.ID, []byte(g.Name), now.Add(outcomeTime)); err != nil {
		// As after a crash: it has no outcome.
		d.Log.WarnContext(ctx, "the outcome of an attempt cannot be told", slog.String("record", v.Record.ID), slog.Any("error", err))
	}
}

// outcomeAnywhere records the result of an attempt that some node has allowed, once.
func (d *Decisions) outcomeAnywhere(ctx context.Context, g *Guard, id string, said evidence.OutcomeStatus) (any, error) {
	none := status{http.StatusNotFound, "no attempt of that id waits for its outcome"}
	// A client that disconnects must not leave the change half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTelling)
	defer cancel()
	guard, err := d.Keeper.Kept(ctx, outcomeKind, id, d.Now())
	if err == nil && string(guard) != g.Name {
		err = issuer.ErrNotFound // it is another's, who can still tell it
	}
	var record evidence.Record
	if err == nil {
		record, err = d.Recorded(ctx, id)
	}
	if err == nil {
		_, err = d.Keeper.Take(ctx, outcomeKind, id, d.Now()) // of two who tell it, one does
	}
	switch {
	case errors.Is(err, issuer.ErrNotFound):
		return nil, none
	case err != nil:
		return nil, err
	}
	if err := d.Gate.Outcome(ctx, gate.Verdict{Allowed: true, Record: record}, said, nil); err != nil { // it can be told again
		return nil, errors.Join(err, d.Keeper.Keep(ctx, outcomeKind, id, guard, d.Now().Add(outcomeTime)))
	}
	if ledger, ok := d.Gate.Recorder.(gate.Ledger); ok {
		if err := ledger.Settle(ctx, id, false); err != nil {
			return nil, err
		}
	}
	return json.RawMessage(`{"recorded":true}`), nil
}
