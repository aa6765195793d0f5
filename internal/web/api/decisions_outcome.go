package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// await keeps a verdict until its outcome is told.
func (d *Decisions) await(g *Guard, v gate.Verdict) {
	if !v.Allowed || v.Record.OutcomeStatus != evidence.Pending {
		return
	}
	now := d.Now()
	if d.Keeper != nil {
		d.awaitAnywhere(g, v, now)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = map[string]pendingOutcome{}
	}
	if len(d.pending) >= maxPending {
		for id, p := range d.pending {
			if !p.until.After(now) {
				delete(d.pending, id)
			}
		}
	}
	if len(d.pending) < maxPending {
		d.pending[v.Record.ID] = pendingOutcome{v, g.Name, now.Add(outcomeTime)}
	}
}

// outcome records the result of an attempt that was allowed (EXT-25), once.
func (d *Decisions) outcome(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	id, said := textOf(v, "id"), evidence.OutcomeStatus(textOf(v, "status"))
	if said != evidence.Achieved && said != evidence.Failed && said != evidence.Partial {
		return nil, status{http.StatusBadRequest, "status: want ACHIEVED, FAILED or PARTIAL"}
	}
	if d.Keeper != nil {
		return d.outcomeAnywhere(ctx, g, id, said)
	}
	d.mu.Lock()
	p, ok := d.pending[id]
	if ok = ok && p.guard == g.Name && p.until.After(d.Now()); ok {
		delete(d.pending, id)
	}
	d.mu.Unlock()
	if !ok {
		return nil, status{http.StatusNotFound, "no attempt of that id waits for its outcome"}
	}
	if err := d.Gate.Outcome(ctx, p.verdict, said, nil); err != nil {
		return nil, err
	}
	return json.RawMessage(`{"recorded":true}`), nil
}
