package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// fanout measures how long a revocation takes to reach all followers of the
// real binary's feed, and how long until streams under the revoked capability
// are cut (EXT-16, ATK-24).
type fanout struct {
	town   *town
	secret string // the operator's token
	number int    // of subscribers, and of streams
	out    io.Writer
}

const (
	fanoutEvents = 200
	// fanoutPause lets one event be over before the next begins.
	fanoutPause = 25 * time.Millisecond
	fanoutLimit = 30 * time.Second
)

func runFanout(ctx context.Context, dir string, number int, out io.Writer) (err error) {
	t, err := newTown(ctx, dir, "quiet", "", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	secret, err := os.ReadFile(filepath.Join(t.folder, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		return err
	}
	f := &fanout{town: t, secret: strings.TrimSpace(string(secret)), number: number, out: out}
	fmt.Fprintf(out, "%s, %s, %d CPUs (%s), by `go run . -fanout %d`: %d subscribers in this program, each with a connection of its own (TLS 1.3, HTTP/1.1), "+
		"to `powerbox serve` on the same CPUs; times from before the operator's request is sent, whose answer comes when the revocation is on the disk.\n\n"+
		"| from the operator's request to | times | p50 ms | p99 ms | longest ms |\n| --- | --- | --- | --- | --- |\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), processor(), number, number)
	if err := f.subscribers(ctx); err != nil {
		return err
	}
	return f.streams(ctx)
}

// row prints one line of the table.
func (f *fanout) row(name string, times []time.Duration) {
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000 }
	fmt.Fprintf(f.out, "| %s | %d | %.1f | %.1f | %.1f |\n", name, len(times), at(0.5), at(0.99), at(1))
}

// transport has its own connections.
func (f *fanout) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: f.town.tls.Clone()}
}

// operate makes an operator's call.
func (f *fanout) operate(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+f.town.address+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+f.secret)
	response, err := f.town.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, answer)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// subscribers measures the feed.
func (f *fanout) subscribers(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	var pinned struct {
		Issuer string        `json:"issuer"`
		Key    signed.Public `json:"key"`
	}
	if err := f.operate(ctx, http.MethodGet, "/v1/feed/key", nil, &pinned); err != nil {
		return err
	}
	all := make([]*feed.Subscriber, f.number)
	for n := range all {
		s, err := feed.New(feed.Config{
			Server: "https://" + f.town.address, Issuer: pinned.Issuer, Keys: []signed.Public{pinned.Key}, Transport: f.transport(), Now: time.Now,
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+f.secret); return nil },
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		all[n] = s
		running.Go(func() { s.Run(ctx) })
	}
	for _, s := range all {
		if err := until(s, func() bool { return !s.Stale(false) }); err != nil {
			return err
		}
	}
	var each, last, answered []time.Duration
	for n := range fanoutEvents {
		began := time.Now()
		times, answer, err := f.event(ctx, all, fmt.Sprintf("measured-%d", n), began)
		if err != nil {
			return err
		}
		each, last, answered = append(each, times...), append(last, slices.Max(times)), append(answered, answer)
		time.Sleep(fanoutPause) //nolint:forbidigo // a pause between measurements, which decides nothing
	}
	f.row("its answer", answered)
	f.row(fmt.Sprintf("one of %d subscribers knows", f.number), each)
	f.row(fmt.Sprintf("the last of %d knows", f.number), last)
	return nil
}

// event revokes one id and takes the time until each subscriber knows.
func (f *fanout) event(ctx context.Context, all []*feed.Subscriber, id string, began time.Time) (times []time.Duration, answered time.Duration, err error) {
	times = make([]time.Duration, len(all))
	failed := make([]error, len(all))
	var knowing sync.WaitGroup
	for n, s := range all {
		knowing.Go(func() {
			failed[n] = until(s, func() bool { return s.Revoked(id) })
			times[n] = time.Since(began)
		})
	}
	var answer struct{ Sequence int64 }
	err = f.operate(ctx, http.MethodPost, "/v1/revocations", map[string]string{"target": id}, &answer)
	answered = time.Since(began)
	knowing.Wait()
	return times, answered, errors.Join(append(failed, err)...)
}

// until waits for what a subscriber learns.
func until(s *feed.Subscriber, learnt func() bool) error {
	limit := time.After(fanoutLimit)
	for {
		changed := s.Changed()
		if learnt() {
			return nil
		}
		select {
		case <-changed:
		case <-limit:
			return fmt.Errorf("a subscriber does not know after %v", fanoutLimit)
		}
	}
}

// streams has so many streams open on which nothing comes, under one capability,
// and revokes it.
func (f *fanout) streams(ctx context.Context) error {
	capability, handle, err := f.town.reference(ctx)
	if err != nil {
		return err
	}
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":` + soakParams(handle, capability, noteTask) + `}`)
	var opened, cutting sync.WaitGroup
	times, failed := make([]time.Duration, f.number), make([]error, f.number)
	var began time.Time
	begun := make(chan struct{})
	for n := range f.number {
		opened.Add(1)
		cutting.Go(func() {
			failed[n] = f.stream(ctx, body, sync.OnceFunc(opened.Done))
			<-begun
			times[n] = time.Since(began)
		})
	}
	opened.Wait()
	began = time.Now()
	close(begun)
	var answer struct{ Sequence int64 }
	err = f.operate(ctx, http.MethodPost, "/v1/revocations", map[string]string{"target": capability}, &answer)
	answered := time.Since(began)
	cutting.Wait()
	if err := errors.Join(append(failed, err)...); err != nil {
		return err
	}
	f.row(fmt.Sprintf("its answer, with %d streams open", f.number), []time.Duration{answered})
	f.row(fmt.Sprintf("one of %d open streams under it is cut", f.number), times)
	return nil
}

// stream opens one stream and reads until it is cut with the denial. It calls
// opened when its first event has come, or nothing will.
func (f *fanout) stream(ctx context.Context, body []byte, opened func()) error {
	defer opened()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.town.agentURL(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	transport := f.transport()
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	last := ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = text
			opened()
		}
	}
	if !strings.Contains(last, `"revoked"`) {
		return fmt.Errorf("a stream ended with %q; want the denial revoked", last)
	}
	return nil
}

// quiet is an agent that answers a stream with one event and then nothing.
func quiet(listen string) http.Handler {
	card := stub(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			card.ServeHTTP(w, r)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":7,"result":{"message":{"messageId":"answer-1","role":"ROLE_AGENT","parts":[{"text":"wait"}]}}}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}
