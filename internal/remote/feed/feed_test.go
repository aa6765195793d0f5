package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

func TestATK23_TheFeedIsFollowed(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		s := w.subscriber
		if !s.Stale(true) {
			t.Error("fresh before anything was heard")
		}
		w.history.add(Event{Kind: Revoke, Name: "cap_1", Until: now().Add(time.Hour).Unix()})
		w.history.add(Event{Kind: Freeze, Name: "pw_a", Targets: []string{"pw_a", "pw_b"}})
		w.history.add(Event{Kind: Revoke, Name: "cap_past", Until: now().Add(-steady.Margin - time.Hour).Unix()})
		w.run()
		if s.Stale(false) || !s.Revoked("cap_1") || !s.Frozen("pw_b") || s.Revoked("cap_past") || s.RevocationSequence() != 3 {
			t.Fatalf("after the snapshot: stale %t, at %d\n%s", s.Stale(false), s.RevocationSequence(), w.log)
		}
		changed := s.Changed()
		w.history.add(Event{Kind: Revoke, Name: "cap_2"})
		w.history.add(Event{Kind: Thaw, Name: "pw_a", Targets: []string{"pw_a", "pw_b"}})
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("nobody was told of an event")
		}
		if !s.Revoked("cap_2") || s.Frozen("pw_b") || s.RevocationSequence() != 5 {
			t.Errorf("after events: at %d\n%s", s.RevocationSequence(), w.log)
		}
		after(10 * time.Minute)
		if s.Stale(false) || len(w.wire.paths) != 2 {
			t.Errorf("stale %t after heartbeats alone; asked for %v\n%s", s.Stale(false), w.wire.paths, w.log)
		}
	})
}

// TestATK25_ALostFeedFailsClosed: what carries the feed goes silent.
func TestATK25_ALostFeedFailsClosed(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		w.run()
		after(5 * time.Second) // the last heartbeat comes now
		w.wire.set(func(w *wire) { w.cut = true })
		after(29 * time.Second)
		if w.subscriber.Stale(false) {
			t.Error("stale before the lease is over")
		}
		changed := w.subscriber.Changed()
		after(time.Second)
		if !w.subscriber.Stale(false) || !w.subscriber.Stale(true) {
			t.Error("fresh after the lease is over")
		}
		select {
		case <-changed:
		default:
			t.Error("nobody was told of the end of the lease")
		}
		w.history.add(Event{Kind: Revoke, Name: "cap_1"})
		changed = w.subscriber.Changed()
		w.wire.set(func(w *wire) { w.cut = false })
		after(time.Minute)
		select {
		case <-changed:
		default:
			t.Error("nobody was told that the feed is back")
		}
		if w.subscriber.Stale(false) || !w.subscriber.Revoked("cap_1") {
			t.Errorf("stale %t after the feed is back\n%s", w.subscriber.Stale(false), w.log)
		}
	})
}

// TestATK25_TheOperatorsExtension goes beyond the lease, for reads alone, and
// no longer than an hour.
func TestATK25_TheOperatorsExtension(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		w.run()
		w.history.add(Event{Kind: Extend, Name: "lease", Until: now().Add(10 * time.Minute).Unix()})
		after(5 * time.Second)
		w.wire.set(func(w *wire) { w.cut = true })
		after(9 * time.Minute)
		if w.subscriber.Stale(true) || !w.subscriber.Stale(false) {
			t.Errorf("within the extension: reads stale %t, writes stale %t", w.subscriber.Stale(true), w.subscriber.Stale(false))
		}
		changed := w.subscriber.Changed()
		after(time.Minute)
		if !w.subscriber.Stale(true) {
			t.Error("fresh after the extension")
		}
		select {
		case <-changed:
		default:
			t.Error("nobody was told of the end of the extension")
		}
	})
	in(t, func(t *testing.T) {
		w := newTown(t)
		w.history.add(Event{Kind: Extend, Name: "lease", Until: now().Add(24 * time.Hour).Unix()})
		w.run()
		w.wire.set(func(w *wire) { w.cut = true })
		after(59 * time.Minute)
		if w.subscriber.Stale(true) {
			t.Error("the extension is not in the snapshot")
		}
		after(2 * time.Minute)
		if !w.subscriber.Stale(true) {
			t.Error("an extension for more than an hour")
		}
	})
}

