package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// history is the events of a server, in memory.
type history struct {
	mu      sync.Mutex
	events  []feed.Event
	changed chan struct{}
}

func (h *history) Events(_ context.Context, after int64) ([]feed.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[after:len(h.events):len(h.events)], nil
}

func (h *history) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *history) revoke(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.events = append(h.events, feed.Event{Sequence: int64(len(h.events) + 1), Kind: feed.Revoke, Name: id, Until: time.Now().Add(time.Hour).Unix()})
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

const (
	issuer = "http://server"
	limit  = 2 * time.Minute
	// settle is how long the quiet is that heartbeats are measured in.
	settle = 4 * time.Second
)

// feedTown is a publisher, relays and those who follow.
type feedTown struct {
	ctx      context.Context
	exchange *exchange
	history  *history
	config   feed.Config // of a follower
	stop     []func()
	running  sync.WaitGroup
}

func newFeedTown(ctx context.Context, heartbeat time.Duration, streams int) (*feedTown, error) {
	key, err := signed.NewKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &feedTown{ctx: ctx, exchange: newExchange(), history: &history{changed: make(chan struct{})}, stop: []func(){cancel}}
	publisher, err := feed.NewPublisher(feed.PublisherConfig{
		Source: t.history, Key: key, Issuer: issuer, Heartbeat: heartbeat, Streams: streams, Done: ctx.Done(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	t.stop = append(t.stop, t.exchange.serve("server", publisher.Handler()))
	t.config = feed.Config{Server: issuer, Issuer: issuer, Keys: []signed.Public{key.Public()}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	return t, nil
}

func (t *feedTown) close() {
	for _, stop := range t.stop {
		stop()
	}
	t.running.Wait()
}

// relay adds a relay and returns its URL.
func (t *feedTown) relay(n, streams int) (string, error) {
	c := t.config
	c.Transport = t.exchange.transport()
	r, err := feed.NewRelay(feed.RelayConfig{Upstream: c, Streams: streams, Done: t.ctx.Done()})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("relay-%d", n)
	t.stop = append(t.stop, t.exchange.serve(name, r.Handler()))
	t.running.Go(func() { r.Run(t.ctx) })
	for deadline := time.Now().Add(limit); !r.Fresh(); {
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%s hears nothing", name)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // a measurement begins when it is ready
	}
	return "http://" + name, nil
}

// follow adds a follower of one place.
func (t *feedTown) follow(at string) (*feed.Subscriber, error) {
	c := t.config
	c.Server, c.Transport = at, t.exchange.transport()
	s, err := feed.New(c)
	if err == nil {
		t.running.Go(func() { s.Run(t.ctx) })
	}
	return s, err
}

func until(s *feed.Subscriber, learnt func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := s.Changed()
		if learnt() {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("a follower does not know after %v", limit)
		}
	}
}

// gateways adds so many followers of the places, in turn.
func (t *feedTown) gateways(number int, at []string) ([]*feed.Subscriber, error) {
	all := make([]*feed.Subscriber, number)
	for n := range all {
		var err error
		if all[n], err = t.follow(at[n%len(at)]); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if err := until(s, func() bool { return !s.Stale(false) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// feeds measures one publisher with all gateways, and the same behind relays.
func (s simulation) feeds(ctx context.Context, m *measured) error {
	fmt.Fprint(s.out, "| revocations to all gateways | p50 ms | p99 ms | last of all ms | CPU of all, us for each gateway |\n| --- | --- | --- | --- | --- |\n")
	for _, relays := range []int{0, s.relays} {
		t, err := newFeedTown(ctx, 5*time.Second, s.gateways+s.relays)
		if err != nil {
			return err
		}
		cpu, err := s.round(t, relays)
		t.close()
		if err != nil {
			return err
		}
		if relays == 0 {
			m.followerCPU = cpu
		}
	}
	fmt.Fprintln(s.out)
	return s.served(ctx, m)
}

// round revokes one id after the other and prints when all know.
func (s simulation) round(t *feedTown, relays int) (cpu float64, err error) {
	at, name := []string{issuer}, "from one server"
	if relays > 0 {
		at, name = nil, fmt.Sprintf("through %d relays", relays)
		for n := range relays {
			url, err := t.relay(n, s.gateways)
			if err != nil {
				return 0, err
			}
			at = append(at, url)
		}
	}
	all, err := t.gateways(s.gateways, at)
	if err != nil {
		return 0, err
	}
	var each, last []time.Duration
	before := spent()
	for n := range s.events {
		id := fmt.Sprintf("cap_%026d", n)
		times, failed := make([]time.Duration, len(all)), make([]error, len(all))
		var knowing sync.WaitGroup
		began := time.Now()
		for i, one := range all {
			knowing.Go(func() {
				failed[i] = until(one, func() bool { return one.Revoked(id) })
				times[i] = time.Since(began)
			})
		}
		began = time.Now()
		t.history.revoke(id)
		knowing.Wait()
		if i := slices.IndexFunc(failed, func(err error) bool { return err != nil }); i >= 0 {
			return 0, failed[i]
		}
		each, last = append(each, times...), append(last, slices.Max(times))
	}
	cpu = float64((spent() - before).Microseconds()) / float64(s.events*s.gateways)
	slices.Sort(each)
	slices.Sort(last)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Fprintf(s.out, "| %d gateways %s | %.1f | %.1f | %.1f | %.0f |\n", s.gateways, name, ms(each[len(each)/2]), ms(each[len(each)*99/100]), ms(last[len(last)/2]), cpu)
	return cpu, nil
}

// served measures what it takes to serve the feed, by followers that read and
// believe nothing.
func (s simulation) served(ctx context.Context, m *measured) error {
	const every = 50 * time.Millisecond
	t, err := newFeedTown(ctx, every, s.gateways+s.relays)
	if err != nil {
		return err
	}
	defer t.close()
	for range s.gateways {
		r, err := http.NewRequestWithContext(t.ctx, http.MethodGet, issuer+feed.PathEvents+"?after=0", nil)
		if err != nil {
			return err
		}
		response, err := t.exchange.transport().RoundTrip(r)
		if err != nil {
			return err
		}
		t.running.Go(func() { _, _ = io.Copy(io.Discard, response.Body); _ = response.Body.Close() })
	}
	pause := func() (cpu, written float64) {
		before, bytes := spent(), t.exchange.written.Load()
		time.Sleep(settle) //nolint:forbidigo // the measurement covers this time
		return float64((spent() - before).Microseconds()), float64(t.exchange.written.Load() - bytes)
	}
	beats := float64(settle/every) * float64(s.gateways)
	cpu, written := pause()
	m.heartbeatCPU, m.heartbeatBytes = cpu/beats, written/beats
	before, bytes := spent(), t.exchange.written.Load()
	began := time.Now()
	for n := range s.events {
		t.history.revoke(fmt.Sprintf("cap_%026d", n))
		time.Sleep(settle / time.Duration(s.events)) //nolint:forbidigo // as above
	}
	// Heartbeats of their own come meanwhile.
	idle := float64(time.Since(began)) / float64(settle)
	events := float64(s.events * s.gateways)
	m.eventCPU = (float64((spent() - before).Microseconds()) - idle*cpu) / events
	m.followerCPU -= m.eventCPU
	m.eventBytes = (float64(t.exchange.written.Load()-bytes) - idle*written) / events
	return nil
}

// snapshots measures the snapshot that a gateway gets when it starts.
func (s simulation) snapshots(ctx context.Context, m *measured) error {
	t, err := newFeedTown(ctx, 5*time.Second, s.gateways)
	if err != nil {
		return err
	}
	defer t.close()
	ids := make([]string, s.entries)
	for n := range ids {
		ids[n] = fmt.Sprintf("cap_%026d", n)
	}
	t.history.revoke(ids...)
	// The first has the publisher read its source.
	if _, err := t.gateways(1, []string{issuer}); err != nil {
		return err
	}
	empty, bytes := heap(), t.exchange.written.Load()
	const few = 20
	all, err := t.gateways(few, []string{issuer})
	if err != nil {
		return err
	}
	m.entryMemory = (heap() - empty) / float64(few*s.entries)
	m.entryBytes = float64(t.exchange.written.Load()-bytes) / float64(few*s.entries)
	if !all[0].Revoked(ids[s.entries-1]) {
		return fmt.Errorf("a gateway does not know what the snapshot says")
	}
	return nil
}
