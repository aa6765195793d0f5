package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// Degraded says which calls of an agent continue although they cannot be recorded
// (EXT-27). It is an operator's choice; the zero value lets none continue.
type Degraded struct {
	// Reads are calls that are allowed and known to change nothing.
	Reads bool
	// For is how long at a time, from the first call without a record.
	For time.Duration
}

// gaps are the calls that continued without a record and are not on record yet, by
// agent.
type gaps struct {
	mu    sync.Mutex
	open  map[string]*gap
	total int64
}

type gap struct {
	calls       int64
	first, last time.Time
	writing     bool // its record is on its way
}

// goesOn decides about a call whose record was not written, and notes it where it
// continues. A store that can write and refuses this one record is no reason: who
// words a call would then choose whether it is recorded. Neither does anything continue
// that takes from a budget: without a record nothing is reserved, and a holder
// could take any amount meanwhile (ATK-42).
func (g *Gate) goesOn(call *Call, v *Verdict, failed error, now time.Time) bool {
	d := call.Target.Degraded
	degraded := errors.Is(failed, evidence.ErrUnavailable) && v.Allowed && d.Reads && call.Reads && len(v.take) == 0
	g.gaps.mu.Lock()
	defer g.gaps.mu.Unlock()
	open := g.gaps.open[call.Target.ID]
	if call.Mode != Observe && (!degraded || open != nil && now.Sub(open.first) > d.For) {
		return false
	}
	if open == nil {
		open = &gap{first: now}
		if g.gaps.open == nil {
			g.gaps.open = map[string]*gap{}
		}
		g.gaps.open[call.Target.ID] = open
	}
	open.calls++
	open.last = now
	g.gaps.total++
	return true
}

// logUnrecorded tells of a call what its record would have.
func (g *Gate) logUnrecorded(ctx context.Context, call *Call, r evidence.Record, failed error) {
	by := "agents.degraded"
	if call.Mode == Observe {
		by = "observe"
	}
	g.Log.ErrorContext(ctx, "a record was not written and the call goes on, by the operator's choice",
		slog.String("by", by), slog.String("agent", call.Target.ID), slog.String("record", r.ID), slog.String("operation", r.Intent.Operation),
		slog.String("requester", r.Details.Requester), slog.String("principal", r.Details.Principal),
		slog.String("capability", r.Details.Capability), slog.Any("error", failed))
}

// Unrecorded returns how many calls continued without a record since the start, and
// of how many of them the evidence does not tell yet, by agent.
func (g *Gate) Unrecorded() (total int64, untold map[string]int64) {
	g.gaps.mu.Lock()
	defer g.gaps.mu.Unlock()
	untold = map[string]int64{}
	for agent, open := range g.gaps.open {
		untold[agent] = open.calls
	}
	return g.gaps.total, untold
}

// Settle records how many calls continued without a record, for every agent with
// such calls. An error means that some cannot be recorded yet.
func (g *Gate) Settle(ctx context.Context) error {
	_, untold := g.Unrecorded()
	var errs []error
	for agent := range untold {
		errs = append(errs, g.settle(ctx, agent))
	}
	return errors.Join(errs...)
}

// settle records the gap of one agent, if it has one and no other goroutine is about
// to.
func (g *Gate) settle(ctx context.Context, agent string) error {
	g.gaps.mu.Lock()
	open := g.gaps.open[agent]
	if open == nil || open.writing {
		g.gaps.mu.Unlock()
		return nil
	}
	open.writing = true
	told := *open
	g.gaps.mu.Unlock()

	err := g.recordGap(ctx, agent, told)

	g.gaps.mu.Lock()
	defer g.gaps.mu.Unlock()
	open.writing = false
	switch {
	case err != nil:
	case open.calls == told.calls:
		delete(g.gaps.open, agent)
	default: // more came meanwhile
		open.calls -= told.calls
	}
	return err
}

func (g *Gate) recordGap(ctx context.Context, agent string, told gap) error {
	id, err := g.NewID()
	if err != nil {
		return err
	}
	details, err := json.Marshal(map[string]any{
		"calls": told.calls, "from": told.first.UTC().Format(time.RFC3339Nano), "until": told.last.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return err
	}
	_, err = g.Recorder.Record(ctx, evidence.Record{
		ID: id, AgentID: agent, ActionType: evidence.ActionGap, Intent: evidence.Intent{Operation: evidence.ActionGap, Details: details},
		Decision: evidence.Abstain, Time: g.Now(),
		Details: evidence.Details{
			Recorder: g.RecorderID, Requester: g.RecorderID, RevocationSequence: g.Revocations.RevocationSequence(), PolicyDigest: g.Policy.Digest(),
		},
	})
	if err == nil {
		g.Log.WarnContext(ctx, "calls went on without a record; how many is on record now",
			slog.String("agent", agent), slog.Int64("calls", told.calls), slog.String("record", id))
	}
	return err
}