// relayed is a stream that a relay changes, and what the subscriber must make of
// it.
func TestATK25_ARelayCannotLie(t *testing.T) {
	evil := key(t, 2)
	seen := ""
	for name, c := range map[string]struct {
		change func(line string) []string
		log    string
	}{
		"drops events": {func(l string) []string {
			if strings.HasPrefix(l, "event: event") && strings.Contains(l, "\nid: ") {
				return nil
			}
			return []string{l}
		}, "has to be read anew"},
		"holds heartbeats back": {func(l string) []string {
			if strings.HasPrefix(l, "event: heartbeat") {
				return nil
			}
			return []string{l}
		}, ""},
		"repeats the first heartbeat": {func(l string) []string {
			if strings.HasPrefix(l, "event: heartbeat") {
				if seen == "" {
					seen = l
				}
				return []string{seen}
			}
			return []string{l}
		}, ""},
		"calls an event a heartbeat": {func(l string) []string {
			return []string{strings.Replace(l, "event: event", "event: heartbeat", 1)}
		}, "not of type"},
		"signs with another key": {func(l string) []string {
			if head, _, ok := strings.Cut(l, "data: "); ok && strings.HasPrefix(l, "event: heartbeat") {
				compact, _ := evil.Sign(TypeHeartbeat, Statement{Issuer: server, Time: now().UnixMilli()})
				return []string{head + "data: " + compact + "\n\n"}
			}
			return []string{l}
		}, "under a key that is known here"},
		"writes a line without end": {func(l string) []string {
			if strings.HasPrefix(l, "event: event") {
				return []string{"data: " + strings.Repeat("x", maxStatement+1)}
			}
			return []string{l}
		}, "token too long"},
	} {
		seen = ""
		in(t, func(t *testing.T) {
			w := newTown(t)
			w.run()
			w.wire.set(func(w *wire) { w.change = c.change })
			for i := range 3 {
				w.history.add(Event{Kind: Revoke, Name: fmt.Sprint("cap_", i+1)})
				after(time.Second)
			}
			after(time.Minute)
			if w.subscriber.Stale(false) || !strings.Contains(w.log.String(), c.log) || !w.subscriber.Revoked("cap_2") || w.subscriber.RevocationSequence() != 3 {
				t.Errorf("%s: stale %t, at %d\n%s", name, w.subscriber.Stale(false), w.subscriber.RevocationSequence(), w.log)
			}
			// Without the snapshot there is nothing to go by.
			w.wire.set(func(w *wire) {
				w.change = func(l string) []string {
					if !strings.HasPrefix(l, "event:") {
						return []string{"x"}
					}
					return c.change(l)
				}
			})
			w.history.add(Event{Kind: Revoke, Name: "cap_4"})
			w.history.add(Event{Kind: Revoke, Name: "cap_5"})
			after(time.Minute)
			if !w.subscriber.Stale(false) {
				t.Errorf("%s, without the snapshot: fresh at %d\n%s", name, w.subscriber.RevocationSequence(), w.log)
			}
		})
	}
}

