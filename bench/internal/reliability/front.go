package reliability

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// front is a balancer: it passes a request to the next backend that says that it is
// ready, and to another one only where a connection could not be made, so that nothing
// is ever sent twice.
type front struct {
	url    string
	server *http.Server
	spread *spread
	leave  context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	backends []string
	ready    map[string]bool
	next     int
	cut      map[string]bool // ids of the keys of gateways that nothing gets through to or from
	mended   chan struct{}   // closed when cut changes
}

// largest is how much of a body a front takes.
const largest = 1 << 20

func newFront(ctx context.Context) (*front, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{url: "http://" + l.Addr().String(), ready: map[string]bool{}, cut: map[string]bool{}, mended: make(chan struct{})}
	f.spread = &spread{f, &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: f.spread,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "backend", p.In.Host
		},
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the trials break connections on purpose
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	f.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := gatewayOf(r); id != "" {
			if !f.reachable(r.Context(), id) {
				return
			}
			w = &gated{ResponseWriter: w, front: f, request: r, gateway: id}
		}
		proxy.ServeHTTP(w, r)
	})}
	ctx, f.leave = context.WithCancel(context.WithoutCancel(ctx))
	f.ended.Go(func() { _ = f.server.Serve(l) }) // until it is closed
	f.ended.Go(func() { f.watch(ctx) })
	return f, nil
}

func (f *front) close() {
	f.leave()
	_ = f.server.Close() // no worker waits for its answers
	f.ended.Wait()
}

// serves sets the backends.
func (f *front) serves(addresses ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = addresses
}

// watch asks the backends whether they are ready.
func (f *front) watch(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 500 * time.Millisecond}
	for pause(ctx, 50*time.Millisecond) {
		f.mu.Lock()
		all := f.backends
		f.mu.Unlock()
		var asked sync.WaitGroup
		for _, address := range all {
			asked.Go(func() {
				err := probe(ctx, client, address)
				f.mu.Lock()
				f.ready[address] = err == nil
				f.mu.Unlock()
			})
		}
		asked.Wait()
	}
}

// order is whom to try, in turn.
func (f *front) order() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	var out []string
	for i := range f.backends {
		if address := f.backends[(f.next+i)%len(f.backends)]; f.ready[address] {
			out = append(out, address)
		}
	}
	return out
}

// spread sends a request to one of the backends.
type spread struct {
	front *front
	to    *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, largest)); err != nil {
			return nil, err
		}
		_ = r.Body.Close() // it was read
	}
	err := errors.New("nobody is ready")
	for _, address := range s.front.order() {
		out := r.Clone(r.Context())
		out.URL.Host, out.Body = address, io.NopCloser(bytes.NewReader(body))
		out.ContentLength = int64(len(body))
		var response *http.Response
		if response, err = s.to.RoundTrip(out); err == nil {
			return response, nil
		}
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			break
		}
	}
	return nil, err
}

// partition has nothing get through between a gateway and the backends, and with on
// false again.
func (f *front) partition(gateway string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[gateway] = on
	close(f.mended)
	f.mended = make(chan struct{})
}

// reachable waits until a gateway is not cut off, and returns false where it gave up.
func (f *front) reachable(ctx context.Context, gateway string) bool {
	for {
		f.mu.Lock()
		cut, mended := f.cut[gateway], f.mended
		f.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-mended:
		case <-ctx.Done():
			return false
		}
	}
}

// gated is an answer to a gateway, which stops while the gateway is cut off: nothing
// is said, as on a line that is down.
type gated struct {
	http.ResponseWriter
	front   *front
	request *http.Request
	gateway string
}

// Write implements [io.Writer].
func (g *gated) Write(b []byte) (int, error) {
	if !g.front.reachable(g.request.Context(), g.gateway) {
		return 0, g.request.Context().Err()
	}
	return g.ResponseWriter.Write(b)
}

// Unwrap lets the answer be flushed.
func (g *gated) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// gatewayOf is the id of the key of the gateway that asks, "" for every other caller:
// its requests carry a statement that the key signed.
func gatewayOf(r *http.Request) string {
	_, compact, _ := strings.Cut(r.Header.Get("Powerbox-Gateway"), " ") // behind the version
	part, _, _ := strings.Cut(compact, ".")
	data, err := base64.RawURLEncoding.DecodeString(part)
	var header struct {
		Kid string `json:"kid"`
	}
	if err != nil || json.Unmarshal(data, &header) != nil {
		return ""
	}
	return header.Kid
}
