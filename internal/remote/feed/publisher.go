package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Source is where the events come from. Two events never share a number, and
// an event never changes.
type Source interface {
	// Events returns the events behind a number, in order, without a gap.
	Events(ctx context.Context, after int64) ([]Event, error)
	// Changed returns a channel that is closed when there may be more of them.
	Changed() <-chan struct{}
}

// PublisherConfig is what a publisher needs. Every field but Done is required.
type PublisherConfig struct {
	Source    Source
	Key       signed.Key
	Issuer    string          // public base URL of the server
	Heartbeat time.Duration   // between two heartbeats
	Streams   int             // how many are served at once
	Done      <-chan struct{} // streams end when it is closed
	Now       func() time.Time
	Log       *slog.Logger
}

const (
	// keptEvents is how many events a stream can begin behind. Who is further
	// behind reads the snapshot.
	keptEvents = 1 << 14
	// writeTime is how long a subscriber may take for one statement.
	writeTime = 10 * time.Second
)

// Publisher signs and serves the feed.
type Publisher struct {
	config PublisherConfig

	mu      sync.Mutex // guards the fields below
	state   State
	kept    []stamped // the last events, up to that of state
	streams int
	seen    <-chan struct{} // of the source, as it was when it was last read
	read    time.Time       // when that was

	signing sync.Mutex // guards signed
	signed  map[string]statement
}

// statement is signed once for many subscribers.
type statement struct {
	sequence int64
	compact  string
	at       time.Time
}

// sharedFor is how long one signature serves everybody. Subscribers take the time
// of a statement as the newest known time, so it is short.
const sharedFor = 200 * time.Millisecond

// stamped is an event with the digest after it.
type stamped struct {
	event  Event
	digest Digest
}

// NewPublisher returns the publisher of a source.
func NewPublisher(c PublisherConfig) (*Publisher, error) {
	if err := missing.Fields("feed", c, "Source", "Key", "Issuer", "Now", "Log"); err != nil {
		return nil, err
	}
	if c.Heartbeat <= 0 || c.Heartbeat > MaxLease/2 || c.Streams <= 0 {
		return nil, fmt.Errorf("feed: heartbeats every %v, %d streams; want a time up to %v, half of the longest lease, and at least one stream", c.Heartbeat, c.Streams, MaxLease/2)
	}
	return &Publisher{config: c, signed: map[string]statement{}}, nil
}

// Handler serves [PathSnapshot] and [PathEvents].
func (p *Publisher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathSnapshot, p.snapshot)
	mux.HandleFunc("GET "+PathEvents, p.events)
	return mux
}

// advance takes over what the source has by now.
func (p *Publisher) advance(ctx context.Context) (State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The channel first: what comes after the look closes it. So many streams wake
	// up at once that one has to read for all.
	seen, now := p.config.Source.Changed(), p.config.Now()
	if seen == p.seen && now.Sub(p.read) < sharedFor {
		return p.state, nil
	}
	events, err := p.config.Source.Events(ctx, p.state.Sequence)
	if err != nil {
		return p.state, err
	}
	p.seen, p.read = seen, now
	for _, e := range events {
		next, err := p.state.Apply(e, steady.Over(p.config.Now()))
		if err != nil {
			return p.state, err
		}
		p.state, p.kept = next, append(p.kept, stamped{e, next.Digest})
	}
	if over := len(p.kept) - keptEvents; over > 0 {
		p.kept = append([]stamped(nil), p.kept[over:]...)
	}
	return p.state, nil
}

// behind returns the state and the events behind a number up to it, and false
// where they are not kept.
func (p *Publisher) behind(after int64) (State, []stamped, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.state.Sequence - after
	if n <= 0 {
		return p.state, nil, true
	}
	if n > int64(len(p.kept)) {
		return p.state, nil, false
	}
	return p.state, append([]stamped(nil), p.kept[int64(len(p.kept))-n:]...), true
}

func (p *Publisher) sign(typ string, st Statement) (string, error) {
	st.Issuer, st.Time = p.config.Issuer, p.config.Now().UnixMilli()
	return p.config.Key.Sign(typ, st)
}

