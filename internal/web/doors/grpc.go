package doors

import (
	"context"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime/debug"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/powerbox-project/powerbox/internal/peer"
)

// A door that takes gRPC alone is served by gRPC's own transport. net/http's HTTP/2 hands a
// call from one goroutine to the next and writes each part of an answer separately, which
// costs processor time and waiting.

// workers is how many goroutines are kept for calls, so that their stacks have grown
// already. More calls at a time get new goroutines.
const workers = 16

// grpcServer answers by gRPC, once current says that this node may decide.
func (d *Door) grpcServer(current func(context.Context) error, more ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(more,
		grpc.NumStreamWorkers(workers),
		grpc.MaxRecvMsgSize(d.BodyLimit+1<<20),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (a any, err error) {
			if a, ok := ctx.Value(admissionKey{}).(*admission); ok {
				ctx = a.ctx // the message is here
			}
			defer d.recovered(ctx, &err)
			if err := current(ctx); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}),
		grpc.ChainStreamInterceptor(func(of any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer d.recovered(s.Context(), &err)
			if err := current(s.Context()); err != nil {
				return err
			}
			return next(of, s)
		}))...)
	auth.RegisterAuthorizationServer(server, checks{d})
	proc.RegisterExternalProcessorServer(server, processes{d})
	return server
}

// recovered has a panic end its call alone, as net/http does.
func (d *Door) recovered(ctx context.Context, err *error) {
	if why := recover(); why != nil {
		d.Log.ErrorContext(ctx, "a question of a proxy ended in a panic", slog.String("door", d.Name), slog.Any("panic", why), slog.String("stack", string(debug.Stack())))
		*err = status.Error(codes.Internal, "the question could not be answered")
	}
}

// current waits until this node knows what others have written.
func (d *Door) current(ctx context.Context) error {
	if d.Current != nil && d.Current(ctx) != nil {
		return status.Error(codes.Unavailable, "the store does not answer, so that nothing can be decided now; try again")
	}
	return nil
}

// admission is what became of a call at Admit.
type admission struct {
	ctx  context.Context
	late context.CancelFunc // of the time in which its message has to come
}

type admissionKey struct{}

// Admit is the handler of a call whose message was not read: it looks for the proxy's
// token. What stands before it, such as the reading of addresses, holds for [Door.GRPC] too.
func (d *Door) Admit() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(admissionKey{}).(*admission); ok && d.mayAsk(r) {
			a.ctx = r.Context()
		}
	})
}

// GRPC serves the door by gRPC's own transport. Each call goes through admit first, which
// ends in [Door.Admit], before its message is read.
func (d *Door) GRPC(admit http.Handler, more ...grpc.ServerOption) *grpc.Server {
	return d.grpcServer(d.current, append(more, grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		a := &admission{}
		admit.ServeHTTP(unread{}, requestOf(context.WithValue(ctx, admissionKey{}, a), call.FullMethodName, call.Header))
		if a.ctx == nil {
			return nil, status.Error(codes.Unauthenticated, wantsToken)
		}
		if call.FullMethodName == proc.ExternalProcessor_Process_FullMethodName {
			return a.ctx, nil // it lasts as long as the request that it is about
		}
		ctx, a.late = context.WithTimeout(a.ctx, d.BodyTime) //nolint:gosec // ends with the call, too
		return ctx, nil
	}))...)
}

// wantsToken is what others are told than the proxy.
const wantsToken = "this door answers the proxy that shows its token in " + HeaderToken

// unread discards the answer of [Door.Admit].
type unread struct{}

// Header implements [http.ResponseWriter].
func (unread) Header() http.Header { return http.Header{} }

// WriteHeader implements [http.ResponseWriter].
func (unread) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (unread) Write(p []byte) (int, error) { return len(p), nil }

// requestOf is a call of gRPC as a request without a body.
func requestOf(ctx context.Context, method string, from metadata.MD) *http.Request {
	h := make(http.Header, len(from))
	for name, values := range from {
		if name != "" && name[0] != ':' {
			h[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Proto: "HTTP/2.0", ProtoMajor: 2, Header: h, Body: http.NoBody}
	if host := from[":authority"]; len(host) > 0 {
		r.Host = host[0]
	}
	r = r.WithContext(ctx)
	if p, ok := grpcpeer.FromContext(ctx); ok {
		r = peer.From(r, p.Addr)
	}
	return r
}
