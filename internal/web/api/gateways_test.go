package api

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

func key(t *testing.T, b byte) signed.Key {
	t.Helper()
	k, err := signed.NewKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A request is a gateway's only as it signed it, just now, while it is open.
func TestATK20_RequestsOfGateways(t *testing.T) {
	const url = "https://powerbox.example"
	open, closed := key(t, 1), key(t, 2)
	g := &Gateways{URL: url, Now: func() time.Time { return noon }, known: []issuer.Gateway{
		{ID: "gw_closed", Agent: "mail", Key: closed.Public(), Closed: noon.Add(-time.Hour)},
		{ID: "gw_open", Agent: "documents", Key: open.Public()},
	}}
	request := func(k signed.Key, at time.Time, server, body string) *http.Request {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, url+link.PathTasks+"?x=1", strings.NewReader(body))
		c := link.Client{Server: server, Key: k, Now: func() time.Time { return at }}
		if err := c.Sign(r, []byte(body)); err != nil {
			t.Fatal(err)
		}
		return r
	}
	good := func() *http.Request { return request(open, noon, url, "{}") }
	if of, ok := g.Authenticate(good(), []byte("{}"), link.Scheme); !ok || of.ID != "gw_open" {
		t.Fatalf("a good one: %+v %t", of, ok)
	}
	changed := func(change func(*http.Request)) *http.Request { r := good(); change(r); return r }
	for name, r := range map[string]*http.Request{
		"of a closed gateway": request(closed, noon, url, "{}"),
		"of nobody":           request(key(t, 3), noon, url, "{}"),
		"for another server":  request(open, noon, "https://other.example", "{}"),
		"with another body":   request(open, noon, url, "[]"),
		"too old":             request(open, noon.Add(-61*time.Second), url, "{}"),
		"of the future":       request(open, noon.Add(61*time.Second), url, "{}"),
		"to another path":     changed(func(r *http.Request) { r.URL.Path = link.PathShip }),
		"with another query":  changed(func(r *http.Request) { r.URL.RawQuery = "" }),
		"by another method":   changed(func(r *http.Request) { r.Method = http.MethodGet }),
		"without a statement": changed(func(r *http.Request) { r.Header.Del(link.HeaderGateway) }),
		"without its scheme": changed(func(r *http.Request) {
			r.Header.Set(link.HeaderGateway, strings.TrimPrefix(r.Header.Get(link.HeaderGateway), link.Scheme))
		}),
	} {
		if of, ok := g.Authenticate(r, []byte("{}"), link.Scheme); ok {
			t.Errorf("ATK-20 %s: it is %s", name, of.ID)
		}
	}
}

// Proofs of callers are remembered beside those of capabilities, for as long as the
// window that is configured for them lets them be repeated, and not from before the
// server began to remember.
func TestATK20_ProofsOfCallersAtGateways(t *testing.T) {
	g := &Gateways{Now: func() time.Time { return noon }, Began: noon.Add(-time.Second), Used: gate.NewMemory(8), ProofWindow: 5 * time.Minute}
	for _, c := range []struct {
		session bool
		until   time.Duration
		fresh   bool
	}{
		{true, 5*time.Minute + time.Second, true},
		{true, 5*time.Minute + time.Second, false}, // again
		{true, 5*time.Minute - time.Second, false}, // of before it began
		{true, 16 * time.Minute, false},
		{false, 31 * time.Second, true}, // another kind
		{false, 31 * time.Second, false},
		{false, 5*time.Minute + time.Second, false},
	} {
		body := fmt.Appendf(nil, `{"id":"x","until":%d,"session":%t}`, noon.Add(c.until).Unix(), c.session)
		a, err := g.proof(nil, issuer.Gateway{Agent: "documents"}, body)
		if got := a.(link.ProofAnswer); err != nil || got.Fresh != c.fresh {
			t.Errorf("ATK-20 %+v: %+v %v", c, got, err)
		}
	}
}

// A proof is used once at all gateways together, also one whose time is past by
// the clock here, as that of theirs may be behind.
func TestATK20_ProofsOfGatewaysThatAreBehind(t *testing.T) {
	g := &Gateways{Now: func() time.Time { return noon }, Began: noon.Add(-time.Hour), Used: gate.NewMemory(8)}
	for until, want := range map[time.Duration][2]bool{-4 * time.Second: {}, 0: {}, 4 * time.Second: {true, false}} {
		for n, fresh := range want {
			body := fmt.Appendf(nil, `{"id":"%d","until":%d}`, until, noon.Add(until).Unix())
			a, err := g.proof(nil, issuer.Gateway{Agent: "documents"}, body)
			if got := a.(link.ProofAnswer); err != nil || got.Fresh != fresh {
				t.Errorf("ATK-20 until %v, time %d: %+v %v; want %t", until, n, got, err, fresh)
			}
		}
	}
}
