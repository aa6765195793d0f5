package guardgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// errEnded is how a call ends whose method did not return.
var errEnded = errors.New("the method did not return")

// ServerOptions have a server's methods get what the gate allows, and nothing else.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.serve), grpc.ChainStreamInterceptor(g.serveStream)}
}

func (g *Guard) serve(ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	d, err := g.check(ctx, info.FullMethod, message)
	if err != nil {
		return nil, err
	}
	failed := errEnded
	defer func() { _ = g.Gate.Outcome(ctx, d, failed) }() // an outcome that is not reported is unknown, on record
	answer, err := next(ctx, message)
	failed = err
	return answer, err
}

func (g *Guard) serveStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := stream.Context()
	asked := &asking{ServerStream: stream, guard: g, method: info.FullMethod, told: told{guard: g, ctx: ctx}}
	if info.IsClientStream {
		d, err := g.check(ctx, info.FullMethod, nil)
		if err != nil {
			return err
		}
		asked.told.opening = []guard.Decision{d}
	}
	failed := errEnded
	defer func() { asked.told.end(failed) }()
	err := next(srv, asked)
	if asked.refused != nil {
		err = asked.refused // whatever the method made of it
	}
	failed = err
	return err
}

// asking is a stream whose messages are asked about as they are read, before the
// method has them. Those of a stream with one are read before the method is called.
type asking struct {
	grpc.ServerStream
	guard   *Guard
	method  string
	told    told
	refused error
}

// RecvMsg implements [grpc.ServerStream].
func (s *asking) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	s.told.done()
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	d, err := s.guard.check(s.Context(), s.method, m)
	if err != nil {
		s.refused = err
		return err
	}
	s.told.next(d)
	return nil
}