// statements that our own server never makes at that moment, told one by one.
func TestATK25_StatementsThatAreRefused(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		for i := range 4 {
			w.history.add(Event{Kind: Revoke, Name: fmt.Sprint("cap_", i)})
		}
		w.run()
		state, err := w.publisher.advance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		at := func(d time.Duration) int64 { return now().Add(d).UnixMilli() }
		good := Statement{Issuer: server, Time: at(0), Sequence: 4, Digest: state.Digest}
		for name, c := range map[string]struct {
			typ    string
			change func(*Statement)
			want   string
		}{
			"of another server":        {TypeHeartbeat, func(s *Statement) { s.Issuer = "https://other.example" }, "a statement is of"},
			"too old":                  {TypeHeartbeat, func(s *Statement) { s.Time = at(-MaxLease) }, "compare the clocks"},
			"of the future":            {TypeHeartbeat, func(s *Statement) { s.Time = at(MaxLease + time.Second) }, "compare the clocks"},
			"older than the last":      {TypeHeartbeat, func(s *Statement) { s.Time = at(-4 * time.Second) }, "older than the one before"},
			"gone back":                {TypeHeartbeat, func(s *Statement) { s.Sequence = 3 }, "has gone back"},
			"snapshot gone back":       {TypeSnapshot, func(s *Statement) { s.Sequence = 3 }, "has gone back"},
			"ahead":                    {TypeHeartbeat, func(s *Statement) { s.Sequence = 5 }, "read anew"},
			"other events":             {TypeHeartbeat, func(s *Statement) { s.Digest[0]++ }, "are others"},
			"event with a gap":         {TypeEvent, func(s *Statement) { s.Sequence = 6; s.Event = &Event{Sequence: 6, Kind: Revoke, Name: "x"} }, "want the next number"},
			"event twice":              {TypeEvent, func(s *Statement) { s.Event = &Event{Sequence: 4, Kind: Revoke, Name: "x"} }, "came twice"},
			"event of another number":  {TypeEvent, func(s *Statement) { s.Sequence = 5; s.Event = &Event{Sequence: 6, Kind: Revoke, Name: "x"} }, "something else than its type"},
			"event of an unknown kind": {TypeEvent, func(s *Statement) { s.Sequence = 5; s.Event = &Event{Sequence: 5, Kind: "halt", Name: "x"} }, "is not known here"},
			"event with other digest":  {TypeEvent, func(s *Statement) { s.Sequence = 5; s.Event = &Event{Sequence: 5, Kind: Revoke, Name: "x"} }, "are others"},
			"heartbeat with an event":  {TypeHeartbeat, func(s *Statement) { s.Event = &Event{} }, "something else than its type"},
			"event without one":        {TypeEvent, func(*Statement) {}, "something else than its type"},
		} {
			st := good
			c.change(&st)
			compact, err := key(t, 1).Sign(c.typ, st)
			if err != nil {
				t.Fatal(err)
			}
			before := w.subscriber.set.Load()
			if err := w.subscriber.believe(c.typ, compact); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v; want %q", name, err, c.want)
			}
			if w.subscriber.set.Load() != before {
				t.Errorf("%s: something of it was taken over", name)
			}
		}
		// A new number and a known rollback: never followed, so the lease ends.
		w.history.mu.Lock()
		w.history.events = w.history.events[:2]
		w.history.mu.Unlock()
		restored, err := NewPublisher(w.publisher.config)
		if err != nil {
			t.Fatal(err)
		}
		w.wire.set(func(x *wire) { x.handler = restored.Handler(); x.cut = true })
		after(time.Minute)
		w.wire.set(func(x *wire) { x.cut = false })
		after(time.Minute)
		if !w.subscriber.Stale(false) || !w.subscriber.Revoked("cap_3") || !strings.Contains(w.log.String(), "has gone back") {
			t.Errorf("a server that was restored is followed\n%s", w.log)
		}
	})
}

