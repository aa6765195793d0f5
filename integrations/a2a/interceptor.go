package powerboxa2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// Interceptor decides each call in process, under what the gateway has signed.
// It goes first among the interceptors of a2asrv.NewHandler, for which, and for
// the task store, the user is the principal's pseudonym. Calls that did not
// come through [Inbound.Handler], or [Inbound.ServerOptions], are refused as
// unauthenticated.
func (in *Inbound) Interceptor() a2asrv.CallInterceptor { return &deciding{in: in} }

type deciding struct {
	a2asrv.PassthroughCallInterceptor
	in *Inbound
}

// Before implements [a2asrv.CallInterceptor].
func (d *deciding) Before(ctx context.Context, call *a2asrv.CallContext, req *a2asrv.Request) (context.Context, any, error) {
	task, ok := TaskFrom(ctx)
	if !ok || task.in != d.in {
		return ctx, nil, unauthenticated("No context of the gateway came with this call; the agent's handler is not behind Inbound.Handler.")
	}
	if err := task.admits(ctx, req.Payload); err != nil {
		d.in.config.Log.WarnContext(ctx, "a call that the gateway let through is refused", "decision", task.Context.Decision, "error", err)
		return ctx, nil, err
	}
	if who := cmp.Or(task.Context.Principal, task.Context.Holder); who != "" && call != nil {
		call.User = a2asrv.NewAuthenticatedUser(who, nil)
	}
	if carrier, ok := req.Payload.(a2a.MetadataCarrier); ok {
		task.receiveMetadata(ctx, carrier.Meta())
	}
	return ctx, nil, nil
}

// admits decides a call as the gateway does.
func (t *Task) admits(ctx context.Context, payload any) error {
	call, err := readCall(payload)
	if wrong := (*errReading)(nil); errors.As(err, &wrong) {
		return answer(a2a.ErrInvalidParams, wrong.text, map[string]string{"code": wrong.code, "retryable": "false"})
	}
	// The body of a call that reads may be empty, so that its digest says nothing: so
	// the signed context names the task, too. It also names the tenant, which a2a-go
	// 2.4.0 loses in CancelTask and SubscribeToTask over gRPC.
	if call.task != t.Context.Task || call.tenant != t.Context.Tenant {
		return unauthenticated("The context of the gateway is for another task, or tenant, than the call's.")
	}
	attempts, handle, why := t.attempts(ctx, call)
	if why == nil && t.bounded() && call.free && !t.in.config.Enforces && t.constrained() {
		why = worded(powerbox.Reason{Code: gate.CodeMessageNotBound})
	}
	reasons := t.decide(attempts, handle)
	if why != nil {
		reasons = append([]evidence.Reason{*why}, reasons...)
	}
	if len(reasons) > 0 {
		return t.denied(reasons...)
	}
	return nil
}

// attempts works out what a call tries.
func (t *Task) attempts(ctx context.Context, call reading) (attempts []powerbox.Attempt, handle string, why *evidence.Reason) {
	type tried struct {
		op   powerbox.Operation
		args powerbox.Value
	}
	var all []tried
	if call.skill != "" && t.bounded() {
		mapped, why := t.mapped(ctx, call.skill)
		if why != nil {
			return nil, "", why
		}
		handle = mapped.Handle
		all = append(all, tried{mapped.Operation, call.arguments})
	}
	reserved := []string{call.operation}
	if call.push {
		reserved = append(reserved, opPush)
	}
	for _, name := range reserved {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			return nil, "", &evidence.Reason{Code: string(powerbox.CodeRequirementUnknown), Message: err.Error()}
		}
		all = append(all, tried{op, call.taskArguments()})
	}
	for _, a := range all {
		attempt, err := powerbox.Invocation(a.op, a.args)
		if err != nil {
			return nil, "", &evidence.Reason{Code: "params", Message: err.Error()}
		}
		if name, rounded := powerbox.RoundedArgument(a.args); rounded {
			return nil, "", worded(powerbox.Reason{Code: gate.CodeArgumentNumber, Operation: a.op.String(), Argument: name})
		}
		attempts = append(attempts, attempt)
	}
	return attempts, handle, nil
}

// denied is the error of a2a-go for a denial, with what a program needs to act
// on in its ErrorInfo (extension, section 5). It never tells what would have
// been permitted.
func (t *Task) denied(reasons ...evidence.Reason) error {
	meta := map[string]string{"code": reasons[0].Code, "retryable": "false"}
	var missing, texts []string
	for _, r := range reasons {
		if r.Code == string(powerbox.CodeOperation) {
			missing = append(missing, r.Operation)
		}
		texts = append(texts, r.Message)
	}
	text := strings.Join(texts, "; ")
	if len(missing) > 0 {
		text = powerbox.Violation(missing) + "; " + text
		slices.Sort(missing)
		missing = slices.Compact(missing)
		list, err := json.Marshal(missing)
		if err == nil {
			meta["missing"] = string(list)
		}
	}
	if t.Context.Decision != "" {
		meta["decision"] = t.Context.Decision
	}
	final := "the decision is final, so do not repeat the call or look for another way."
	if reasons[0].Code == gate.CodeUnavailable {
		meta["retryable"], final = "true", "it may be repeated once later."
	}
	return &denial{answer(a2a.ErrUnauthorized, text+"; "+final, meta)}
}

// denial makes a denial of a2a-go a [powerbox.ErrDenied] as well.
type denial struct{ answer *a2a.Error }

func (d *denial) Error() string   { return d.answer.Error() }
func (d *denial) Unwrap() []error { return []error{d.answer, powerbox.ErrDenied} }

func unauthenticated(text string) error {
	return answer(a2a.ErrUnauthenticated, text, map[string]string{"code": "context_missing", "retryable": "false"})
}

func answer(kind error, text string, meta map[string]string) *a2a.Error {
	return a2a.NewError(kind, text).WithErrorInfoMeta(meta)
}
