package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/trust"
)

// stream returns the events of an answer as they end. Before each one goes
// on, the tasks in it are bound and the capability is looked at again; when it
// no longer holds, the stream ends with an error event, or in gRPC with the
// status of one, also while nothing flows.
func (g *Gateway) stream(r *http.Response, x *decided) *stream {
	s := &stream{gateway: g, call: x, response: r, events: r.Body, held: heldBack{none: x.mode == gate.Observe}}
	if r.ContentLength >= 0 { // one that is cut has another length
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	if x.call.Binding == a2a.GRPC {
		s.frames = a2apb.NewFrames(maxAnswer, s.event)
	} else {
		events := a2a.NewFrames(maxAnswer, s.event)
		s.frames, s.sse = events, events
	}
	observed := g.config.Observer.Stream(x.request.Context(), x.ID)
	unwatch := g.watch(x, func() { _ = s.events.Close() }) // the read under way fails, and the verdict with it
	s.closed = func(reason string) {
		unwatch()
		observed(reason)
	}
	return s
}

// watch calls cut, once, when the verdict of a call no longer holds, and
// until then costs nothing. The returned function ends the watch.
func (g *Gateway) watch(x *decided, cut func()) (unwatch func()) {
	ctx, cancel := context.WithCancel(x.request.Context())
	atEnd := context.AfterFunc(x.present, cut)
	go func() {
		if _, good := g.config.Gate.Await(ctx, x.verdict); !good {
			cut()
		}
	}()
	return func() {
		atEnd()
		cancel()
	}
}

type stream struct {
	gateway  *Gateway
	call     *decided
	response *http.Response
	events   io.ReadCloser
	frames   splitter
	sse      *a2a.Frames // the same; nil in gRPC
	held     heldBack
	err      error
	over     bool
	ended    bool // the agent ended it
	became   outcome
	recorded bool // the outcome was recorded, or could not be
	done     *concluded
	closed   func(reason string) // ends the watch and tells the observer
	reason   string              // for which it was cut, "" for none
}

// event is called for every whole event, before its last byte is passed on.
func (s *stream) event(payload []byte, whole bool) {
	if s.err != nil {
		return
	}
	if !whole {
		s.err = errTooLong
		return
	}
	if s.call.call.Binding == a2a.GRPC {
		if s.err = s.call.oneMessage(payload); s.err != nil {
			return
		}
		if payload, s.err = a2apb.JSON(s.call.call.Wire, payload); s.err != nil {
			return
		}
	}
	if s.call.call.Binding == a2a.MCP {
		answers := s.call.request.Method == http.MethodPost || s.call.mcp.IsRequest()
		if answers && !a2a.IsResponse(payload) {
			return // it says nothing of what becomes of the call
		}
		if s.became = s.unlessRefused(mcpResult(payload)); s.call.learned.refusedAsk {
			s.became = notTheAgent(evidence.Partial)
		}
		if answers {
			if s.err = s.gateway.earn(s.call, payload); s.err == nil {
				s.err = s.conclude()
			}
		}
		return
	}
	said := a2a.ReadResponse(payload)
	if s.err = s.oneReading(said, payload); s.err != nil {
		return
	}
	s.became = s.unlessRefused(outcome{status: evidence.Achieved})
	code, wrong := s.errorIn(said)
	if wrong {
		s.became = failed(aboutInput(code))
	} else if s.err = s.gateway.behaved(s.call, payload, true); s.err != nil {
		return
	}
	last := wrong || said.IsLast() || s.call.wantsReceipt() && a2a.EndsStream(payload) // a receipt waits for the outcome
	if s.err = s.gateway.earn(s.call, payload); s.err != nil {
		return
	}
	if s.err = s.gateway.bind(s.call.request.Context(), s.call, said); s.err == nil && last {
		s.err = s.conclude()
	}
}

// unlessRefused is what an event says became of the call, except where clients read no
// event: with a status of failure, or where the call asked for no stream.
func (s *stream) unlessRefused(said outcome) outcome {
	x := s.call
	switch ofA2A := x.call.Binding == a2a.JSONRPC || x.call.Binding == a2a.HTTPJSON; {
	case s.response.StatusCode >= http.StatusBadRequest:
		return failed(refusedInput(s.response.StatusCode))
	case ofA2A && !x.call.Method.Streams() && !x.isUnread():
		return failed(false)
	}
	return said
}

// oneReading returns why clients may take an event for different ones. Some of them take
// each event of the type error for an error, and others do not look.
func (s *stream) oneReading(said a2a.Response, payload []byte) error {
	if err := s.call.oneReading(said, payload); err != nil {
		return err
	}
	if _, wrong := s.errorIn(said); !wrong && s.sse != nil && s.sse.Kind() == "error" && s.call.mode != gate.Observe {
		return errors.New("the event is of the type error and has none")
	}
	return nil
}

// errorIn returns the code of an event that clients take for an error.
func (s *stream) errorIn(said a2a.Response) (code int64, wrong bool) {
	if x := s.call; x.call.Binding == a2a.GRPC || !x.call.Method.Streams() {
		return said.Error()
	}
	return said.EventError()
}

// conclude records the outcome, once: before the event from which the caller knows that
// the call is over, and otherwise before the end of the stream (ATK-75).
func (s *stream) conclude() error {
	if s.recorded {
		s.gateway.end(s.call) // a task can end behind the event that concluded the call
		return nil
	}
	s.recorded = true
	if s.became.status == "" {
		if s.became = failed(false); s.call.call.Binding == a2a.MCP && s.ended && s.sse.Resumes() {
			s.became.status = evidence.Partial // clients of MCP ask for the rest
		}
	}
	var err error
	s.done, err = s.gateway.finish(s.call, s.became)
	return err
}

var errTooLong = io.ErrShortBuffer

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if n, err := s.held.read(p); n > 0 || err != nil {
			return n, err
		}
		if s.over {
			return 0, io.EOF
		}
		if n, err := s.next(p); n > 0 || err != nil {
			return n, err
		}
	}
}

