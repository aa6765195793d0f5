package peer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func proxies(t *testing.T, way string, trusted ...string) *Proxies {
	t.Helper()
	p, err := New(trusted, way)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read sends a request through the handler and returns what it found.
func read(p *Proxies, remote, host string, header ...string) (out Address) {
	r := httptest.NewRequest(http.MethodGet, "http://powerbox.example/", nil)
	r.RemoteAddr, r.Host = remote, host
	for n := 0; n < len(header); n += 2 {
		r.Header.Add(header[n], header[n+1])
	}
	p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { out = Of(r) })).ServeHTTP(httptest.NewRecorder(), r)
	return out
}

// TestATK66_AddressBehindProxies reads the address that the rightmost proxy which is not
// trusted had, or that the client had, and nothing that the client wrote.
func TestATK66_AddressBehindProxies(t *testing.T) {
	const xff, fwd, proxy, client = "X-Forwarded-For", "Forwarded", "10.0.0.1:5000", "203.0.113.7"
	for _, c := range []struct {
		name, way, remote string
		header            []string
		want, shown       string
	}{
		{"the one proxy", ForwardedFor, proxy, []string{xff, client}, client, client},
		{"what the client wrote before", ForwardedFor, proxy, []string{xff, "198.51.100.1, " + client}, client, client},
		{"in two headers", ForwardedFor, proxy, []string{xff, "198.51.100.1", xff, client}, client, client},
		{"two proxies", ForwardedFor, proxy, []string{xff, "198.51.100.1, " + client + ", 10.0.0.9"}, client, client},
		{"all are proxies", ForwardedFor, proxy, []string{xff, "10.0.0.8, 10.0.0.9"}, "10.0.0.8", "10.0.0.8"},
		{"with a port", ForwardedFor, proxy, []string{xff, client + ":4711"}, client, client},
		{"IPv6", ForwardedFor, proxy, []string{xff, "2001:db8::7"}, "2001:db8::7", "2001:db8::7"},
		{"IPv6 with a port", ForwardedFor, proxy, []string{xff, "[2001:db8::7]:4711"}, "2001:db8::7", "2001:db8::7"},
		{"IPv4 in IPv6", ForwardedFor, "[::ffff:10.0.0.1]:5000", []string{xff, "::ffff:" + client}, client, client},
		{"the other header is the client's", ForwardedFor, proxy, []string{xff, client, fwd, "for=198.51.100.1"}, client, client},
		{"the other header alone", ForwardedFor, proxy, []string{fwd, "for=198.51.100.1"}, "10.0.0.1", ""},
		{"no header", ForwardedFor, proxy, nil, "10.0.0.1", ""},
		{"what cannot be read", ForwardedFor, proxy, []string{xff, client + ", unknown"}, "10.0.0.1", ""},
		{"an empty element", ForwardedFor, proxy, []string{xff, client + ","}, "10.0.0.1", ""},
		{"what cannot be read before a proxy", ForwardedFor, proxy, []string{xff, "unknown, 10.0.0.9"}, "10.0.0.9", ""},
		{"Forwarded", Forwarded, proxy, []string{fwd, "for=198.51.100.1, for=" + client + ";proto=https"}, client, client},
		{"Forwarded, quoted", Forwarded, proxy, []string{fwd, `proto=https;For="[2001:db8::7]:4711"`}, "2001:db8::7", "2001:db8::7"},
		{"Forwarded, a separator in quotes", Forwarded, proxy, []string{fwd, `for=198.51.100.1;by="a,for=198.51.100.2", for=` + client}, client, client},
		{"Forwarded, hidden", Forwarded, proxy, []string{fwd, "for=198.51.100.1, for=_hidden"}, "10.0.0.1", ""},
		{"Forwarded, without for", Forwarded, proxy, []string{fwd, "for=198.51.100.1, proto=https"}, "10.0.0.1", ""},
		{"Forwarded, twice for", Forwarded, proxy, []string{fwd, "for=198.51.100.1;for=" + client}, "10.0.0.1", ""},
		{"Forwarded, an open quote", Forwarded, proxy, []string{fwd, `for="198.51.100.1, for=` + client}, "10.0.0.1", ""},
		{"Forwarded, the other header", Forwarded, proxy, []string{xff, "198.51.100.1"}, "10.0.0.1", ""},
		{"PROXY said it", ProxyProtocol, client + ":4711", nil, client, client},
		{"PROXY, with a header of the client's", ProxyProtocol, client + ":4711", []string{xff, "198.51.100.1", fwd, "for=198.51.100.1"}, client, ""},
		{"PROXY, the proxy itself", ProxyProtocol, proxy, []string{xff, "198.51.100.1"}, "10.0.0.1", ""},
		{"nobody in between", ForwardedFor, client + ":4711", nil, client, client},
		{"a peer that is not trusted", ForwardedFor, "192.0.2.1:4711", []string{xff, client}, "192.0.2.1", ""},
		{"a peer that is not trusted, Forwarded", Forwarded, "192.0.2.1:4711", []string{fwd, "for=" + client}, "192.0.2.1", ""},
		{"a proxy on this machine that says nothing", ForwardedFor, "127.0.0.1:4711", nil, "127.0.0.1", ""},
	} {
		if got := read(proxies(t, c.way, "10.0.0.0/8"), c.remote, "powerbox.example", c.header...); got.String() != c.want || got.Shown() != c.shown {
			t.Errorf("ATK-66 %s: %q, shown %q; want %q, shown %q", c.name, got, got.Shown(), c.want, c.shown)
		}
	}
	for _, host := range []string{"localhost:8700", "127.0.0.1:8700", "[::1]:8700", "powerbox.localhost"} {
		if got := read(nil, "127.0.0.1:4711", host); got.Shown() != "127.0.0.1" {
			t.Errorf("ATK-66 a browser on this machine at %s: shown %q", host, got.Shown())
		}
	}
}