// A number that was reached before a restart is the floor.
func TestATK25_TheFloor(t *testing.T) {
	in(t, func(t *testing.T) {
		var mu sync.Mutex
		var moved []int64
		w := newTown(t, func(c *Config) {
			c.Floor = 3
			c.Moved = func(n int64) { mu.Lock(); moved = append(moved, n); mu.Unlock() }
		})
		w.history.add(Event{Kind: Revoke, Name: "cap_1"})
		w.run()
		after(time.Minute)
		if !w.subscriber.Stale(false) {
			t.Error("a state below the floor is fresh")
		}
		for range 3 {
			w.history.add(Event{Kind: Revoke, Name: "cap_2"})
		}
		after(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if w.subscriber.Stale(false) || !cmp.Equal(moved, []int64{4}) {
			t.Errorf("at the floor: stale %t, moved %v\n%s", w.subscriber.Stale(false), moved, w.log)
		}
	})
}

// A period is over as soon as one of the two clocks says so.
func TestATK21_TheLeaseHasTwoClocks(t *testing.T) {
	in(t, func(t *testing.T) {
		p := period{now(), time.Minute}
		forward := now().Add(2 * time.Minute).Round(0) // set forward: no monotonic reading, as after a sleep
		if p.over(now()) || !p.over(forward) || p.left(forward) != 0 || (period{}).left(now()) != 0 {
			t.Error("the lease goes on by the wall clock")
		}
		after(time.Minute)
		if !p.over(now()) {
			t.Error("the lease goes on by the monotonic clock")
		}
	})
}

func TestBoundsOfThePublisher(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		get := func(path string) (int, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			u, _ := url.Parse(server + path)
			r, err := w.wire.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			return r.StatusCode, func() { cancel(); synctest.Wait() }
		}
		for path, want := range map[string]int{
			"/v1/feed": 400, "/v1/feed?after=-1": 400, "/v1/feed?after=x": 400, "/v1/feed/snapshot": 200,
		} {
			code, end := get(path)
			if end(); code != want {
				t.Errorf("%s: %d; want %d", path, code, want)
			}
		}
		_, endOne := get("/v1/feed?after=0")
		_, endTwo := get("/v1/feed?after=0")
		if code, end := get("/v1/feed?after=0"); code != http.StatusServiceUnavailable {
			t.Errorf("a stream too many: %d", code)
			end()
		}
		endOne()
		if code, end := get("/v1/feed?after=0"); code != http.StatusOK {
			t.Errorf("after one has gone: %d", code)
		} else {
			end()
		}
		endTwo()
		w.history.mu.Lock()
		for i := range keptEvents + 10 {
			w.history.events = append(w.history.events, Event{Sequence: int64(i + 1), Kind: Revoke, Name: fmt.Sprint(i)})
		}
		w.history.mu.Unlock()
		after(time.Second)
		for after, want := range map[int]int{9: http.StatusGone, 10: http.StatusOK} {
			code, end := get(fmt.Sprint("/v1/feed?after=", after))
			if end(); code != want {
				t.Errorf("after %d: %d; want %d", after, code, want)
			}
		}
		// Who is too far behind reads the snapshot.
		w.run()
		if w.subscriber.Stale(false) || !w.subscriber.Revoked("3") {
			t.Errorf("behind what is kept\n%s", w.log)
		}
		w.history.mu.Lock()
		w.history.broken = errors.New("the store is gone")
		w.history.mu.Unlock()
		after(time.Second)
		if code, end := get("/v1/feed/snapshot"); code != http.StatusServiceUnavailable {
			t.Errorf("without its store: %d", code)
			end()
		}
		after(time.Minute)
		if !w.subscriber.Stale(false) {
			t.Error("heartbeats without the store")
		}
	})
}

func TestConfigurationIsChecked(t *testing.T) {
	w := newTown(t)
	for _, change := range []func(*Config){
		func(c *Config) { c.Keys = nil }, func(c *Config) { c.Issuer = "" }, func(c *Config) { c.Lease = MaxLease + 1 }, func(c *Config) { c.Lease = -1 },
	} {
		c := w.subscriber.config
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
	for _, change := range []func(*PublisherConfig){
		func(c *PublisherConfig) { c.Source = nil }, func(c *PublisherConfig) { c.Key = signed.Key{} }, func(c *PublisherConfig) { c.Heartbeat = MaxLease },
		func(c *PublisherConfig) { c.Streams = 0 },
	} {
		c := w.publisher.config
		change(&c)
		if _, err := NewPublisher(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
}

// believed signs a statement as the server would and tells the subscriber.
func (w *town) believed(typ string, st Statement) {
	w.t.Helper()
	compact, err := key(w.t, 1).Sign(typ, st)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.subscriber.believe(typ, compact); err != nil {
		w.t.Fatal(err)
	}
}

// A relay that passes events on and holds heartbeats back hides how far the
// sequence has come.
func TestATK25_EventsDoNotRenewTheLease(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		w.believed(TypeSnapshot, Statement{Issuer: server, Time: now().UnixMilli()})
		for i := range int64(4) {
			after(9 * time.Second)
			w.history.add(Event{Kind: Revoke, Name: fmt.Sprint("cap_", i)})
			state, err := w.publisher.advance(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.believed(TypeEvent, Statement{Issuer: server, Time: now().UnixMilli(), Sequence: i + 1, Digest: state.Digest, Event: &w.history.events[i]})
		}
		if !w.subscriber.Stale(false) {
			t.Error("events renew the lease")
		}
	})
}

// A delayed message is good only for the rest of its time, and a repeated one
// for no longer.
func TestATK25_HeldBackStatements(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		taken := now().UnixMilli()
		after(time.Second)
		w.believed(TypeSnapshot, Statement{Issuer: server, Time: taken})
		after(29 * time.Second)
		if !w.subscriber.Stale(true) || !w.subscriber.Stale(false) {
			t.Error("what was taken a second before it was told is good for longer than its time")
		}
		made := now().Add(time.Millisecond).UnixMilli()
		after(20 * time.Second)
		w.believed(TypeHeartbeat, Statement{Issuer: server, Time: made})
		after(9 * time.Second)
		w.believed(TypeHeartbeat, Statement{Issuer: server, Time: made})
		if w.subscriber.Stale(false) {
			t.Error("stale within the time of the last statement")
		}
		after(time.Second + time.Millisecond)
		if !w.subscriber.Stale(false) {
			t.Error("the time runs from when it was told")
		}
	})
}

