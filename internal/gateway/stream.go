package gateway

import (
	"io"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// stream returns the events of an answer as they come. Before each piece goes
// on, the tasks in it are bound and the capability is looked at again; when it
// no longer holds, the stream ends with an error event.
func (g *Gateway) stream(events io.ReadCloser, x *exchange) io.ReadCloser {
	s := &stream{gateway: g, exchange: x, events: events}
	s.frames = a2a.NewFrames(maxAnswer, s.event)
	return s
}

type stream struct {
	gateway  *Gateway
	exchange *exchange
	events   io.ReadCloser
	frames   *a2a.Frames
	last     []byte // what is still to be read when the stream was cut
	err      error
	over     bool
	status   evidence.OutcomeStatus
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
	s.status = evidence.Achieved
	if isError(payload) {
		s.status = evidence.Failed
	}
	s.err = s.gateway.bind(s.exchange.request.Context(), s.exchange, payload)
}

var errTooLong = io.ErrShortBuffer

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.last) > 0 {
		n := copy(p, s.last)
		s.last = s.last[n:]
		return n, nil
	}
	if s.over {
		return 0, io.EOF
	}
	n, err := s.events.Read(p)
	if reason, good := s.gateway.config.Gate.Recheck(s.exchange.verdict); !good {
		return s.cut(p, reason)
	}
	_, _ = s.frames.Write(p[:n]) // never fails
	if err != nil {
		// SDKs read an event that the stream ends in; they get the end after it
		// was looked at.
		s.frames.Close()
	}
	if s.err != nil {
		s.gateway.config.Log.ErrorContext(s.exchange.request.Context(), "a stream was cut", "agent", s.exchange.ID, "error", s.err)
		return s.cut(p, gate.Reason{Code: gate.CodeUnavailable, Message: "the stream cannot go on"})
	}
	return n, err
}

// cut ends the stream with a terminal error event.
func (s *stream) cut(p []byte, reason gate.Reason) (int, error) {
	s.over, s.status = true, evidence.Partial
	d := a2a.Denial{Reason: reason.Code, Message: reason.Message, DecisionID: s.exchange.verdict.Record.ID, At: s.gateway.config.Now()}
	// An event that was begun ends here, so that ours is one of its own.
	s.last = append([]byte("\n\n"), d.Event(s.exchange.call.ID)...)
	return s.Read(p)
}

// Close implements io.Closer.
func (s *stream) Close() error {
	if s.status == "" {
		s.status = evidence.Failed
	}
	s.gateway.finish(s.exchange, s.status)
	return s.events.Close()
}
