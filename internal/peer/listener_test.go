package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// served is a server behind a listener, which answers with the address of its client.
func served(t *testing.T, p *Proxies, most int) string {
	t.Helper()
	s := httptest.NewUnstartedServer(p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, Of(r)) })))
	s.Listener = p.Listener(s.Listener, most, time.Minute)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// say sends bytes on a new connection, and returns the body of the answer. The connection
// stays open until the test ends.
func say(t *testing.T, to, bytes string) (string, error) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return "", errors.New(response.Status)
	}
	return string(body), err
}

const plainRequest = "GET / HTTP/1.1\r\nHost: powerbox.example\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n"

// v2 is the header of version 2 for 203.0.113.7.
const v2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x07\x7f\x00\x00\x01\x12\x34\x21\xfc"

// TestATK66_ProxyProtocolIsReadFromTrustedPeersAlone speaks both versions to a listener.
func TestATK66_ProxyProtocolIsReadFromTrustedPeersAlone(t *testing.T) {
	const v1 = "PROXY TCP4 203.0.113.7 127.0.0.1 4711 8700\r\n"
	trusting := served(t, proxies(t, ProxyProtocol, "127.0.0.0/8"), 100)
	for name, c := range map[string]struct{ to, sent, want string }{
		"version 1":                 {trusting, v1 + plainRequest, "203.0.113.7"},
		"version 2":                 {trusting, v2 + plainRequest, "203.0.113.7"},
		"the proxy itself":          {trusting, "PROXY UNKNOWN\r\n" + plainRequest, "127.0.0.1"},
		"without":                   {trusting, plainRequest, ""},
		"twice":                     {trusting, v1 + v1 + plainRequest, ""},
		"from a peer not trusted":   {served(t, proxies(t, ProxyProtocol, "10.0.0.0/8"), 100), v1 + plainRequest, ""},
		"where headers are read":    {served(t, proxies(t, ForwardedFor, "127.0.0.0/8"), 100), v1 + plainRequest, ""},
		"where nothing is believed": {served(t, nil, 100), v1 + plainRequest, ""},
		"directly":                  {served(t, proxies(t, ProxyProtocol, "10.0.0.0/8"), 100), plainRequest, "127.0.0.1"},
	} {
		if got, err := say(t, c.to, c.sent); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("ATK-66 %s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// TestATK66_ClientsBehindAProxyHaveSharesOfTheConnections counts connections for the
// clients that a proxy names, and none for the proxy.
func TestATK66_ClientsBehindAProxyHaveSharesOfTheConnections(t *testing.T) {
	to := served(t, proxies(t, ProxyProtocol, "127.0.0.0/8"), 2)
	open := func(client string) error {
		_, err := say(t, to, "PROXY TCP4 "+client+" 127.0.0.1 4711 8700\r\n"+plainRequest)
		return err
	}
	for n, c := range []struct {
		client string
		taken  bool
	}{{"203.0.113.7", true}, {"203.0.113.7", true}, {"203.0.113.7", false}, {"203.0.113.8", true}, {"203.0.113.8", true}, {"203.0.113.8", false}} {
		if err := open(c.client); (err == nil) != c.taken {
			t.Errorf("ATK-66 connection %d, of %s: %v; want taken %t", n, c.client, err, c.taken)
		}
	}
}

// TestATK66_ASilentProxyHoldsUpNobody: a connection on which a proxy names no client keeps
// no other connection waiting.
func TestATK66_ASilentProxyHoldsUpNobody(t *testing.T) {
	to := served(t, proxies(t, ProxyProtocol, "127.0.0.0/8"), 2)
	for range 3 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if got, err := say(t, to, v2+plainRequest); got != "203.0.113.7" {
		t.Errorf("ATK-66 %q, %v", got, err)
	}
}

// TestATK66_PlacesComeBack gives the place of a closed connection to the next.
func TestATK66_PlacesComeBack(t *testing.T) {
	p := proxies(t, ProxyProtocol, "127.0.0.0/8")
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	l := p.Listener(inner, 1, time.Minute)
	for n := range 3 {
		out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, v2+"x"); err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Read(make([]byte, 1)); err != nil {
			t.Errorf("ATK-66 connection %d: %v", n, err)
		}
		_ = in.Close()
		_ = in.Close() // twice gives one place back
		_ = out.Close()
	}
	if n := len(l.(*listener).open); n != 0 {
		t.Errorf("ATK-66: %d clients are counted with no connection open", n)
	}
}