// An epoch ends the capabilities issued up to it, in the stream and in a
// snapshot. It is forgotten when they have expired.
func TestEXT15_Epochs(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	event := func(n, before, until int64, names ...string) Event {
		return Event{Sequence: n, Kind: Epoch, Of: "holder", Name: names[0], Targets: names, Before: before, Until: until}
	}
	var s State
	for n, e := range []Event{
		event(1, 100, now.Unix()+50, "key:a", "key:b"),
		event(2, 90, now.Unix()+10, "key:a"), // earlier in both: nothing becomes good again
		event(3, 120, 0, "key:c"),
		event(4, 110, now.Unix()+10, "key:c"),
		event(5, 10, now.Unix()-1, "key:gone"),
	} {
		var err error
		if s, err = s.Apply(e, now); err != nil {
			t.Fatalf("event %d: %v", n+1, err)
		}
	}
	restored, err := fromSnapshot(Statement{Sequence: 5, Entries: s.Entries(now)}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]State{"the stream": s, "a snapshot": restored} {
		for _, c := range []struct {
			of, name string
			issued   int64
			want     bool
		}{
			{"holder", "key:a", 100, true},
			{"holder", "key:a", 101, false},
			{"holder", "key:b", 100, true},
			{"holder", "key:c", 120, true},
			{"holder", "key:c", 121, false},
			{"holder", "key:d", 1, false},
			{"delegator", "key:a", 1, false},
		} {
			if got := s.Ended(c.of, c.name, time.Unix(c.issued, 0)); got != c.want {
				t.Errorf("%s: %s %s issued at %d: %t", name, c.of, c.name, c.issued, got)
			}
		}
		if !s.Ended("holder", "key:a", time.Time{}) {
			t.Errorf("%s: what was issued nobody knows when is good", name)
		}
	}
	if restored.Ended("holder", "key:gone", time.Unix(1, 0)) {
		t.Error("a snapshot has what does not matter any more")
	}
	later := now.Add(time.Minute)
	s, err = s.Apply(event(6, 1, later.Unix()+9, "key:z"), later)
	if err != nil || s.Ended("holder", "key:a", time.Unix(1, 0)) || !s.Ended("holder", "key:c", time.Unix(1, 0)) {
		t.Errorf("kept or forgotten wrongly: %v", err)
	}
}

// TestEXT17_Lazy: a subscriber that asks now and then knows after that time, and
// denies as every other when its lease is over.
func TestEXT17_Lazy(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newTown(t)
		c := w.subscriber.config
		for _, wrong := range []time.Duration{-1, 16 * time.Second} {
			c.Lazy = wrong
			if _, err := New(c); err == nil {
				t.Errorf("EXT-17 verified anew every %v", wrong)
			}
		}
		c.Lazy = 10 * time.Second
		var err error
		if w.subscriber, err = New(c); err != nil {
			t.Fatal(err)
		}
		w.run()
		after(time.Second)
		w.history.add(Event{Kind: Revoke, Name: "cap_1"})
		after(8 * time.Second)
		if w.subscriber.Revoked("cap_1") || w.subscriber.Stale(false) {
			t.Error("EXT-17 known before it asks, or stale")
		}
		after(2 * time.Second)
		if !w.subscriber.Revoked("cap_1") || w.subscriber.RevocationSequence() != 1 {
			t.Error("EXT-17 not known after it asked")
		}
		w.wire.set(func(w *wire) {
			w.cut = true
			for _, path := range w.paths {
				if path != PathSnapshot {
					t.Errorf("EXT-17 it asks for %s", path)
				}
			}
		})
		after(28 * time.Second)
		if w.subscriber.Stale(false) {
			t.Error("EXT-17 stale before the lease is over")
		}
		after(3 * time.Second)
		if !w.subscriber.Stale(false) {
			t.Error("EXT-17 fresh after the lease is over")
		}
		w.wire.set(func(w *wire) { w.cut = false })
		after(time.Minute)
		if w.subscriber.Stale(false) {
			t.Error("EXT-17 stale with the server back")
		}
	})
}
