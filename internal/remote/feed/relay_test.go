package feed

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

const relayURL = "https://relay.example"

// relayed is a town with a relay: the publisher, a wire to the relay, the relay,
// a wire from it, and a subscriber that prefers it to the server.
type relayedTown struct {
	*town
	relay *Relay
	from  *wire // of the relay
}

// ways sends requests to the host that they name.
type ways map[string]http.RoundTripper

func (w ways) RoundTrip(r *http.Request) (*http.Response, error) {
	return w[r.URL.Scheme+"://"+r.URL.Host].RoundTrip(r)
}

func newRelayed(t *testing.T, streams int, change ...func(*Config)) *relayedTown {
	t.Helper()
	w := newTown(t)
	r := &relayedTown{town: w}
	c := w.subscriber.config
	var err error
	if r.relay, err = NewRelay(RelayConfig{Upstream: c, Streams: streams}); err != nil {
		t.Fatal(err)
	}
	r.from = &wire{handler: r.relay.Handler()}
	c.Relays, c.Transport = []Relayed{{URL: relayURL}}, ways{server: &wire{handler: w.publisher.Handler()}, relayURL: r.from}
	for _, f := range change {
		f(&c)
	}
	if w.subscriber, err = New(c); err != nil {
		t.Fatal(err)
	}
	return r
}

// follow runs relay and subscriber until the test ends.
func (r *relayedTown) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.relay.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	r.run()
}

func (r *relayedTown) direct() *wire { return r.subscriber.config.Transport.(ways)[server].(*wire) }

func revoke(n int) Event { return Event{Kind: Revoke, Name: fmt.Sprint("cap_", n)} }

func TestATK25_ARelayPassesTheFeedOn(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newRelayed(t, 8)
		w.history.add(revoke(1))
		w.follow()
		s := w.subscriber
		if s.Stale(false) || !s.Revoked("cap_1") || !w.relay.Fresh() || w.relay.Followers() != 1 {
			t.Fatalf("after the snapshot: stale %t\n%s", s.Stale(false), w.log)
		}
		w.history.add(revoke(2))
		synctest.Wait()
		if !s.Revoked("cap_2") || w.relay.Sequence() != 2 {
			t.Errorf("an event is not passed on\n%s", w.log)
		}
		after(10 * time.Minute)
		if s.Stale(false) || len(w.direct().paths) != 0 || len(w.from.paths) != 2 {
			t.Errorf("stale %t after heartbeats alone; the relay was asked for %v, the server for %v\n%s", s.Stale(false), w.from.paths, w.direct().paths, w.log)
		}
		// Who was away for a moment continues where it was, and who was longer reads the
		// snapshot.
		for _, away := range []time.Duration{time.Second, time.Minute} {
			w.history.add(revoke(3))
			after(away)
			code, body := w.ask(PathEvents + "?after=2")
			want := map[time.Duration]int{time.Second: http.StatusOK, time.Minute: http.StatusGone}[away]
			if code != want || want == http.StatusOK && !strings.HasPrefix(body, "event: event\nid: 3\n") {
				t.Errorf("after %v: %d %q; want %d", away, code, body, want)
			}
		}
	})
}

// ask asks the relay, and returns what comes at once.
func (r *relayedTown) ask(path string) (int, string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer synctest.Wait()
	defer cancel()
	u, _ := url.Parse(relayURL + path)
	response, err := r.from.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx))
	if err != nil {
		r.t.Fatal(err)
	}
	piece := make([]byte, 1<<16)
	n, _ := response.Body.Read(piece)
	return response.StatusCode, string(piece[:n])
}