// signOnce is sign for what everybody gets at about the same time.
func (p *Publisher) signOnce(typ string, sequence int64, st func() Statement) (string, error) {
	name := typ
	if typ == TypeEvent {
		name = fmt.Sprintf("%s %d", typ, sequence%sharedEvents)
	}
	p.signing.Lock()
	defer p.signing.Unlock()
	now := p.config.Now()
	if made, ok := p.signed[name]; ok && made.sequence == sequence && now.Sub(made.at) < sharedFor {
		return made.compact, nil
	}
	compact, err := p.sign(typ, st())
	if err == nil {
		p.signed[name] = statement{sequence, compact, now}
	}
	return compact, err
}

// sharedEvents is how many events are signed once for many.
const sharedEvents = 64

func (p *Publisher) snapshot(w http.ResponseWriter, r *http.Request) {
	state, err := p.advance(r.Context())
	compact := ""
	if err == nil {
		compact, err = p.signOnce(TypeSnapshot, state.Sequence, func() Statement {
			return Statement{Sequence: state.Sequence, Digest: state.Digest, Entries: state.Entries(steady.Over(p.config.Now()))}
		})
	}
	if err == nil {
		err = deadline(w, p.config.Now())
	}
	if err != nil {
		p.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/jwt")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, compact) // the client has gone: there is no caller to tell
}

func (p *Publisher) failed(w http.ResponseWriter, r *http.Request, err error) {
	p.config.Log.ErrorContext(r.Context(), "the revocation feed cannot be served", slog.Any("error", err))
	http.Error(w, "the feed cannot be served now", http.StatusServiceUnavailable)
}

// frame is one event of a stream.
func frame(name string, sequence int64, compact string) []byte {
	return fmt.Appendf(nil, "event: %s\nid: %d\ndata: %s\n\n", name, sequence, compact)
}

// deadline bounds the next write: who reads too slowly is dropped.
func deadline(w http.ResponseWriter, now time.Time) error {
	return http.NewResponseController(w).SetWriteDeadline(now.Add(writeTime))
}

// known reads the number of the last event that a subscriber has. It answers a request without one.
func known(w http.ResponseWriter, r *http.Request) (after int64, ok bool) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if ok = err == nil && after >= 0; !ok {
		http.Error(w, "after must be the number of the last event that is known, from 0", http.StatusBadRequest)
	}
	return after, ok
}

// streams sets the headers of an answer that is a stream of events.
func streams(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

func (p *Publisher) events(w http.ResponseWriter, r *http.Request) {
	after, ok := known(w, r)
	if !ok {
		return
	}
	if !p.enter() {
		http.Error(w, "there are as many streams as are served at once", http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	if _, err := p.advance(r.Context()); err != nil {
		p.failed(w, r, err)
		return
	}
	if _, _, ok := p.behind(after); !ok {
		http.Error(w, "the events behind that number are not kept; read the snapshot", http.StatusGone)
		return
	}
	streams(w.Header())
	if err := p.stream(w, r, after); err != nil {
		p.config.Log.InfoContext(r.Context(), "a stream of the revocation feed ended", slog.Any("error", err))
	}
}

func (p *Publisher) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams >= p.config.Streams {
		return false
	}
	p.streams++
	return true
}

func (p *Publisher) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams--
}

// stream sends the events behind a number, a heartbeat, and then either as it
// comes: a heartbeat after every event, too, since it alone says how far the
// sequence has come.
func (p *Publisher) stream(w http.ResponseWriter, r *http.Request, after int64) error {
	tick := time.NewTicker(p.config.Heartbeat)
	defer tick.Stop()
	for {
		// The channel first: an event that is stored after the look closes it.
		changed := p.config.Source.Changed()
		if _, err := p.advance(r.Context()); err != nil {
			return err
		}
		state, events, ok := p.behind(after)
		if !ok {
			return errors.New("the subscriber fell behind what is kept")
		}
		for _, e := range events {
			if err := p.send(w, nameEvent, TypeEvent, Statement{Sequence: e.event.Sequence, Digest: e.digest, Event: &e.event}); err != nil {
				return err
			}
			after = e.event.Sequence
		}
		if err := p.send(w, nameHeartbeat, TypeHeartbeat, Statement{Sequence: state.Sequence, Digest: state.Digest}); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-p.config.Done:
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// send writes one event of the stream.
func (p *Publisher) send(w http.ResponseWriter, name, typ string, st Statement) error {
	compact, err := p.signOnce(typ, st.Sequence, func() Statement { return st })
	if err != nil {
		return err
	}
	if err := deadline(w, p.config.Now()); err != nil {
		return err
	}
	if _, err := w.Write(frame(name, st.Sequence, compact)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