// next reads from the agent, and returns what of it the caller gets without delay.
func (s *stream) next(p []byte) (int, error) {
	n, err := s.events.Read(p)
	if reason, good := s.gateway.config.Gate.Recheck(s.call.verdict); !good {
		return s.cut(p, reason)
	}
	if err != nil && s.call.present.Err() != nil && !errors.Is(err, io.EOF) {
		return s.cut(p, s.call.parting())
	}
	_, _ = s.frames.Write(p[:n]) // never fails
	if unfit := s.call.learned.unfit; err != nil && unfit != nil {
		// Without our own event the connection would be torn down, for some clients
		// before the headers of the answer.
		s.gateway.config.Log.ErrorContext(s.call.request.Context(), "a stream was cut", "agent", s.call.ID, "error", unfit)
		return s.cut(p, evidence.Reason{Code: codeOutcomeUnknown, Message: "the server sent what this gateway does not let through, so the stream ends here; the outcome of the call is unknown"})
	}
	if errors.Is(err, a2a.ErrLines) || errors.Is(err, mcp.ErrEvents) {
		s.err = err // a caller would see the connection torn down
	}
	if err != nil {
		s.close(errors.Is(err, io.EOF))
		if s.err == nil && s.ended {
			s.err = s.conclude()
		}
		if s.err == nil && s.done != nil && s.call.call.Binding == a2a.GRPC && s.became.status == evidence.Achieved {
			s.gateway.receiptedTrailer(s.response, s.done)
		}
	}
	if s.err == nil && s.frames.Begun() > maxPart {
		s.err = errTooLong
	}
	if s.err != nil {
		if ctx := s.call.request.Context(); ctx.Err() == nil { // a caller that leaves is nothing to look into
			s.gateway.config.Log.ErrorContext(ctx, "a stream was cut", "agent", s.call.ID, "error", s.err)
		}
		if errors.Is(s.err, errUnrecorded) {
			return s.end(p, s.gateway.withoutOutcome(s.call))
		}
		if drift := (*driftError)(nil); errors.As(s.err, &drift) {
			return s.cut(p, evidence.Reason{Code: codeUndeclared, Message: "the agent streamed what its card does not declare: " + string(drift.behaviour)})
		}
		return s.cut(p, evidence.Reason{Code: gate.CodeUnavailable, Message: "the stream cannot go on"})
	}
	return s.held.pass(p[:n], s.frames.Begun(), err)
}

// close looks at the event that the stream ends in, which SDKs read. In a stream that broke
// off they do not, and so it does not pass.
func (s *stream) close(ended bool) {
	if s.ended = ended; ended || s.held.none {
		s.frames.Close()
	}
	if ended && !s.held.none && s.frames.Begun() > 0 {
		s.err = errors.Join(s.err, io.ErrUnexpectedEOF) // a message of gRPC without its end
	}
	s.trailed()
}

// trailed takes the outcome of a call from the status that gRPC ends with.
func (s *stream) trailed() {
	stripOurs(s.response.Trailer)
	if s.call.call.Binding != a2a.GRPC || s.err != nil {
		return
	}
	var err error
	if s.became, err = grpcOutcome(s.response); s.call.mode != gate.Observe {
		s.err = err
	}
}

// cut ends the stream: with a terminal error event, or with the status of gRPC.
func (s *stream) cut(p []byte, reason evidence.Reason) (int, error) {
	s.became = notTheAgent(evidence.Partial)
	s.became.told = reason.Code
	d := s.gateway.interrupted(s.call, reason)
	if err := s.conclude(); err != nil {
		d = s.gateway.withoutOutcome(s.call)
	}
	return s.end(p, d)
}

// end ends the stream with a denial.
func (s *stream) end(p []byte, d a2a.Denial) (int, error) {
	s.over, s.reason = true, d.Reason
	if b := s.call.call.Binding; b != a2a.GRPC {
		// In observe an event that was begun ends here, so that ours begins anew.
		s.held.out = append([]byte("\n\n"), d.Event(b, s.call.call.ID)...)
		return s.Read(p)
	}
	s.response.Trailer = http.Header{}
	if err := a2apb.SetStatus(s.response.Trailer, d.GRPC()); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.closed(s.reason)
	if !s.over && !s.ended && s.call.request.Context().Err() != nil {
		if s.became.status == "" {
			s.became = failed(false)
		}
		s.became.cause = trust.CauseCaller
	}
	_ = s.conclude() // no more is read; it is in the log
	return s.events.Close()
}
