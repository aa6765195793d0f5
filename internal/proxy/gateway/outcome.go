package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

// outcome is what became of a call and, where that says nothing about the agent
// behind, why (EXT-18).
type outcome struct {
	status evidence.OutcomeStatus
	cause  string // one of those of package trust, "" for the agent's own doing
	told   string // the code of the denial that the caller got in place of an answer, "" for none
	drift  []string
	label  *gate.Label // of the answer; nil for none
}

// detail is the member outcome of its record.
func (o outcome) detail() []byte {
	var members []powerbox.Member
	if o.cause != "" {
		members = append(members, powerbox.Member{Name: "cause", Value: powerbox.String(o.cause)})
	}
	if o.told != "" {
		members = append(members, powerbox.Member{Name: "told", Value: powerbox.String(o.told)})
	}
	if len(o.drift) > 0 { // what the agent did and its card does not declare (CARD-12)
		var all []powerbox.Value
		for _, d := range o.drift {
			all = append(all, powerbox.String(d))
		}
		members = append(members, powerbox.Member{Name: "drift", Value: powerbox.List(all...)})
	}
	if o.label != nil && o.status == evidence.Achieved {
		members = append(members, powerbox.Member{Name: "data", Value: o.label.JSON()})
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
func outcomeOf(r *http.Response, x *decoded, said a2a.Response, body []byte) outcome {
	if x.call.Binding == a2a.JSONRPC {
		if code, wrong := said.Error(); wrong {
			return failed(aboutInput(code))
		}
	}
	if r.StatusCode >= http.StatusBadRequest {
		return failed(refusedInput(r.StatusCode))
	}
	if !x.takes(said, len(body) == 0) {
		return failed(false)
	}
	return outcome{status: evidence.Achieved}
}

// takes reports whether clients take an answer in one piece for one to the call. They fail
// on one without contents, and on one where they expect a stream.
func (x *decoded) takes(said a2a.Response, empty bool) bool {
	m := x.call.Method
	switch {
	case x.isUnread() || m == a2a.DeletePushConfig:
		return true
	case m.Streams() || empty:
		return false
	}
	return !m.IsMessage() || said.IsEvent()
}

func failed(input bool) outcome {
	o := outcome{status: evidence.Failed}
	if input {
		o.cause = trust.CauseInput
	}
	return o
}

// refusedInput reports whether a status of failure is about the request.
func refusedInput(status int) bool {
	return status < http.StatusInternalServerError && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// aboutInput reports whether an error of JSON-RPC is about the request
// and not about its execution: those of JSON-RPC and of A2A except for an internal
// error and an answer that is none.
func aboutInput(code int64) bool {
	const invalidAgentResponse = -32006
	return code >= -32700 && code <= -32600 && code != a2a.CodeInternal || code >= -32099 && code <= -32001 && code != invalidAgentResponse
}

// errStatus is an answer of gRPC whose status readers take differently.
var errStatus = errors.New("the answer has several statuses of gRPC, or one that is no number as gRPC writes it, which readers take differently")

// grpcStatus is the status of an answer, which stands in the headers where there is no
// message, "" where there is none. Clients differ in which of several they take, and in
// whether 00 is 0 (ATK-126).
func grpcStatus(r *http.Response) (string, error) {
	said := slices.Concat(r.Trailer.Values("Grpc-Status"), r.Header.Values("Grpc-Status"))
	if len(said) == 0 {
		return "", nil
	}
	n, err := strconv.Atoi(said[0])
	if len(said) > 1 || !isOfGRPC(r) || err != nil || n < 0 || strconv.Itoa(n) != said[0] {
		return "", errStatus
	}
	return said[0], nil
}

// grpcOutcome is what the status of an answer says.
func grpcOutcome(r *http.Response) (outcome, error) {
	status, err := grpcStatus(r)
	if status == "0" {
		return outcome{status: evidence.Achieved}, nil
	}
	// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION,
	// OUT_OF_RANGE, UNIMPLEMENTED.
	return failed(slices.Contains([]string{"3", "5", "6", "9", "11", "12"}, status)), err
}

// concluded is a decided call that can be answered: its outcome is on record, or it has
// none, or the answer says that the record lacks it. Only this file makes one, so that
// no answer leaves before its outcome is durable (ATK-75).
type concluded struct{ *decided }

func (x *concluded) readable() *decoded { return x.decoded }

// body makes the bytes in memory the whole answer.
func (x *concluded) body(r *http.Response, body []byte) {
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
}

// denied is a call that the gate did not allow, which has no outcome.
func denied(x *decided) *concluded {
	if x.verdict.Allowed {
		panic("gateway: an allowed call is answered without its outcome")
	}
	return &concluded{x}
}

// errUnrecorded is an outcome that could not be made durable.
var errUnrecorded = errors.New("the outcome of the call could not be recorded")

// conclude records the outcome of a call and then answers it. Where the outcome cannot be
// recorded the caller is told that instead.
func (g *Gateway) conclude(w http.ResponseWriter, x *decided, o outcome, answer func(*concluded)) {
	done, err := g.finish(x, o)
	if err != nil {
		g.unrecorded(w, x)
		return
	}
	answer(done)
}

// concludeDenied is conclude for a call that is answered with a denial.
func (g *Gateway) concludeDenied(w http.ResponseWriter, x *decided, o outcome, d a2a.Denial) {
	o.told = d.Reason // what the decision says is not what the caller heard
	g.conclude(w, x, o, func(x *concluded) { g.deny(w, x, d) })
}

// finish records the outcome of a call and returns what its answer needs. Where the
// outcome is unknown, [Gateway.unknown] answers.
func (g *Gateway) finish(at decision, o outcome) (*concluded, error) {
	x := at.taken()
	if o.status == evidence.Achieved {
		g.pushes.deleted(x.decoded)
	}
	g.end(x)
	o.drift, o.label = x.learned.drifted, x.learned.label
	x.learned.unmade = o.status == evidence.Failed && o.cause == trust.CauseGateway
	// The call was made, and its caller may have gone.
	ctx := context.WithoutCancel(x.request.Context())
	v := x.verdict
	if begun := x.learned.begun; begun != "" && x.call.Task == "" {
		v.Record.TaskID = begun // it was unknown at the decision
	}
	record, err := g.config.Gate.Conclude(ctx, v, o.status, o.detail())
	if err != nil {
		g.config.Log.ErrorContext(ctx, "an outcome was not recorded", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
		return nil, fmt.Errorf("%w: %w", errUnrecorded, err)
	}
	x.learned.outcome = record
	return &concluded{x}, nil
}

// unknown answers where the agent behind may have done what it was asked, and
// nothing can be said about that. No outcome is recorded, so that evidence says
// the same.
func (g *Gateway) unknown(w http.ResponseWriter, x *decided, err error) {
	g.config.Log.ErrorContext(x.request.Context(), "the outcome of a call is unknown", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	d := a2a.Denial{
		Code: a2a.CodeInternal, Reason: codeOutcomeUnknown, DecisionID: x.verdict.Record.ID, Retryable: !x.writes(), At: g.config.Now(),
		Message: "the call went to the agent behind and no answer that can be passed on came back, so its outcome is unknown",
	}
	if !d.Retryable {
		d.Fix = "find out what became of it before it is repeated"
	}
	w.Header().Set(HeaderDecision, d.DecisionID)
	w.Header().Set(HeaderOutcome, "unknown")
	g.say(w, &concluded{x}, d)
}

// retryUnavailable is after how many seconds a dependency that is away may be there again.
const retryUnavailable = 1

// codeUnrecorded is the reason where the outcome of a call is not on record.
const codeUnrecorded = "outcome_unrecorded"

// unrecorded answers a call whose outcome could not be recorded. The agent's answer is
// kept back: the evidence says that the outcome is unknown, and the caller hears the same.
func (g *Gateway) unrecorded(w http.ResponseWriter, x *decided) {
	h := w.Header()
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set(HeaderOutcome, "unrecorded")
	h.Set(HeaderReason, codeUnrecorded)
	d := g.withoutOutcome(x)
	if d.Retryable {
		h.Set("Retry-After", strconv.Itoa(retryUnavailable))
	}
	g.say(w, &concluded{x}, d)
}

// withoutOutcome words for the caller that a record lacks its outcome.
func (g *Gateway) withoutOutcome(x *decided) a2a.Denial {
	d := a2a.Denial{
		Code: a2a.CodeInternal, Reason: codeUnrecorded, DecisionID: x.verdict.Record.ID, Retryable: !x.writes(), At: g.config.Now(),
		Message: "the agent was called, and the gateway could not record the outcome, so the agent's answer is kept back; the record " + x.verdict.Record.ID + " stands without an outcome",
	}
	switch {
	case x.learned.unmade:
		d.Retryable, d.Away = true, true
		d.Message = "the gateway did not bring the call to the agent, and could not record that; the record " + x.verdict.Record.ID + " stands without an outcome"
	case !d.Retryable:
		d.Fix = "find out at the agent whether the call took effect before you repeat it"
	}
	return d
}