// TestATK66_WhatAClientSaysNeverEmptiesARecord: a client that pretends to come through a
// proxy is recorded with the address of its connection.
func TestATK66_WhatAClientSaysNeverEmptiesARecord(t *testing.T) {
	p := proxies(t, ForwardedFor, "10.0.0.1")
	if got := read(p, "192.0.2.1:1", "powerbox.example", "X-Forwarded-For", "203.0.113.7", "Via", "1.1 x").Recorded(); got != "192.0.2.1" {
		t.Errorf("ATK-66 recorded %q; want the address of the connection", got)
	}
	if got := read(p, "10.0.0.1:1", "powerbox.example").Recorded(); got != "" {
		t.Errorf("ATK-66 recorded %q for a proxy that named no client; want nothing", got)
	}
}

func TestATK66_NetworksOfClients(t *testing.T) {
	for remote, want := range map[string]string{
		"203.0.113.7:1": "203.0.113.7", "[::ffff:203.0.113.7]:1": "203.0.113.7", "[2001:db8:1:2::1%eth0]:1": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::9]:1": "2001:db8:1:2::/64", "@": "@",
	} {
		if got := read(nil, remote, "powerbox.example").Network(); got != want {
			t.Errorf("%s: network %q; want %q", remote, got, want)
		}
	}
}

// TestATK66_HopsAreBounded: a header of very many trusted hops costs little and names
// no address behind the bound.
func TestATK66_HopsAreBounded(t *testing.T) {
	long := "203.0.113.7" + strings.Repeat(", 10.0.0.2", maxHops)
	if got := read(proxies(t, ForwardedFor, "10.0.0.0/8"), "10.0.0.1:1", "powerbox.example", "X-Forwarded-For", long); got.String() != "10.0.0.2" || got.Shown() != "" {
		t.Errorf("ATK-66: %q, shown %q", got, got.Shown())
	}
}

func TestNetworksAreRefused(t *testing.T) {
	for _, bad := range []string{"", "proxy.example", "10.0.0.1/8", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "fe80::1%eth0", "10.0.0.0/33"} {
		if _, err := New([]string{bad}, ForwardedFor); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: %v; want an error that names it", bad, err)
		}
	}
	if _, err := New(nil, "x-real-ip"); err == nil || !strings.Contains(err.Error(), "want x-forwarded-for") {
		t.Errorf("an unknown way: %v", err)
	}
}
