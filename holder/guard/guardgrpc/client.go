package guardgrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// DialOptions have a client's calls go out that the gate allows, and no others.
func (g *Guard) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(g.call), grpc.WithChainStreamInterceptor(g.open)}
}

func (g *Guard) call(ctx context.Context, method string, message, answer any, cc *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption) error {
	d, err := g.check(ctx, method, message)
	if err != nil {
		return err
	}
	failed := next(ctx, method, message, answer, cc, options...)
	_ = g.Gate.Outcome(ctx, d, failed) // an outcome that is not reported is unknown, on record
	return failed
}

// open asks about a stream of many messages before it is opened. One with a single
// message is opened when that is known.
func (g *Guard) open(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &sending{guard: g, ctx: ctx, cancel: cancel, method: method, answers: desc.ServerStreams, told: told{guard: g, ctx: ctx}}
	s.open = func() (grpc.ClientStream, error) { return next(ctx, desc, cc, method, options...) }
	if !desc.ClientStreams {
		return s, nil
	}
	d, err := g.check(ctx, method, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	s.told.opening = []guard.Decision{d}
	if _, err := s.opened(); err != nil {
		return nil, err
	}
	return s, nil
}

// sending is a stream whose messages are asked about before they go out. As gRPC has
// it, one may be sent while another is read.
type sending struct {
	guard   *Guard
	ctx     context.Context
	cancel  context.CancelFunc
	method  string
	answers bool // there can be many
	open    func() (grpc.ClientStream, error)
	told    told

	mu     sync.Mutex
	stream grpc.ClientStream // nil before it is opened
	// refused is why a message did not go out. The stream has been broken off: its peer
	// must not take what went before for all that there was.
	refused error
	stop    func() bool // waiting for a caller that goes away
}

var (
	errNotOpen = errors.New("guardgrpc: the call has not sent its message")
	errGivenUp = errors.New("the call was given up")
)

// opened is the stream, which is opened where it was not.
func (s *sending) opened() (grpc.ClientStream, error) {
	stream, err := s.current()
	if !errors.Is(err, errNotOpen) {
		return stream, err
	}
	if stream, err = s.open(); err != nil {
		s.end(err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = stream
	// A caller that goes away reads no end. The stream's own context ends before the
	// end of the stream is read.
	s.stop = context.AfterFunc(s.ctx, func() { s.told.end(errGivenUp) })
	return stream, nil
}

// current is the stream as far as it may be used.
func (s *sending) current() (grpc.ClientStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refused != nil:
		return nil, s.refused
	case s.stream == nil:
		return nil, errNotOpen
	}
	return s.stream, nil
}

// end tells what became of the stream, of which nothing is left then.
func (s *sending) end(failed error) {
	s.told.end(failed)
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.cancel()
}

// SendMsg implements [grpc.ClientStream].
func (s *sending) SendMsg(m any) error {
	if _, err := s.current(); err != nil && !errors.Is(err, errNotOpen) {
		return err
	}
	s.told.done()
	d, err := s.guard.check(s.ctx, s.method, m)
	if err != nil {
		s.mu.Lock()
		s.refused = err
		s.mu.Unlock()
		s.end(err)
		return err
	}
	s.told.next(d)
	stream, err := s.opened()
	if err != nil {
		return err
	}
	if err = stream.SendMsg(m); err != nil && !errors.Is(err, io.EOF) {
		s.end(err) // of another end the reader is told
	}
	return err
}

// RecvMsg implements [grpc.ClientStream].
func (s *sending) RecvMsg(m any) error {
	stream, err := s.current()
	if err != nil {
		return err
	}
	err = stream.RecvMsg(m)
	if _, refused := s.current(); refused != nil {
		return refused
	}
	if err != nil || !s.answers {
		s.end(err)
	}
	return err
}

// CloseSend implements [grpc.ClientStream].
func (s *sending) CloseSend() error {
	stream, err := s.current()
	if err != nil {
		return err
	}
	return stream.CloseSend()
}

// Header implements [grpc.ClientStream].
func (s *sending) Header() (metadata.MD, error) {
	stream, err := s.current()
	if err != nil {
		return nil, err
	}
	return stream.Header()
}

// Trailer implements [grpc.ClientStream].
func (s *sending) Trailer() metadata.MD {
	stream, err := s.current()
	if err != nil {
		return nil
	}
	return stream.Trailer()
}

// Context implements [grpc.ClientStream].
func (s *sending) Context() context.Context {
	stream, err := s.current()
	if err != nil {
		return s.ctx
	}
	return stream.Context()
}
