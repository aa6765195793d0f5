package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
)

// opening is a kind of long answer, of which the program has many open at once.
type opening struct {
	name, one   string
	begin, line string // how a line of the first event begins, and of the later ones
	request     func(t *town) request
	event       func(ctx context.Context, t *town, n int) error // has an event on each of them
}

// wait bounds the time to the first event of an answer, and the time in which an event reaches all.
const wait = 2 * time.Minute

// atOnce is how many answers are opened at the same time.
const atOnce = 32

// openings are the kinds.
func openings() []opening {
	return []opening{
		{"open streams", "stream", "data:", "data:", (*town).stream, func(_ context.Context, t *town, _ int) error { t.speaks.speak(); return nil }},
		{"subscribers of the feed", "subscriber", "event: heartbeat", "event: event", (*town).follower, func(ctx context.Context, t *town, n int) error {
			return t.revoke(ctx, fmt.Sprintf("growth-%d", n))
		}},
	}
}

// stream is a message whose answer does not end.
func (t *town) stream() request {
	r := t.call(`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"data":{"skill":"search","arguments":{"query":"sales"}}}]}}}`)
	r.header.Set("Powerbox-Capability", t.capability)
	return r
}

// revoke has an operator revoke something.
func (t *town) revoke(ctx context.Context, target string) error {
	return t.ask(ctx, request{
		method: http.MethodPost, path: "/v1/revocations", status: http.StatusOK, body: fmt.Sprintf(`{"target":%q}`, target), by: http.DefaultClient,
		header: http.Header{"Authorization": {"Bearer " + t.operator}, "Content-Type": {"application/json"}},
		answered: func(body []byte) error {
			var a struct{ Sequence int64 }
			err := json.Unmarshal(body, &a)
			t.revoked = a.Sequence
			return err
		},
	})
}

// follower follows the revocations behind the last one.
func (t *town) follower() request {
	return request{method: http.MethodGet, path: fmt.Sprintf("%s?after=%d", feed.PathEvents, t.revoked), header: http.Header{"Authorization": {"Bearer " + t.operator}}}
}

// speaker is the agents: a streaming message is answered with an event at once, and with one
// more for every speak.
type speaker struct {
	mu   sync.Mutex
	next chan struct{}
}

func (s *speaker) speak() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = make(chan struct{})
}

func (s *speaker) spoken() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// ServeHTTP implements [http.Handler].
func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !strings.Contains(string(body), "SendStreamingMessage") {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		spoken := s.spoken()
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"wait"}]}}}`+"\n\n") // the reader counts them
		_ = http.NewResponseController(w).Flush()
		select {
		case <-spoken:
		case <-r.Context().Done():
			return
		}
	}
}

// answers are the open ones, and what came on each.
type answers struct {
	t      *town
	of     opening
	client *http.Client
	ctx    context.Context //nolint:containedctx // all answers end with it
	end    context.CancelFunc
	open   []<-chan struct{} // of each, an event
	all    sync.WaitGroup
}

func (t *town) answers(ctx context.Context, of opening) *answers {
	a := &answers{t: t, of: of, client: &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}}}
	a.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true) // many on one connection, since a process has few
	a.ctx, a.end = context.WithCancel(ctx)
	return a
}

// until opens more of them, until there are n, each with its first event.
func (a *answers) until(n int) error {
	failed := make([]error, n-len(a.open))
	opened := make([]<-chan struct{}, len(failed))
	places := make(chan struct{}, atOnce)
	var opening sync.WaitGroup
	for i := range failed {
		places <- struct{}{}
		opening.Go(func() {
			defer func() { <-places }()
			opened[i], failed[i] = a.opened(a.of.request(a.t))
		})
	}
	opening.Wait()
	a.open = append(a.open, opened...)
	return errors.Join(failed...)
}

func (a *answers) opened(one request) (<-chan struct{}, error) {
	r, err := http.NewRequestWithContext(a.ctx, one.method, "http://"+a.t.listen+one.path, strings.NewReader(one.body))
	if err != nil {
		return nil, err
	}
	r.Header = one.header
	res, err := a.client.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(io.LimitReader(res.Body, 1000))
		return nil, errors.Join(fmt.Errorf("HTTP %d: %s", res.StatusCode, text), err, res.Body.Close())
	}
	events := make(chan struct{}, 8)
	a.all.Go(func() {
		defer close(events)
		defer func() { _ = res.Body.Close() }() // it was read
		wanted := a.of.begin
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), wanted) {
				events <- struct{}{}
				wanted = a.of.line
			}
		}
	})
	return events, a.event(events)
}

// event waits for the next event of one.
func (a *answers) event(events <-chan struct{}) error {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case _, ok := <-events:
		if !ok {
			return errors.New("an answer has ended")
		}
		return nil
	case <-limit.C:
		return errors.New("no event came")
	}
}

// more waits for the next event of all.
func (a *answers) more() error {
	for _, events := range a.open {
		if err := a.event(events); err != nil {
			return err
		}
	}
	return nil
}

func (a *answers) close() {
	a.end()
	a.all.Wait()
	a.client.CloseIdleConnections()
}

// measure has more and more answers open over one store.
func (o opening) measure(ctx context.Context, binary, dir string, s *series, times int, progress io.Writer) (err error) {
	t := &town{binary: binary, dir: filepath.Join(dir, o.one)}
	defer func() { err = errors.Join(err, t.close(), os.RemoveAll(t.dir)) }()
	if err := t.fill(ctx, few); err != nil {
		return fmt.Errorf("filling the store: %w", err)
	}
	if err := errors.Join(t.serve(ctx), t.login(ctx)); err != nil {
		return err
	}
	if err := t.revoke(ctx, "growth"); err != nil {
		return err
	}
	a := t.answers(ctx, o)
	defer a.close()
	if _, err := t.repeat(ctx, t.governed(), times); err != nil {
		return err
	}
	without, err := t.program.Memory("VmRSS")
	if err != nil {
		return err
	}
	for event, n := range s.sizes {
		fmt.Fprintf(progress, "%d %s\n", n, s.name)
		before := len(a.open)
		spent, err := t.spent(func() error { return a.until(n) })
		if err != nil {
			return err
		}
		s.add(progress, "opening a "+o.one+", CPU ms", built.Milliseconds(spent)/float64(n-before))
		if spent, err = t.spent(func() error { return errors.Join(o.event(ctx, t, event), a.more()) }); err != nil {
			return err
		}
		s.add(progress, "an event on all, CPU us a "+o.one, float64(spent.Microseconds())/float64(n))
		call, err := t.repeat(ctx, t.governed(), times)
		if err != nil {
			return err
		}
		s.add(progress, "governed call, CPU ms", call)
		memory, err := t.program.Memory("VmRSS")
		if err != nil {
			return err
		}
		s.add(progress, "resident memory, KiB a "+o.one, (memory-without)*1024/float64(n))
	}
	return nil
}

// spent is the program's CPU time during do.
func (t *town) spent(do func() error) (time.Duration, error) {
	before, err := t.program.CPU()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := t.program.CPU()
	return after - before, err
}

// governed is the request of a governed call.
func (t *town) governed() request {
	all := t.requests()
	return all[len(all)-1]
}
