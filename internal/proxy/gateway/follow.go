package gateway

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// followEvery is how often it is looked what has become of a held call that
// someone follows.
const followEvery = time.Second

// over reports whether nothing becomes of a held call any more.
func (held HeldTask) over() bool {
	return held.State != a2a.OwnAuthRequired && held.State != a2a.OwnWorking
}

// follow answers a subscription to our own task: the task as it is, then what
// becomes of it, and the end with its end (A2A 1.0, section 3.1.6). One that is over
// cannot be followed.
func (g *Gateway) follow(w http.ResponseWriter, x *decided, task HeldTask) {
	if task.over() {
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), a2a.Denial{
			Code: a2a.CodeUnsupported, Reason: codeOver, DecisionID: x.verdict.Record.ID, At: g.config.Now(),
			Message: "this task is over; ask for it with GetTask",
		})
		return
	}
	g.stay(w, x, task, "answered")
}

// stay answers with a stream that stays open while our own task waits. A message that asks
// for a stream keeps it when its call is held: the approval comes from elsewhere, so the
// stream is maintained in AUTH_REQUIRED (A2A 1.0, section 7.6.1). A held call has no
// outcome to record, since it is not made yet.
func (g *Gateway) stay(w http.ResponseWriter, x *decided, task HeldTask, outcome string) {
	ctx, cancel := context.WithCancel(x.request.Context())
	defer cancel()
	defer g.watch(x, cancel)()
	h := w.Header()
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set(HeaderOutcome, outcome)
	h.Set("Cache-Control", "no-store")
	kind := typeEvents
	if x.call.Binding == a2a.GRPC {
		kind = typeGRPC
		h["Trailer"] = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"}
	}
	g.activate(h, x.decoded)
	h.Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	g.followOn(ctx, w, x, task)
}

// followOn writes the states of a task until its end, or until no more may be read. The
// outcome is on record before the caller can know that it is the end.
func (g *Gateway) followOn(ctx context.Context, w http.ResponseWriter, x *decided, task HeldTask) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for said := a2a.OwnState(""); ; {
		if task.over() {
			g.followed(w, x, outcome{status: evidence.Achieved}, func() {
				if g.tellOn(w, x, task) && x.call.Binding == a2a.GRPC {
					w.Header().Set("Grpc-Status", "0")
				}
			})
			return
		}
		if task.State != said {
			if said = task.State; !g.tellOn(w, x, task) {
				g.followed(w, x, outcome{status: evidence.Achieved}, func() {})
				return
			}
		}
		select {
		case <-ctx.Done():
			g.cutShort(w, x)
			return
		case <-tick.C:
		}
		if now, known, err := g.config.Holds.Task(ctx, x.ID, task.Task); err == nil && known {
			task = now
		}
	}
}

// followed records the outcome of a subscription and then has it end.
func (g *Gateway) followed(w http.ResponseWriter, x *decided, o outcome, end func()) {
	if _, err := g.finish(x, o); err != nil {
		g.lastEvent(w, x, g.withoutOutcome(x))
		return
	}
	end()
}

// codeOver is the denial of a subscription to a finished task.
const codeOver = "task_over"

// tellOn writes a task as one event, and reports whether someone may still read.
func (g *Gateway) tellOn(w http.ResponseWriter, x *decided, task HeldTask) bool {
	_, body, err := g.written(x, task.own(), true)
	if err != nil {
		g.config.Log.ErrorContext(x.request.Context(), "a task cannot be written as the caller reads it", "error", err)
		return false
	}
	if x.call.Binding != a2a.GRPC {
		body = slices.Concat([]byte("data: "), body, []byte("\n\n"))
	}
	if _, err = w.Write(body); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	return err == nil
}

// cutShort ends our own stream whose caller may not read on, or with the server. The
// outcome says what its caller is told.
func (g *Gateway) cutShort(w http.ResponseWriter, x *decided) {
	reason, good := g.config.Gate.Recheck(x.verdict)
	if good && x.present.Err() == nil { // the caller has gone
		g.followed(w, x, outcome{status: evidence.Achieved}, func() {})
		return
	}
	if good {
		reason = x.parting()
	}
	o := notTheAgent(evidence.Partial)
	o.told = reason.Code
	g.followed(w, x, o, func() { g.lastEvent(w, x, g.interrupted(x, reason)) })
}

// lastEvent ends our own stream with a denial.
func (g *Gateway) lastEvent(w http.ResponseWriter, x *decided, d a2a.Denial) {
	if x.call.Binding != a2a.GRPC {
		_, _ = w.Write(d.Event(x.call.Binding, x.call.ID)) // the client has gone
		return
	}
	if err := a2apb.SetStatus(w.Header(), d.GRPC()); err != nil {
		w.Header().Set("Grpc-Status", "7")
	}
}
