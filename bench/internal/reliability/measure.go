package reliability

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Revocations measures so many revocations to so many followers of the feed: until
// the operator has the answer, until each knows, and until the last does.
func (t *Town) Revocations(ctx context.Context, followers, times int) (answered, each, last []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	var pinned struct {
		Issuer string        `json:"issuer"`
		Key    signed.Public `json:"key"`
	}
	if err := t.operate(ctx, http.MethodGet, "/v1/feed/key", nil, &pinned); err != nil {
		return nil, nil, nil, err
	}
	all := make([]*feed.Subscriber, followers)
	for n := range all {
		all[n], err = feed.New(feed.Config{
			Server: t.front.url, Issuer: pinned.Issuer, Keys: []signed.Public{pinned.Key}, Transport: &http.Transport{}, Now: t.Now,
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+t.secret); return nil },
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, nil, nil, err
		}
		running.Go(func() { all[n].Run(ctx) })
	}
	for _, s := range all {
		if err := learnt(s, func() bool { return !s.Stale(false) }); err != nil {
			return nil, nil, nil, err
		}
	}
	for n := range times {
		took, known, err := t.revocation(ctx, all, fmt.Sprintf("measured-%d-%d", t.Now().UnixNano(), n))
		if err != nil {
			return nil, nil, nil, err
		}
		answered, each, last = append(answered, took), append(each, known...), append(last, slices.Max(known))
		if !pause(ctx, 25*time.Millisecond) {
			return nil, nil, nil, ctx.Err()
		}
	}
	return answered, each, last, nil
}

// revocation revokes one id and takes the time until each follower knows.
func (t *Town) revocation(ctx context.Context, all []*feed.Subscriber, id string) (answered time.Duration, known []time.Duration, err error) {
	known = make([]time.Duration, len(all))
	failed := make([]error, len(all))
	began := t.Now()
	var knowing sync.WaitGroup
	for n, s := range all {
		knowing.Go(func() {
			failed[n] = learnt(s, func() bool { return s.Revoked(id) })
			known[n] = t.Now().Sub(began)
		})
	}
	err = t.operate(ctx, http.MethodPost, "/v1/revocations", map[string]string{"target": id}, nil)
	answered = t.Now().Sub(began)
	knowing.Wait()
	return answered, known, errors.Join(append(failed, err)...)
}

// learnt waits until a follower has learnt of an event.
func learnt(s *feed.Subscriber, so func() bool) error {
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		changed := s.Changed()
		if so() {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return errors.New("a follower does not know after 30s")
		}
	}
}

// Throughput is how many calls, or else requests for capabilities, so many of the
// nodes answer a second.
func (t *Town) Throughput(ctx context.Context, calls bool, nodes int, length time.Duration) (float64, error) {
	var some []string
	for _, n := range t.nodes[:nodes] {
		some = append(some, n.address)
	}
	t.front.serves(some...)
	workers := make([]*worker, t.Workers)
	for n := range workers {
		w, err := t.newWorker(ctx, n)
		if err != nil {
			return 0, err
		}
		if w.request(ctx); w.held == nil {
			return 0, errors.New("a caller was given nothing")
		}
		workers[n] = w
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var done atomic.Int64
	var wrong atomic.Pointer[error]
	var running sync.WaitGroup
	began := t.Now()
	for _, w := range workers {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := w.once(ctx, calls); err == nil {
					done.Add(1)
				} else if ctx.Err() == nil {
					wrong.Store(&err)
				}
			}
		})
	}
	running.Wait()
	if err := wrong.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / t.Now().Sub(began).Seconds(), nil
}

// once makes one call, or one request for capabilities.
func (w *worker) once(ctx context.Context, call bool) error {
	if call {
		_, err := w.client.Invoke(ctx, w.agent, *w.held, "search_documents", powerbox.Object())
		return err
	}
	_, err := w.client.Request(ctx, w.agent, holder.RequestParams{
		Grants: []string{"documents:read"}, Purpose: "A trial", Query: powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")}),
	})
	return err
}
