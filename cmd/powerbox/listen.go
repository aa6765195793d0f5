package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// front is a listener with what answers on it.
type front struct {
	listener net.Listener
	handler  http.Handler
	plain    bool // without TLS
}

// listen opens the addresses of the agents that take gRPC, and puts TLS on all
// of them and on the main one. After an error none of them is open.
func (i *instance) listen(ctx context.Context, main net.Listener, log *slog.Logger) ([]front, error) {
	fronts := []front{{listener: main, handler: guardHosts(main.Addr(), i.handler, i.config.Issuer.URL)}}
	for _, g := range i.grpc {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("agents, %s, grpc.listen: %w", g.agent, err), closeAll(fronts))
		}
		fronts = append(fronts, front{listener: l, handler: guardHosts(l.Addr(), g.handler, g.address)})
	}
	if i.config.Telemetry.Listen != "" {
		f, err := listenTelemetry(ctx, i.telemetry, i.config.Telemetry.Listen, log)
		if err != nil {
			return nil, errors.Join(err, closeAll(fronts))
		}
		fronts = append(fronts, f)
	}
	settings, err := newListenerTLS("issuer.tls", i.config.Issuer.TLS)
	if err != nil {
		return nil, errors.Join(err, closeAll(fronts))
	}
	if settings != nil {
		i.rereads.add(settings.source)
	}
	proxies, err := proxiesOf(i.config.Proxies)
	if err != nil {
		return nil, errors.Join(err, closeAll(fronts))
	}
	for n, f := range fronts {
		if f.plain {
			fronts[n].listener = limited(f.listener, nil, i.config.Limits)
			continue
		}
		fronts[n].listener, fronts[n].handler = limited(shedding(f.listener, settings != nil, log), proxies, i.config.Limits), proxies.Handler(f.handler)
		if n > 0 {
			fronts[n].listener = settings.on(fronts[n].listener, "h2")
		} else {
			fronts[n].listener = settings.on(fronts[n].listener)
		}
	}
	return fronts, nil
}

func closeAll(fronts []front) error {
	var err error
	for _, f := range fronts {
		err = errors.Join(err, f.listener.Close())
	}
	return err
}

// serving is what fronts are served with.
type serving struct {
	limits        config.Limits
	notice, drain time.Duration
	streams       leaving
	sources       func() []*source      // files that are read again
	reload        func(context.Context) // reads the configuration again; nil where nothing does
	log           *slog.Logger
}

// leaving is what has streams, which take their leave.
type leaving interface {
	Drain()
	EndStreams()
}

// serving is how the server serves.
func (i *instance) serving(log *slog.Logger) serving {
	c := i.config
	return serving{
		limits: c.Limits, notice: c.Defaults.DrainNotice, drain: c.Defaults.Drain, streams: i.gateway,
		sources: i.rereads.all, reload: i.reloads.told, log: log,
	}
}

// all serves until ctx ends or one of the fronts fails, which ends all. What is
// read from files is read again meanwhile.
func (s serving) all(ctx context.Context, fronts []front) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	go reread(ctx, s.sources, asked, s.reload, s.log)
	servers := make([]*http.Server, len(fronts))
	failed := make(chan error, len(fronts))
	for n, f := range fronts {
		servers[n] = s.server(f.handler)
		go func() { failed <- servers[n].Serve(f.listener) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, s.end(servers))
}

// server is one within the configured limits. Streams have no write deadline.
func (s serving) server(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs HTTP/2, and on loopback has no TLS
	return &http.Server{
		Protocols: protocols, HTTP2: receiving, Handler: endAfterChunks(h), MaxHeaderBytes: int(s.limits.Header), ReadHeaderTimeout: s.limits.HeaderTime, IdleTimeout: s.limits.IdleTime,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), // each line of the log is one of ours, for whoever reads it by machine
	}
}

// endAfterChunks ends the connection after a request of HTTP/1.1 whose body comes
// in chunks, and after each of HTTP/1.0. net/http takes the former by its chunks and
// forgets that there was a Content-Length, too, and the latter by its Content-Length,
// and forgets that there was a Transfer-Encoding. A proxy in front may have seen
// the request end elsewhere: what stands behind it is then somebody's idea of a next
// request and nobody's request (RFC 9112, section 6.1; ATK-31).
//
// The rest of such a body is not read after the answer: each chunk costs work, and nothing
// on this connection follows it (ATK-80).
func endAfterChunks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ends := !r.ProtoAtLeast(1, 1) || r.ProtoMajor < 2 && len(r.TransferEncoding) > 0
		if ends {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
		if ends {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // the connection ends in any case
		}
	})
}

// receiving bounds how much of a request on HTTP/2 comes before a handler asks for it.
// Bodies have 4 MiB at most, and most of them fit into one window.
var receiving = &http.HTTP2Config{MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20}

// lastWords is the time that streams which are ended have to say so.
const lastWords = time.Second

// end ends the servers: /readyz says no and new streams are refused at once,
// while whoever sends calls here learns of it; then nothing new is taken, and
// what is under way has its time. A stream that is open after that ends with an
// event that says why.
func (s serving) end(servers []*http.Server) error {
	s.streams.Drain()
	s.log.Info("ending: no new streams; a second signal ends at once", slog.String("notice", s.notice.String()), slog.String("drain", s.drain.String()))
	if s.notice > 0 {
		<-time.After(s.notice)
	}
	soft, cancel := context.WithTimeout(context.Background(), s.drain+lastWords)
	defer cancel()
	last := time.AfterFunc(s.drain, s.streams.EndStreams)
	defer last.Stop()
	ended := make(chan error, len(servers))
	for _, one := range servers {
		go func() {
			err := one.Shutdown(soft)
			if err != nil {
				err = errors.Join(fmt.Errorf("calls were cut off after defaults.drain (%s): %w", s.drain, err), one.Close())
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

// runAll serves until ctx ends or one of the fronts fails, which ends all.
func runAll(ctx context.Context, fronts []front) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(fronts))
	for _, f := range fronts {
		go func() { ended <- run(ctx, f.listener, f.handler) }()
	}
	var err error
	for range fronts {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}

// run serves until ctx ends. Streams have no write deadline.
func run(ctx context.Context, l net.Listener, h http.Handler) error {
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
