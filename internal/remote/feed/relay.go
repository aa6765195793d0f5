package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// RelayConfig is what a relay needs. Every field but Done is required.
type RelayConfig struct {
	Upstream Config          // what it follows; Carry and Lazy are its own
	Streams  int             // how many are served at once
	Done     <-chan struct{} // streams end when it is closed
}

const (
	// relayKept is how many events a relay passes on to who comes later. They are
	// signed once, and are too old after a while: then the snapshot is read.
	relayKept = 1 << 12
	// relayQueue is how many statements a follower may be behind before its stream
	// ends.
	relayQueue = 256
	// snapshotLife is for how long one snapshot is passed on.
	snapshotLife = time.Second
	// catchUp is how long a follower that knows more than the relay waits for it.
	catchUp = 2 * time.Second
)

// Relay passes the feed on as it is. It has no key, so that it can leave out, hold
// back and repeat, and nothing else; followers notice ([Subscriber]). What does not
// hold under the server's key is not passed on.
type Relay struct {
	config     RelayConfig
	subscriber *Subscriber

	mu        sync.Mutex // guards the fields below
	sequence  int64
	events    []carried // the last, up to sequence, without a gap
	heartbeat carried   // the newest; zero for none
	followers map[*follower]struct{}
	moved     chan struct{} // closed when sequence advances

	fetching sync.Mutex // guards snapshot: who waits for it fetches it for all
	snapshot carried
}

// carried is a statement as it came.
type carried struct {
	sequence int64
	made     time.Time
	text     []byte // a frame of the stream, or a snapshot
}

// follower is one stream.
type follower struct {
	next chan []byte
	lost chan struct{} // closed when it is too slow, or its position has no continuation
}

// NewRelay returns a relay that has heard nothing yet.
func NewRelay(c RelayConfig) (*Relay, error) {
	if c.Streams <= 0 {
		return nil, errors.New("feed: a relay serves at least one stream")
	}
	r := &Relay{config: c, followers: map[*follower]struct{}{}, moved: make(chan struct{})}
	c.Upstream.Carry, c.Upstream.Lazy = r.carry, 0
	var err error
	r.subscriber, err = New(c.Upstream)
	return r, err
}

// Run follows the feed until ctx ends.
func (r *Relay) Run(ctx context.Context) { r.subscriber.Run(ctx) }

// Fresh reports whether the forwarded state is less than a lease old.
func (r *Relay) Fresh() bool { return !r.subscriber.Stale(false) }

// Followers is how many streams are served now.
func (r *Relay) Followers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.followers)
}

// Older says why the server's state is taken for an older copy, "" where it is not.
func (r *Relay) Older() string { return r.subscriber.Older() }

// Sequence is the number that has been reached.
func (r *Relay) Sequence() int64 { return r.subscriber.RevocationSequence() }

// Handler serves what [Publisher.Handler] does.
func (r *Relay) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathSnapshot, r.serveSnapshot)
	mux.HandleFunc("GET "+PathEvents, r.serveEvents)
	return mux
}

// carry takes one statement that holds and passes it on. What the relay itself
// had to read anew does not continue from what followers have: they do the same.
func (r *Relay) carry(typ, compact string, st Statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := time.UnixMilli(st.Time)
	switch typ {
	case TypeEvent:
		c := carried{st.Sequence, made, frame(nameEvent, st.Sequence, compact)}
		if r.events = append(r.events, c); len(r.events) > relayKept {
			r.events = append([]carried(nil), r.events[len(r.events)-relayKept/2:]...)
		}
		r.tell(c.text)
	case TypeHeartbeat:
		r.heartbeat = carried{st.Sequence, made, frame(nameHeartbeat, st.Sequence, compact)}
		r.tell(r.heartbeat.text)
	case TypeSnapshot:
		if st.Sequence == r.sequence {
			return
		}
		r.events, r.heartbeat = nil, carried{}
		for f := range r.followers {
			r.drop(f)
		}
	}
	if st.Sequence != r.sequence {
		r.sequence = st.Sequence
		close(r.moved)
		r.moved = make(chan struct{})
	}
}

// tell gives a frame to every follower. Who has not taken what came before is
// dropped: it comes back, and reads the snapshot.
func (r *Relay) tell(text []byte) {
	for f := range r.followers {
		select {
		case f.next <- text:
		default:
			r.drop(f)
		}
	}
}

// drop is called with the lock.
func (r *Relay) drop(f *follower) {
	delete(r.followers, f)
	close(f.lost)
}

// errFull is a relay that serves as many as it can.
var errFull = errors.New("there are as many streams as are served at once")

