package guardgrpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// domain is that of our reasons in google.rpc.ErrorInfo.
const domain = "powerbox"

// Attempt says what a call is: method is the full one (/service/method), message
// what the client sends, nil at the opening of a stream of many. An error, or a call
// that it cannot tell, is refused.
type Attempt func(ctx context.Context, method string, message any) (guard.Attempt, error)

// Guard holds the calls of a server or a client to what the gate allows.
type Guard struct {
	Gate    *guard.Gate // required
	Attempt Attempt     // required
}

// check asks about one call or message.
func (g *Guard) check(ctx context.Context, method string, message any) (guard.Decision, error) {
	a, err := g.Attempt(ctx, method, message)
	if err != nil {
		return guard.Decision{}, refusal(codes.PermissionDenied, err.Error(), guard.Decision{}, err)
	}
	d, err := g.Gate.Check(ctx, a)
	refused := (*guard.Refused)(nil)
	switch {
	case errors.As(err, &refused):
		return d, refusal(codes.PermissionDenied, refused.Error(), refused.Decision, err)
	case err != nil:
		return d, refusal(codes.Unavailable, "Whether it is allowed cannot be told now; try again in a moment.", guard.Decision{Retryable: true}, err)
	}
	return d, nil
}

// stopped is an error of the gate with its status in gRPC.
type stopped struct {
	error
	status *status.Status
}

// GRPCStatus is what goes over the wire.
func (s *stopped) GRPCStatus() *status.Status { return s.status }

// Unwrap returns the gate's error.
func (s *stopped) Unwrap() error { return s.error }

// reasons are the codes as ErrorInfo has them.
var reasons = map[codes.Code]string{codes.PermissionDenied: "PERMISSION_DENIED", codes.Unavailable: "UNAVAILABLE"}

func refusal(code codes.Code, text string, d guard.Decision, err error) error {
	metadata := map[string]string{"retryable": strconv.FormatBool(d.Retryable)}
	if d.ID != "" {
		metadata["decision"] = d.ID
	}
	if len(d.Missing) > 0 {
		missing, _ := json.Marshal(d.Missing) // texts
		metadata["missing"] = string(missing)
	}
	if len(d.Reasons) > 0 {
		metadata["code"] = d.Reasons[0].Code
	}
	s := status.New(code, text)
	if detailed, wrong := s.WithDetails(&errdetails.ErrorInfo{
		Reason: reasons[code], Domain: domain, Metadata: metadata,
	}); wrong == nil {
		s = detailed // without it, it says the same
	}
	return &stopped{err, s}
}

// told are the attempts of a stream whose outcome is still to be told.
type told struct {
	guard *Guard
	ctx   context.Context

	mu      sync.Mutex
	opening []guard.Decision // under which the stream continues
	last    []guard.Decision // about a message
	over    bool
}

// done says that the last message has done what it does: the next one is wanted.
func (t *told) done() {
	t.mu.Lock()
	before := t.last
	t.last = nil
	t.mu.Unlock()
	t.tell(before, nil)
}

// next takes in the decision about a message.
func (t *told) next(d guard.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = []guard.Decision{d}
}

// end tells what became of a stream, once.
func (t *told) end(failed error) {
	if errors.Is(failed, io.EOF) {
		failed = nil
	}
	t.mu.Lock()
	all := slices.Concat(t.opening, t.last)
	if t.over {
		all = nil
	}
	t.over = true
	t.mu.Unlock()
	t.tell(all, failed)
}

func (t *told) tell(decisions []guard.Decision, failed error) {
	for _, d := range decisions {
		_ = t.guard.Gate.Outcome(t.ctx, d, failed) // an outcome that is not reported is unknown, on record
	}
}
