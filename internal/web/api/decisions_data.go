package api

import (
	"context"
	"log/slog"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// GuardData is how rules about the origin of data hold for programs that ask for decisions
// (ADR 149). The server does not see what their calls answer, so it notes the label of the
// results with the decision, and no value of them vouches for anything.
type GuardData struct {
	Book      Data
	Observe   bool
	Delegates func(caller string) bool
	Holders   func(caller string) []string // of a configured caller
}

// labelled holds a question to the rules, where results are labelled. An agent that its guard
// names reads as itself and as all its holders. A subject without a holder is treated as one
// that has read untrusted data.
func (d *Decisions) labelled(call *gate.Call, agent Guarded, e evaluation) {
	if d.Data == nil {
		return
	}
	data := &gate.Data{
		Book: d.Data.Book, Observe: d.Data.Observe, Sink: agent.sink, Yields: agent.yields(e),
		Delegates: func(holder string) bool { return d.Data.Delegates(d.Origin(holder)) },
	}
	if name := call.Caller.Name; name != "" {
		data.Readers = append([]string{TypeAgent + ":" + name}, d.Data.Holders(name)...)
	}
	call.Ask.Data = data
}

// sink is the rule of an operation. Skills of one operation have one rule.
func (a Guarded) sink(op powerbox.Operation) gate.Sink {
	for _, s := range a.Skills {
		if s.Operation == op {
			return s.Flow.Sink
		}
	}
	return gate.Sink{}
}

// yields is the label of what an action answers, nil for the entries of a list.
func (a Guarded) yields(e evaluation) *gate.Label {
	if s, ok := a.mapped(e.Action.ID); ok {
		return &s.Flow.Yields
	}
	if wants, _ := e.Action.Properties.Get(propertyAuthority); e.Action.ID == ActionMessage && wants.Equal(powerbox.Bool(true)) {
		return nil
	}
	return &a.Yields
}

// sinkAsks reports whether a rule about data may leave an attempt to a person.
func (d *Decisions) sinkAsks(call *gate.Call) bool {
	data := call.Ask.Data
	return data != nil && !data.Observe && len(call.Attempts) > 0 && !call.Attempts[0].IsAdmission() && data.Sink(call.Attempts[0].Operation()).Asks()
}

// noteRead keeps the label of what an allowed attempt answers, before the guard knows that it
// is allowed. It returns false where the label cannot be kept, and the attempt must not be made.
func (d *Decisions) noteRead(ctx context.Context, g *Guard, call *gate.Call, v gate.Verdict) bool {
	data := call.Ask.Data
	if !v.Allowed || data == nil || data.Yields == nil || v.Data == nil || len(v.Data.By.Holders) == 0 {
		return true
	}
	err := d.Data.Book.Note(ctx, v.Data.By, *data.Yields)
	if err == nil {
		return true
	}
	d.Log.ErrorContext(ctx, "what an attempt reads cannot be noted", slog.String("guard", g.Name), slog.Bool("allowed", data.Observe), slog.Any("error", err))
	if data.Observe {
		return true
	}
	if err := d.Gate.Outcome(context.WithoutCancel(ctx), v, evidence.Failed, nil); err != nil {
		d.Log.ErrorContext(ctx, "the outcome of an attempt cannot be recorded", slog.String("guard", g.Name), slog.Any("error", err))
	}
	return false
}
