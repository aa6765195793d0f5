// Package serve is the outside of a process that serves: listeners and their limits, TLS files that are read
// again, readiness, telemetry, memory, and the end of connections.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/internal/config"
)

// ListenSocket makes a Unix socket of mode 0600, in a folder that only its owner can
// enter until the socket has that mode. A socket without a listener is replaced.
func ListenSocket(ctx context.Context, name string) (net.Listener, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("socket: %s is something else than a socket; name another file", name)
	default:
		if c, err := (&net.Dialer{}).DialContext(ctx, "unix", name); err == nil {
			return nil, errors.Join(fmt.Errorf("socket: another process answers on %s", name), c.Close())
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), ".pb-*") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = os.Remove(dir) }() // it is empty by then
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its name is about to be another
	if err := errors.Join(os.Chmod(filepath.Join(dir, "s"), 0o600), os.Rename(filepath.Join(dir, "s"), name)); err != nil {
		return nil, fmt.Errorf("socket: %w", errors.Join(err, l.Close(), os.Remove(filepath.Join(dir, "s"))))
	}
	return l, nil
}

// Front is a listener with its handler.
type Front struct {
	Listener net.Listener
	Handler  http.Handler
	Plain    bool // without TLS
	// GRPC has the front served by gRPC's own transport; nil for HTTP. The handler then
	// admits each call before its message is read, and writes no answer.
	GRPC func(admit http.Handler, within ...grpc.ServerOption) *grpc.Server
}

// CloseAll closes the listeners of fronts that were not served.
func CloseAll(fronts []Front) error {
	var err error
	for _, f := range fronts {
		err = errors.Join(err, f.Listener.Close())
	}
	return err
}

// Server holds the settings that all fronts share.
type Server struct {
	Limits        config.Limits
	Notice, Drain time.Duration
	Streams       leaving
	Sources       func() []*Source      // files that are read again
	Reload        func(context.Context) // reads the configuration again; nil where nothing does
	Log           *slog.Logger
}

// leaving is a server with streams, which take their leave.
type leaving interface {
	Drain()
	EndStreams()
}

// Serve serves until ctx ends or one of the fronts fails, which ends all. Meanwhile it
// reads changed files again.
func (s Server) Serve(ctx context.Context, fronts []Front) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	go Reread(ctx, s.Sources, asked, s.Reload, s.Log)
	servers := make([]server, len(fronts))
	failed := make(chan error, len(fronts))
	for n, f := range fronts {
		servers[n] = s.serverOf(f)
		go func() { failed <- servers[n].Serve(f.Listener) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, s.end(servers))
}

// server is one within the configured limits. Streams have no write deadline.
func (s Server) server(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs HTTP/2, and on loopback has no TLS
	return &http.Server{
		Protocols: protocols, HTTP2: receiving, Handler: endAfterChunks(h), MaxHeaderBytes: int(s.Limits.Header), ReadHeaderTimeout: s.Limits.HeaderTime, IdleTimeout: s.Limits.IdleTime,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn), // each line of the log has our form, for programs that read it
	}
}

// endAfterChunks ends the connection after a request of HTTP/1.1 whose body comes in
// chunks, and after each of HTTP/1.0. net/http takes the former by its chunks and
// ignores a Content-Length beside them. It takes the latter by its Content-Length and
// ignores a Transfer-Encoding. A proxy in front may have seen the request end elsewhere.
// The bytes behind it could then be taken for a request that no client sent (RFC 9112,
// section 6.1; ATK-31).
//
// The rest of such a body is not read after the answer: each chunk costs work, and nothing
// on this connection follows it (ATK-80). The client may still be sending, and would lose
// the answer if the connection closed at once.
func endAfterChunks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ends := !r.ProtoAtLeast(1, 1) || r.ProtoMajor < 2 && len(r.TransferEncoding) > 0
		if !ends {
			h.ServeHTTP(w, r)
			return
		}
		body := &watchedBody{ReadCloser: r.Body}
		if r.Body == http.NoBody {
			body.ended.Store(true)
		} else {
			r.Body = body
		}
		w.Header().Set("Connection", "close")
		h.ServeHTTP(w, r)
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // the connection ends in any case
		if !body.ended.Load() {
			partSlowly(w)
		}
	})
}

// partSlowly has net/http wait between its half of the close and the whole. It does so for
// bodies above their limit.
func partSlowly(w http.ResponseWriter) {
	_, _ = io.ReadAll(http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0))
}

// watchedBody knows whether a body was read to its end.
type watchedBody struct {
	io.ReadCloser
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// receiving bounds how much of a request on HTTP/2 comes before a handler asks for it.
// Bodies have 4 MiB at most, and most of them fit into one window.
var receiving = &http.HTTP2Config{MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20}

// lastWords is the time that streams which are ended have to say so.
const lastWords = time.Second

// end ends the servers. At once /readyz says no and new streams are refused, so that
// load balancers learn of it. Then the servers take no new requests, and those under way
// have their time. A stream that is open after that ends with an event that says why.
func (s Server) end(servers []server) error {
	s.Streams.Drain()
	s.Log.Info("ending: no new streams; a second signal ends at once", slog.String("notice", s.Notice.String()), slog.String("drain", s.Drain.String()))
	if s.Notice > 0 {
		<-time.After(s.Notice)
	}
	soft, cancel := context.WithTimeout(context.Background(), s.Drain+lastWords)
	defer cancel()
	last := time.AfterFunc(s.Drain, s.Streams.EndStreams)
	defer last.Stop()
	ended := make(chan error, len(servers))
	for _, one := range servers {
		go func() {
			err := one.Shutdown(soft)
			if err != nil {
				err = errors.Join(fmt.Errorf("calls were cut off after defaults.drain (%s): %w", s.Drain, err), one.Close())
			}
			ended <- err
		}()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
	}
	return err
}

// RunAll serves until ctx ends or one of the fronts fails, which ends all.
func RunAll(ctx context.Context, fronts []Front) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(fronts))
	for _, f := range fronts {
		go func() { ended <- Run(ctx, f.Listener, f.Handler) }()
	}
	var err error
	for range fronts {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}

// Run serves until ctx ends. Streams have no write deadline.
func Run(ctx context.Context, l net.Listener, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs HTTP/2, and on loopback has no TLS
	s := &http.Server{
		Protocols: protocols, HTTP2: receiving, Handler: endAfterChunks(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Calls that are under way get their time; the context that ended is not
	// theirs.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// Loopback reports an address of this machine alone.
func Loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
