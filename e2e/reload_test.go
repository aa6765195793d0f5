package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// dialTLS makes its own connection and tells who answers it.
func dialTLS(t *testing.T, w *town, settings *tls.Config) (*tls.Conn, error) {
	t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "https://"), settings)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	// A refused certificate is told with the first answer.
	fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimPrefix(w.url, "https://"))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return c, r.Body.Close()
}

// TestTLSIsReadAgain renews the server's certificate and the authorities for
// clients while connections are open: they stay, new ones see the new files, and
// files that are broken change nothing and are told of.
func TestTLSIsReadAgain(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	cert, key, _ := old.issue(x509.ExtKeyUsageServerAuth)
	_, _, oldClient := old.issue(x509.ExtKeyUsageClientAuth)
	_, _, newClient := renewed.issue(x509.ExtKeyUsageClientAuth)
	both := &tls.Config{RootCAs: pool(old.cert, renewed.cert), MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	w := start(t, options{
		scheme: "https", tls: both, issuer: "  tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}",
		files: map[string]string{"server.pem": string(cert), "server.key": string(key), "ca.pem": string(pemOf("CERTIFICATE", old.cert.Raw))},
	})
	as := func(c tls.Certificate) *tls.Config {
		s := both.Clone()
		s.Certificates = []tls.Certificate{c}
		return s
	}
	issuedBy := func(a *authority) func() bool {
		return func() bool {
			c, err := dialTLS(t, w, both)
			return err == nil && c.ConnectionState().PeerCertificates[0].CheckSignatureFrom(a.cert) == nil
		}
	}
	kept, err := dialTLS(t, w, as(oldClient))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialTLS(t, w, as(newClient)); err == nil {
		t.Error("a client of an authority that is not configured was let in")
	}
	// A broken file: the old certificate stays, also when asked to read again.
	w.write("server.pem", "no certificate")
	if err := w.process.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the log tells of the broken file", func() bool { return strings.Contains(w.log.String(), "what was read before stays in use") })
	if !issuedBy(old)() {
		t.Error("a broken file took the old certificate away")
	}
	// The renewed ones.
	cert, key, _ = renewed.issue(x509.ExtKeyUsageServerAuth)
	w.write("server.key", string(key))
	w.write("ca.pem", string(pemOf("CERTIFICATE", renewed.cert.Raw)))
	w.write("server.pem", string(cert))
	becomes(t, "the new certificate is used without a signal", issuedBy(renewed))
	if _, err := dialTLS(t, w, as(newClient)); err != nil {
		t.Errorf("a client of the new authority: %v", err)
	}
	if _, err := dialTLS(t, w, as(oldClient)); err == nil {
		t.Error("a client of the authority that is gone was let in")
	}
	fmt.Fprintf(kept, "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimPrefix(w.url, "https://"))
	if r, err := http.ReadResponse(bufio.NewReader(kept), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("the connection that was open: %v", err)
	}
}

// veiled puts TLS in front of a stock agent, which asks for a certificate of
// the given authority and has its card name it.
type veiled struct {
	url  string
	asks atomic.Pointer[x509.CertPool]
}

func veil(t *testing.T, agent *stock, server tls.Certificate, asks *authority, card func(string) string) *veiled {
	t.Helper()
	v := &veiled{}
	v.asks.Store(pool(asks.cert))
	behind, err := url.Parse(agent.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := func(transport http.RoundTripper) *httputil.ReverseProxy {
		return &httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) },
			ModifyResponse: func(r *http.Response) error {
				if r.Request.Method != http.MethodGet {
					return nil
				}
				body, err := io.ReadAll(r.Body)
				text := card(strings.ReplaceAll(string(body), agent.url, v.url))
				text = strings.ReplaceAll(text, `"`+behind.Host+`"`, `"`+strings.TrimPrefix(v.url, "https://")+`"`)
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
				r.Header.Set("Content-Length", fmt.Sprint(len(text)))
				return err
			},
		}
	}
	one, two := proxy(http.DefaultTransport), proxy(h2.Transport)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			two.ServeHTTP(w, r)
			return
		}
		one.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{
			Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: v.asks.Load(), SessionTicketsDisabled: true, NextProtos: []string{"h2", "http/1.1"},
		}, nil
	}}
	srv.Config.ErrorLog = nil
	// An agent that holds no connection open has every call shake hands.
	srv.Config.SetKeepAlivesEnabled(false)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	v.url = srv.URL
	return v
}

// inTLS has the documents agent reached over TLS from now on.
func (w *town) inTLS(v *veiled, settings string) {
	w.t.Helper()
	w.again(func() {
		w.rewrite("powerbox.yaml", "upstream: "+w.documents.url+"\n", "upstream: "+v.url+"\n    tls: {"+settings+"}\n")
	})
}

// TestUpstreamTLS reaches an agent that asks for a certificate, by every
// binding, and with a renewed one once the agent asks for that.
func TestUpstreamTLS(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}, {overGRPC, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) { tryUpstreamTLS(t, on) })
	}
}