// TestATK25_ARelayThatLiesIsLeft: after any change that a relay makes to the feed,
// its follower continues at the server, knows all revocations, and is never stale.
func TestATK25_ARelayThatLiesIsLeft(t *testing.T) {
	event := func(line string) bool { return strings.HasPrefix(line, "event: event\n") }
	var kept string
	for name, lie := range map[string]func(line string) []string{
		"leaves events out": func(line string) []string {
			if event(line) {
				return nil
			}
			return []string{line}
		},
		"changes events": func(line string) []string {
			if event(line) {
				line = strings.Replace(line, "data: eyJ", "data: eyK", 1)
			}
			return []string{line}
		},
		"signs by itself": func(string) []string {
			compact, _ := key(t, 9).Sign(TypeHeartbeat, Statement{Issuer: server, Time: now().UnixMilli()})
			return []string{"event: heartbeat\ndata: " + compact + "\n\n"}
		},
		"repeats itself": func(line string) []string {
			if kept == "" {
				kept = line
			}
			return []string{kept}
		},
		"says nothing":  func(string) []string { return nil },
		"says too much": func(string) []string { return []string{"data: " + strings.Repeat("x", 2<<20) + "\n\n"} },
	} {
		in(t, func(t *testing.T) {
			kept = ""
			w := newRelayed(t, 8)
			w.history.add(revoke(1))
			w.follow()
			w.from.set(func(x *wire) { x.change = lie })
			after(5 * time.Second)
			w.history.add(revoke(2))
			stale := 0
			for range 40 {
				after(time.Second)
				if w.subscriber.Stale(false) {
					stale++
				}
			}
			if !w.subscriber.Revoked("cap_2") || stale > 0 || len(w.direct().paths) == 0 {
				t.Errorf("a relay that %s: revoked %t, stale for %d s, the server asked for %v\n%s", name, w.subscriber.Revoked("cap_2"), stale, w.direct().paths, w.log)
			}
			// An honest one is preferred again.
			w.from.set(func(x *wire) { x.change, x.paths = nil, nil })
			after(returnAfter + time.Minute)
			if len(w.from.paths) == 0 || w.subscriber.at.Load() != 0 || w.subscriber.Stale(false) {
				t.Errorf("a relay that %s: it is not tried again: %v\n%s", name, w.from.paths, w.log)
			}
		})
	}
}

// TestATK25_NothingButALyingRelay: where the server cannot be reached, a relay that
// holds back has its followers deny when the lease is over.
func TestATK25_NothingButALyingRelay(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newRelayed(t, 8)
		w.follow()
		w.direct().set(func(x *wire) { x.cut = true })
		last := ""
		w.from.set(func(x *wire) {
			x.change = func(line string) []string {
				if last == "" {
					last = line
				}
				return []string{last}
			}
		})
		after(5 * time.Second)
		w.history.add(revoke(1))
		after(MaxLease)
		if !w.subscriber.Stale(false) || !w.subscriber.Stale(true) {
			t.Errorf("fresh on repeated statements\n%s", w.log)
		}
	})
}

func TestBoundsOfARelay(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newRelayed(t, 2)
		if code, _ := w.ask(PathEvents + "?after=0"); code != http.StatusServiceUnavailable {
			t.Errorf("before anything is known: %d", code)
		}
		w.history.add(revoke(1))
		w.follow() // one stream
		for path, want := range map[string]int{
			PathEvents: 400, PathEvents + "?after=-1": 400, PathEvents + "?after=1": 200, PathEvents + "?after=2": 503, PathSnapshot: 200,
		} {
			if code, body := w.ask(path); code != want {
				t.Errorf("%s: %d %s; want %d", path, code, body, want)
			}
		}
		// A follower that does not read is dropped, and delays no other follower.
		ctx, cancel := context.WithCancel(t.Context())
		u, _ := url.Parse(relayURL + PathEvents + "?after=1")
		if _, err := w.from.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx)); err != nil {
			t.Fatal(err)
		}
		if code, _ := w.ask(PathEvents + "?after=1"); code != http.StatusServiceUnavailable {
			t.Errorf("a stream too many: %d", code)
		}
		for i := range 2 * relayQueue {
			w.history.add(revoke(i + 2))
			synctest.Wait()
		}
		if w.relay.Followers() != 1 || w.subscriber.RevocationSequence() != 2*relayQueue+1 {
			t.Errorf("%d followers, the other one at %d\n%s", w.relay.Followers(), w.subscriber.RevocationSequence(), w.log)
		}
		cancel()
		// A snapshot that does not hold is not passed on.
		after(2 * snapshotLife)
		forged, _ := key(t, 9).Sign(TypeSnapshot, Statement{Issuer: server, Time: now().UnixMilli(), Sequence: 1 << 20})
		w.wire.set(func(x *wire) { x.change = func(string) []string { return []string{forged} } })
		if code, _ := w.ask(PathSnapshot); code != http.StatusBadGateway {
			t.Errorf("a snapshot that does not hold: %d", code)
		}
		after(MaxLease)
		if w.relay.Fresh() {
			t.Error("a relay that hears nothing says that it is fresh")
		}
	})
}

func TestARelayIsChecked(t *testing.T) {
	good := Config{Server: server, Issuer: server, Keys: []signed.Public{key(t, 1).Public()}, Transport: &wire{}, Now: now, Log: newTown(t).subscriber.config.Log}
	if _, err := NewRelay(RelayConfig{Upstream: good, Streams: 1}); err != nil {
		t.Error(err)
	}
	if _, err := NewRelay(RelayConfig{Upstream: good}); err == nil {
		t.Error("a relay without streams")
	}
	good.Keys = nil
	if _, err := NewRelay(RelayConfig{Upstream: good, Streams: 1}); err == nil {
		t.Error("a relay without a key")
	}
}
