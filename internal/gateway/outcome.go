package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

// outcome is what became of a call and, where that says nothing about the agent
// behind, why (EXT-18).
type outcome struct {
	status evidence.OutcomeStatus
	cause  string // one of those of package trust, "" for the agent's own doing
	drift  []string
}

// detail is the member outcome of its record.
func (o outcome) detail() []byte {
	var members []powerbox.Member
	if o.cause != "" {
		members = append(members, powerbox.Member{Name: "cause", Value: powerbox.String(o.cause)})
	}
	if len(o.drift) > 0 { // what the agent did and its card does not declare (CARD-12)
		var all []powerbox.Value
		for _, d := range o.drift {
			all = append(all, powerbox.String(d))
		}
		members = append(members, powerbox.Member{Name: "drift", Value: powerbox.List(all...)})
	}
	if members == nil {
		return nil
	}
	return powerbox.Object(members...).AppendJSON(nil)
}

// notTheAgent is the outcome of a call that we did not bring to the agent, or
// not to its end.
func notTheAgent(status evidence.OutcomeStatus) outcome {
	return outcome{status: status, cause: trust.CauseGateway}
}

// outcomeOf is what an answer in one piece says.
func outcomeOf(r *http.Response, x *decoded, body []byte) outcome {
	if x.call.Binding == a2a.JSONRPC {
		if code, wrong := a2a.ErrorCode(body); wrong {
			return failed(aboutInput(code))
		}
	}
	if r.StatusCode >= http.StatusBadRequest {
		return failed(r.StatusCode < http.StatusInternalServerError && r.StatusCode != http.StatusRequestTimeout && r.StatusCode != http.StatusTooManyRequests)
	}
	return outcome{status: evidence.Achieved}
}

func failed(input bool) outcome {
	o := outcome{status: evidence.Failed}
	if input {
		o.cause = trust.CauseInput
	}
	return o
}

// aboutInput reports whether an error of JSON-RPC is about what was asked for
// and not about how that went: those of JSON-RPC and of A2A but for an internal
// error and an answer that is none.
func aboutInput(code int64) bool {
	const invalidAgentResponse = -32006
	return code >= -32700 && code <= -32600 && code != a2a.CodeInternal || code >= -32099 && code <= -32001 && code != invalidAgentResponse
}

// grpcOutcome is what the status of an answer says, which stands in the headers
// where there is no message.
func grpcOutcome(r *http.Response) outcome {
	status := r.Trailer.Get("Grpc-Status")
	if status == "" {
		status = r.Header.Get("Grpc-Status")
	}
	if status == "0" {
		return outcome{status: evidence.Achieved}
	}
	// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION,
	// OUT_OF_RANGE, UNIMPLEMENTED.
	return failed(slices.Contains([]string{"3", "5", "6", "9", "11", "12"}, status))
}

// finish records the outcome. An outcome that cannot be written fails nothing:
// the call has been made, and a decision without an outcome is reported as
// unknown. Where the outcome is unknown to us, [Gateway.end] alone is called.
func (g *Gateway) finish(at decision, o outcome) {
	x := at.taken()
	if o.status == evidence.Achieved {
		g.pushes.deleted(x.decoded)
	}
	g.end(x)
	o.drift = x.learned.drifted
	ctx := context.WithoutCancel(x.request.Context())
	v := x.verdict
	if v.Record.TaskID == "" {
		v.Record.TaskID = x.learned.begun // nobody knew it when it was decided
	}
	if err := g.config.Gate.Outcome(ctx, v, o.status, o.detail()); err != nil {
		g.config.Log.ErrorContext(ctx, "an outcome was not recorded", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	}
}
