package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// errTaken is an answer that begins something which another caller owns.
var errTaken = errors.New("the agent gave the call a task or context that belongs to another caller")

// bindOne makes one task or context the caller's. One that is another party's already is
// an agent's mistake, such as numbering tasks anew, and must give the caller nothing of
// it (ATK-18).
func (g *Gateway) bindOne(ctx context.Context, x *decided, name reference) error {
	mine := g.ownerOf(x.decoded, x.verdict.Held)
	first, err := g.config.Tasks.Bind(ctx, x.ID, x.call.Tenant, name.key(), mine)
	if err == nil && !sameCaller(first, mine) && x.mode != gate.Observe {
		return errTaken
	}
	return err
}

// sameCaller reports whether two owners are one caller, under one capability or several.
func sameCaller(a, b Owner) bool {
	return a == b || a.Principal == b.Principal && a.Holder == b.Holder && a.Holder != ""
}

// codeTaken is the denial of an answer that is about what someone else owns.
const codeTaken = "task_taken"

// taken answers a call to which the agent gave what someone else owns. The agent has
// acted, and its answer is kept back.
func (g *Gateway) taken(w http.ResponseWriter, x *decided) {
	g.concludeDenied(w, x, outcome{status: evidence.Partial, cause: codeTaken}, a2a.Denial{
		Code: a2a.CodeInternal, Reason: codeTaken, DecisionID: x.verdict.Record.ID, At: g.config.Now(),
		Message: "the agent answered with the id of a task or context that another caller owns, so its answer is kept back; have its operator make ids that are not given twice",
	})
}

// endTime is how long the ends of tasks may take.
const endTime = 10 * time.Second

// end ends the capabilities of the tasks that the answer said have ended.
func (g *Gateway) end(at decision) {
	x := at.taken()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.request.Context()), endTime)
	defer cancel()
	ended := x.learned.ended
	x.learned.ended = nil
	for _, task := range ended {
		if err := g.config.Tasks.End(ctx, x.ID, x.call.Tenant, task); err != nil {
			g.config.Log.ErrorContext(ctx, "the capabilities of an ended task stay until they expire", "agent", x.ID, "error", err)
		}
	}
}
