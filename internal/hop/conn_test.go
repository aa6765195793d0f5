package hop_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/hop"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// twice answers every request twice, in one piece: once as requested, and once with more.
func twice(t *testing.T, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"+string(body)+"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{0}")
			}
		}()
	}
}

// TestATK31_TakenBeforeTheLook holds the transport where it has put a connection back and
// not yet looked whether anything is left on it. Anyone who takes the connection meanwhile
// waits for that, and gets the answer to its own request on another one.
func TestATK31_TakenBeforeTheLook(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		scheme, trusted := "http://", (*tls.Config)(nil)
		address := listener.Addr().String()
		if encrypted {
			model := httptest.NewUnstartedServer(http.NotFoundHandler())
			model.StartTLS()
			defer model.Close()
			trusted = model.Client().Transport.(*http.Transport).TLSClientConfig
			scheme, listener = "https://", tls.NewListener(listener, model.TLS)
		}
		go twice(t, listener)
		transport := &http.Transport{TLSClientConfig: trusted, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return hop.Watch(c), nil
		}}
		defer transport.CloseIdleConnections()
		put, look := make(chan struct{}), make(chan struct{})
		var once, free sync.Once
		send := func(body string, trace *httptrace.ClientTrace) string {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+address, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			hop.Onward(r, []byte(body), false)
			answer, err := hop.Final(r.Context(), transportFunc(func(r *http.Request) (*http.Response, error) {
				return transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
			}), nil).RoundTrip(r)
			if err != nil {
				return err.Error()
			}
			got, _ := io.ReadAll(answer.Body)
			return string(got)
		}
		var all sync.WaitGroup
		all.Go(func() {
			send("{1}", &httptrace.ClientTrace{PutIdleConn: func(error) {
				once.Do(func() { close(put) })
				<-look
			}})
		})
		<-put
		go func() { // a connection that is not settled is written to before that
			<-time.After(200 * time.Millisecond)
			free.Do(func() { close(look) })
		}()
		if got := send("{2}", &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { free.Do(func() { close(look) }) }}); !strings.Contains(got, "{2}") {
			t.Errorf("ATK-31 encrypted %v: the second call got %q", encrypted, got)
		}
		all.Wait()
	}
}

// TestATK31_NobodyWaitsForever gives up a call while its connection is not settled.
func TestATK31_NobodyWaitsForever(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = hop.Final(ctx, transportFunc(func(r *http.Request) (*http.Response, error) {
		cancel()
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: hop.Watch(here), Reused: true})
		return nil, nil
	}), nil).RoundTrip(r)
}

// TestATK31_Alone says which requests have a connection for themselves.
func TestATK31_Alone(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		change       func(*http.Request)
		alone        bool
	}{
		"JSON":                      {http.MethodPost, ` {"a":1}`, nil, false},
		"nothing":                   {http.MethodPost, "", nil, false},
		"a path":                    {http.MethodGet, "", nil, false},
		"what begins as a request":  {http.MethodPost, "GET / HTTP/1.1", nil, true},
		"nothing but space":         {http.MethodPost, "\r\n", nil, true},
		"JSON where no body is":     {http.MethodGet, "{}", nil, true},
		"JSON of what is deleted":   {http.MethodDelete, "{}", nil, true},
		"a length by another name":  {http.MethodPost, "{}", func(r *http.Request) { r.Header["content_Length"] = []string{"2"} }, true},
		"a coding by another name":  {http.MethodPost, "{}", func(r *http.Request) { r.Header["Transfer_encoding"] = []string{"chunked"} }, true},
		"chunks":                    {http.MethodPost, "{}", func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, true},
		"something behind the body": {http.MethodPost, "{}", func(r *http.Request) { r.Trailer = http.Header{"X": nil} }, true},
		"HTTP/1.0":                  {http.MethodPost, "{}", func(r *http.Request) { r.ProtoMinor = 0 }, true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://a/", http.NoBody)
		if c.change != nil {
			c.change(r)
		}
		if hop.Onward(r, []byte(c.body), false); r.Close != c.alone {
			t.Errorf("ATK-31 %s: alone is %v", name, r.Close)
		}
		if hop.Onward(r, []byte(c.body), true); r.Close {
			t.Errorf("ATK-31 %s: alone over HTTP/2", name)
		}
	}
}
