package guardgrpc

import (
	"context"
	"errors"

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
	_ = g.Gate.Outcome(ctx, d, failed) // what is not told is unknown, on record
	return failed
}

// open asks about a stream of many messages before it is opened. One with a single
// message is opened when that is known.
func (g *Guard) open(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &sending{guard: g, ctx: ctx, method: method, answers: desc.ServerStreams, told: told{guard: g, ctx: ctx}}
	s.open = func() error {
		stream, err := next(ctx, desc, cc, method, options...)
		if err == nil {
			s.stream = stream
			// A caller that goes away reads no end. The stream's own context ends before
			// the end of the stream is read.
			context.AfterFunc(ctx, func() { s.told.end(errors.New("the call was given up")) })
		}
		return err
	}
	if !desc.ClientStreams {
		return s, nil
	}
	d, err := g.check(ctx, method, nil)
	if err != nil {
		return nil, err
	}
	s.told.opening = []guard.Decision{d}
	if err := s.open(); err != nil {
		s.told.end(err)
		return nil, err
	}
	return s, nil
}

// sending is a stream whose messages are asked about before they go out.
type sending struct {
	guard   *Guard
	ctx     context.Context
	method  string
	answers bool // there can be many
	open    func() error
	stream  grpc.ClientStream // nil before it is opened
	told    told
}

var errNotOpen = errors.New("guardgrpc: the call has not sent its message")

// SendMsg implements [grpc.ClientStream].
func (s *sending) SendMsg(m any) error {
	s.told.done()
	d, err := s.guard.check(s.ctx, s.method, m)
	if err != nil {
		return err
	}
	s.told.next(d)
	if s.stream == nil {
		if err := s.open(); err != nil {
			s.told.end(err)
			return err
		}
	}
	return s.stream.SendMsg(m)
}

// RecvMsg implements [grpc.ClientStream].
func (s *sending) RecvMsg(m any) error {
	if s.stream == nil {
		return errNotOpen
	}
	err := s.stream.RecvMsg(m)
	if err != nil || !s.answers {
		s.told.end(err)
	}
	return err
}

// CloseSend implements [grpc.ClientStream].
func (s *sending) CloseSend() error {
	if s.stream == nil {
		return errNotOpen
	}
	return s.stream.CloseSend()
}

// Header implements [grpc.ClientStream].
func (s *sending) Header() (metadata.MD, error) {
	if s.stream == nil {
		return nil, errNotOpen
	}
	return s.stream.Header()
}

// Trailer implements [grpc.ClientStream].
func (s *sending) Trailer() metadata.MD {
	if s.stream == nil {
		return nil
	}
	return s.stream.Trailer()
}

// Context implements [grpc.ClientStream].
func (s *sending) Context() context.Context {
	if s.stream == nil {
		return s.ctx
	}
	return s.stream.Context()
}