// errAhead is a follower that knows more than the relay.
var errAhead = errors.New("less is known here than that number; ask another")

// enter makes a follower of anyone who knows everything up to a number, with what it
// gets first.
func (r *Relay) enter(after int64) (*follower, [][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.followers) >= r.config.Streams {
		return nil, nil, errFull
	}
	if after > r.sequence {
		return nil, nil, errAhead
	}
	oldest := r.config.Upstream.Now().Add(-r.subscriber.Lease() / 2)
	var first [][]byte
	if n := r.sequence - after; n > 0 {
		if n > int64(len(r.events)) || r.events[len(r.events)-int(n)].made.Before(oldest) {
			return nil, nil, errGone
		}
		for _, e := range r.events[len(r.events)-int(n):] {
			first = append(first, e.text)
		}
	}
	if r.heartbeat.sequence == r.sequence && r.heartbeat.made.After(oldest) {
		first = append(first, r.heartbeat.text)
	}
	f := &follower{next: make(chan []byte, relayQueue), lost: make(chan struct{})}
	r.followers[f] = struct{}{}
	return f, first, nil
}

func (r *Relay) leave(f *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followers, f)
}

// await waits for a number to be reached, for a while.
func (r *Relay) await(ctx context.Context, sequence int64) {
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	for {
		r.mu.Lock()
		reached, moved := r.sequence >= sequence, r.moved
		r.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-moved:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *Relay) serveEvents(w http.ResponseWriter, request *http.Request) {
	after, ok := known(w, request)
	if !ok {
		return
	}
	if !r.Fresh() {
		http.Error(w, "the feed is not known here now", http.StatusServiceUnavailable)
		return
	}
	r.await(request.Context(), after)
	f, first, err := r.enter(after)
	switch {
	case errors.Is(err, errGone):
		http.Error(w, "the events behind that number are not kept; read the snapshot", http.StatusGone)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer r.leave(f)
	streams(w.Header())
	if err := r.stream(request.Context(), w, f, first); err != nil && request.Context().Err() == nil {
		r.config.Upstream.Log.InfoContext(request.Context(), "a stream of the revocation feed ended", slog.Any("error", err))
	}
}

func (r *Relay) stream(ctx context.Context, w http.ResponseWriter, f *follower, first [][]byte) error {
	control := http.NewResponseController(w)
	for {
		if err := deadline(w, r.config.Upstream.Now()); err != nil {
			return err
		}
		for _, text := range first {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		if err := control.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.config.Done:
			return nil
		case <-f.lost:
			return errors.New("the follower is too slow, or what it has does not go on")
		case text := <-f.next:
			first = append(first[:0], text)
			for len(f.next) > 0 {
				first = append(first, <-f.next)
			}
		}
	}
}

// serveSnapshot passes a snapshot on, as the one above makes it now. Many who ask
// at once get the same.
func (r *Relay) serveSnapshot(w http.ResponseWriter, request *http.Request) {
	text, err := r.fetch(request.Context())
	if err == nil {
		err = deadline(w, r.config.Upstream.Now())
	}
	if err != nil {
		r.config.Upstream.Log.WarnContext(request.Context(), "no snapshot to pass on", slog.Any("error", err))
		http.Error(w, "the feed cannot be had now", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/jwt")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the client has gone: there is no caller to tell
}

func (r *Relay) fetch(ctx context.Context) ([]byte, error) {
	r.fetching.Lock()
	defer r.fetching.Unlock()
	now := r.config.Upstream.Now()
	if r.snapshot.text != nil && r.snapshot.sequence >= r.Sequence() && now.Sub(r.snapshot.made) < snapshotLife {
		return r.snapshot.text, nil
	}
	body, _, err := r.subscriber.get(ctx, PathSnapshot, "application/jwt")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(body, maxSnapshot+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSnapshot {
		return nil, fmt.Errorf("the snapshot has more than %d bytes", maxSnapshot)
	}
	compact := strings.TrimSpace(string(text))
	var st Statement
	if _, err := signed.Open(TypeSnapshot, r.config.Upstream.Keys, compact, &st); err != nil {
		return nil, err
	}
	if st.Issuer != r.config.Upstream.Issuer || st.Sequence < r.Sequence() {
		return nil, fmt.Errorf("a snapshot is of %q at %d; want %q at %d or more", st.Issuer, st.Sequence, r.config.Upstream.Issuer, r.Sequence())
	}
	r.snapshot = carried{st.Sequence, now, []byte(compact)}
	return r.snapshot.text, nil
}
