package serve

import (
	"context"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// server serves one front.
type server interface {
	Serve(l net.Listener) error
	// Shutdown takes no more requests, and waits for those under way until ctx ends.
	Shutdown(ctx context.Context) error
	Close() error
}

// serverOf is the server of a front.
func (s Server) serverOf(f Front) server {
	if f.GRPC == nil {
		return s.server(f.Handler)
	}
	return grpcServer{f.GRPC(f.Handler, s.within()...), s.Log}
}

const (
	maxStreams = 250              // of one connection, as in net/http
	minPing    = 10 * time.Second // between pings of a client that keeps its connection alive
)

// within are the limits of gRPC's own transport, which are those of [Server.server].
func (s Server) within() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(uint32(s.Limits.Header)), grpc.ConnectionTimeout(s.Limits.HeaderTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.Limits.IdleTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.InitialWindowSize(int32(receiving.MaxReceiveBufferPerStream)), grpc.InitialConnWindowSize(int32(receiving.MaxReceiveBufferPerConnection)),
	}
}

// grpcServer is a server of gRPC.
type grpcServer struct {
	*grpc.Server
	log *slog.Logger
}

// Serve implements [server].
func (s grpcServer) Serve(l net.Listener) error { return s.Server.Serve(greeted{l, s.log}) }

// Shutdown implements [server].
func (s grpcServer) Shutdown(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [server].
func (s grpcServer) Close() error {
	s.Stop()
	return nil
}