func tryUpstreamTLS(t *testing.T, on wire) {
	ca, renewed := newAuthority(t), newAuthority(t)
	_, _, server := ca.issue(x509.ExtKeyUsageServerAuth)
	cert, key, _ := ca.issue(x509.ExtKeyUsageClientAuth)
	w := start(t, options{on: on, mode: "observe", files: map[string]string{
		"ca.pem": string(pemOf("CERTIFICATE", ca.cert.Raw)), "own.pem": string(cert), "own.key": string(key),
	}})
	v := veil(t, w.documents, server, ca, func(card string) string { return card })
	w.inTLS(v, "ca: ca.pem, certificate: own.pem, key: own.key, server_name: 127.0.0.1")
	call := func() answer { return w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil) }
	allowed(t, call())
	v.asks.Store(pool(renewed.cert))
	if on.binding != overGRPC { // whose connection stays
		if a := call(); a.Error == nil {
			t.Fatalf("the agent asks for another certificate and got the call: %s", a.Raw)
		}
	}
	cert, key, _ = renewed.issue(x509.ExtKeyUsageClientAuth)
	w.write("own.key", string(key))
	w.write("own.pem", string(cert))
	becomes(t, "the renewed certificate is shown", func() bool {
		return strings.Contains(w.log.String(), `"files were read again","setting":"agents, documents, tls"`)
	})
	allowed(t, call())
}

// TestUpstreamTLSIsNotLeft: neither an agent with an untrusted certificate,
// nor a card that names a URL without TLS, gets a call.
func TestUpstreamTLSIsNotLeft(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	_, _, server := ca.issue(x509.ExtKeyUsageServerAuth)
	cert, key, _ := ca.issue(x509.ExtKeyUsageClientAuth)
	files := map[string]string{"ca.pem": string(pemOf("CERTIFICATE", ca.cert.Raw)), "other.pem": string(pemOf("CERTIFICATE", other.cert.Raw)), "own.pem": string(cert), "own.key": string(key)}
	plainly := func(agent string) func(string) string {
		return func(card string) string {
			at, _, _ := strings.Cut(card[strings.Index(card, "https://127.0.0.1:"):], "/invoke")
			return strings.ReplaceAll(card, at+"/invoke", agent+"/invoke")
		}
	}
	for name, c := range map[string]struct {
		settings string
		plain    bool
	}{
		"another authority": {settings: "ca: other.pem, certificate: own.pem, key: own.key"},
		"another name":      {settings: "ca: ca.pem, certificate: own.pem, key: own.key, server_name: other.example"},
		"no certificate":    {settings: "ca: ca.pem"},
		"a plain card":      {settings: "ca: ca.pem, certificate: own.pem, key: own.key", plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, options{mode: "observe", files: files})
			card := func(card string) string { return card }
			if c.plain {
				card = plainly(w.documents.url)
			}
			v := veil(t, w.documents, server, ca, card)
			w.inTLS(v, c.settings)
			if a := w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil); a.reason() != "authorization_unavailable" {
				t.Errorf("%s", a.Raw)
			}
			if n := len(w.documents.got()); n > 0 {
				t.Errorf("%d calls reached the agent", n)
			}
		})
	}
}

// TestDrain tells a server with an open stream to end: /readyz says no while it
// still answers, no stream begins, the open one has its time and ends with an
// event that says why.
func TestDrain(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	w := behind(t, agent.stock, "observe", "defaults: {drain: 1s, drain_notice: 4s}\n")
	stream := w.open("documents", streaming(), nil)
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	becomes(t, "/readyz says no", func() bool {
		r, err := client.Get(w.url + "/readyz")
		if err != nil {
			t.Fatalf("it does not answer any more: %v", err)
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusServiceUnavailable
	})
	if a := w.post(w.agentURL("documents"), streaming(), nil); a.reason() != "server_stopping" || a.Header.Get("Retry-After") == "" {
		t.Errorf("a new stream: %s", a.Raw)
	}
	agent.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if a := w.post(w.agentURL("documents"), data("search_documents", nil), nil); a.Error != nil {
		t.Errorf("another call: %s", a.Raw)
	}
	last := stream.next(patience)
	if !strings.Contains(last, "server_stopping") {
		t.Errorf("the stream ends with %q", last)
	}
	saysThatItPasses(t, last)
	becomes(t, "the server ended", func() bool { return syscall.Kill(w.process.Process.Pid, 0) != nil })
	if _, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://")); err == nil {
		t.Error("it still listens")
	}
}

// saysThatItPasses wants an event that ends a stream for a trouble of ours to say that the task
// continues, and how. The stream's call is a read.
func saysThatItPasses(t *testing.T, last string) {
	t.Helper()
	if !strings.Contains(last, `"retryable":"true"`) || !strings.Contains(last, `"fix":"subscribe to the task again"`) || strings.Contains(last, "the decision is final") {
		t.Errorf("the last event does not lead on: %s", last)
	}
}

// TestSecondSignal ends a server at once that has a minute to drain.
func TestSecondSignal(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	w := behind(t, agent.stock, "observe", "defaults: {drain: 1m}\n")
	w.open("documents", streaming(), nil)
	for range 2 {
		if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		becomes(t, "it drains", func() bool { return strings.Contains(w.log.String(), "a second signal ends at once") })
	}
	becomes(t, "the server ended", func() bool { return syscall.Kill(w.process.Process.Pid, 0) != nil })
}

// TestStreamsOfOneCaller bounds how many streams a caller has open.
func TestStreamsOfOneCaller(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	w := behind(t, agent.stock, "observe", "limits: {streams: 2, header: 4KiB}\n")
	w.open("documents", streaming(), nil)
	w.open("documents", streaming(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a third stream would not end
	defer cancel()
	ask := func(header string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.agentURL("documents"), bytes.NewReader(streaming()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X": {header}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, _ := io.ReadAll(got.Body)
		return got, string(body)
	}
	if a, body := ask(""); !strings.Contains(body, "too_many_streams") || a.Header.Get("Retry-After") == "" {
		t.Errorf("the third: %s", body)
	}
	if got, _ := ask(strings.Repeat("x", 64<<10)); got.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header that is too large: %s", got.Status)
	}
}
