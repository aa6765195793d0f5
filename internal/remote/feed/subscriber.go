package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Relayed is a relay of the feed.
type Relayed struct {
	URL       string                    // base URL
	Authorize func(*http.Request) error // nil for none
}

// Config is what a subscriber needs. Every field is required but Relays, Lease,
// Lazy, Floor, Authorize, Moved and Carry.
type Config struct {
	Relays    []Relayed         // followed rather than the server, the first that can be
	Server    string            // base URL of the server, or of a relay
	Issuer    string            // public base URL of the server, as it signs
	Keys      []signed.Public   // its feed keys, pinned
	Transport http.RoundTripper // what it is fetched with
	Lease     time.Duration     // 0 for [MaxLease], which is also the longest
	Lazy      time.Duration     // verify anew by the snapshot so often, and follow no stream; 0 to follow it (EXT-17)
	Floor     int64             // number that was reached before, below which nothing is believed
	Authorize func(*http.Request) error
	Moved     func(sequence int64) // called with every number that is reached
	// Carry is called with every statement that was believed, one after the other.
	Carry func(typ, compact string, st Statement)
	Now   func() time.Time // with a monotonic reading, as time.Now
	Log   *slog.Logger
}

// Subscriber follows the feed. It is a gate.Revocations: its answers take no
// lock.
type Subscriber struct {
	config Config
	set    atomic.Pointer[set]

	distrusted atomic.Bool            // nothing is believed, whatever the lease says
	older      atomic.Pointer[string] // why the server's state is not believed; nil for no reason

	at atomic.Int64 // place of the origin that is followed: relays, then the server

	mu     sync.Mutex // guards what replaces set, and the fields below
	synced bool       // whether the state is the server's, as of its number
	last   int64      // time of the newest statement that was believed, Unix milliseconds
	heard  time.Time  // when a statement came last
	timer  *time.Timer
}

// set is everything that a check reads, replaced as a whole.
type set struct {
	State
	lease    period
	extended period
	changed  chan struct{} // closed when an answer may have become another one
}

// period is a time from a moment on. It is over as soon as one of the two
// clocks says so: the monotonic one stands still while a machine sleeps, the
// other can be set back.
type period struct {
	from time.Time
	long time.Duration
}

func (p period) over(now time.Time) bool {
	return p.long <= 0 || now.Sub(p.from) >= p.long || now.Round(0).Sub(p.from.Round(0)) >= p.long
}

// left is how long the period continues, 0 where it is over.
func (p period) left(now time.Time) time.Duration {
	if p.over(now) {
		return 0
	}
	return p.long - now.Sub(p.from)
}

// New returns a subscriber that has heard nothing yet, and so is stale.
func New(c Config) (*Subscriber, error) {
	if err := missing.Fields("feed", c, "Server", "Issuer", "Keys", "Transport", "Now", "Log"); err != nil {
		return nil, err
	}
	if c.Lease == 0 {
		c.Lease = MaxLease
	}
	if c.Lease < 0 || c.Lease > MaxLease {
		return nil, fmt.Errorf("feed: a lease of %v; want at most %v", c.Lease, MaxLease)
	}
	if c.Lazy < 0 || c.Lazy > c.Lease/2 {
		return nil, fmt.Errorf("feed: verified anew every %v; want at most %v, half of the lease", c.Lazy, c.Lease/2)
	}
	s := &Subscriber{config: c}
	s.set.Store(&set{State: State{Sequence: c.Floor}, changed: make(chan struct{})})
	s.timer = time.AfterFunc(time.Hour, s.ended)
	s.timer.Stop()
	return s, nil
}

// Revoked implements gate.Revocations.
func (s *Subscriber) Revoked(id string) bool { return s.set.Load().Revoked(id) }

// Ended implements gate.Revocations.
func (s *Subscriber) Ended(of, name string, issued time.Time) bool {
	return s.set.Load().Ended(of, name, issued)
}

// Frozen implements gate.Revocations.
func (s *Subscriber) Frozen(id string) bool { return s.set.Load().Frozen(id) }

// RevocationSequence implements gate.Revocations.
func (s *Subscriber) RevocationSequence() int64 { return s.set.Load().Sequence }

// Changed implements gate.Revocations. The end of the lease is a change.
func (s *Subscriber) Changed() <-chan struct{} { return s.set.Load().changed }

// Lease is for how long the answers are good without news.
func (s *Subscriber) Lease() time.Duration { return s.config.Lease }

// Stale implements gate.Revocations: it reports that the lease is over, and
// with it the operator's extension, which is for calls that only read.
func (s *Subscriber) Stale(reads bool) bool {
	now, set := s.config.Now(), s.set.Load()
	if s.distrusted.Load() {
		return true
	}
	return set.lease.over(now) && (!reads || set.extended.over(now))
}

// Older says why the server's state is taken for an older copy, "" where it is not.
func (s *Subscriber) Older() string {
	if why := s.older.Load(); why != nil {
		return *why
	}
	return ""
}

// Distrust has nothing of the server believed any more: its state is an older copy of
// an earlier one. Answers are stale from now on.
func (s *Subscriber) Distrust(why string) {
	s.older.Store(&why)
	s.distrusted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.set.Load()
	next := *old
	next.changed = make(chan struct{})
	s.set.Store(&next)
	close(old.changed)
}

// Run follows the feed until ctx ends, over whatever goes wrong.
func (s *Subscriber) Run(ctx context.Context) {
	const shortest, longest = 50 * time.Millisecond, 2 * time.Second
	for wait := shortest; ctx.Err() == nil; {
		before := s.RevocationSequence()
		heard, err := s.hearFor(ctx)
		if ctx.Err() != nil {
			break
		}
		s.noteOlder(heard, err)
		if err == nil {
			wait = shortest
			pause(ctx, s.config.Lazy)
			continue
		}
		if errors.Is(err, errReturn) {
			continue
		}
		s.config.Log.WarnContext(ctx, "the revocation feed was lost", slog.String("from", s.origin().URL), slog.Any("error", err), slog.Bool("stale", s.Stale(false)))
		if heard || s.RevocationSequence() != before {
			wait = shortest
		}
		if !errors.Is(err, errEnded) && !errors.Is(err, errGone) || !heard {
			s.at.Store((s.at.Load() + 1) % int64(len(s.config.Relays)+1))
		}
		pause(ctx, wait+rand.N(wait)) //nolint:gosec // so that not all come back at once; nothing secret
		wait = min(2*wait, longest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
}

// noteOlder remembers that the sequence went back, until something newer is heard.
func (s *Subscriber) noteOlder(heard bool, err error) {
	switch {
	case errors.Is(err, errBack):
		why := err.Error()
		s.older.Store(&why)
	case (heard || err == nil) && !s.distrusted.Load():
		s.older.Store(nil)
	}
}

// returnAfter is how long another origin than the first is followed before the
// first is tried again.
const returnAfter = 5 * time.Minute

// errReturn is that time's end.
var errReturn = errors.New("the first relay is tried again")

// origin is where the feed is followed now.
func (s *Subscriber) origin() Relayed {
	if n := int(s.at.Load()); n < len(s.config.Relays) {
		return s.config.Relays[n]
	}
	return Relayed{s.config.Server, s.config.Authorize}
}

// hearFor listens to one origin, to another than the first not for ever.
func (s *Subscriber) hearFor(ctx context.Context) (heard bool, err error) {
	if s.at.Load() == 0 {
		return s.hear(ctx)
	}
	within, cancel := context.WithTimeoutCause(ctx, returnAfter, errReturn)
	defer cancel()
	heard, err = s.hear(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		s.at.Store(0)
		return heard, errReturn
	}
	return heard, err
}

// hear listens until something fails, or, where it is lazy, asks once: then no
// error means that everything is known as of now.
func (s *Subscriber) hear(ctx context.Context) (heard bool, err error) {
	if s.config.Lazy > 0 {
		return false, s.readSnapshot(ctx)
	}
	return s.follow(ctx)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// errAgain marks a statement that does not follow the known ones.
var errAgain = errors.New("the state has to be read anew")

// errBack is a rollback. It is never followed: anyone who has gone back lacks what
// was stopped since.
var errBack = errors.New("the sequence has gone back")

// follow reads the snapshot where that is needed, and then the stream. It
// returns whether anything new was believed.
func (s *Subscriber) follow(ctx context.Context) (heard bool, err error) {
	if !s.inSync() {
		if err := s.readSnapshot(ctx); err != nil {
			return false, err
		}
		heard = true
	}
	more, err := s.readEvents(ctx)
	if !errors.Is(err, errEnded) {
		// Something was refused, or nothing came: what carries the stream is not
		// to be relied on, and the snapshot says it all.
		s.mu.Lock()
		s.synced = false
		s.mu.Unlock()
	}
	return heard || more, err
}

func (s *Subscriber) inSync() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// newest is the time of the newest statement that was believed.
func (s *Subscriber) newest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// errEnded is the end of a stream that said nothing wrong.
var errEnded = errors.New("the stream has ended")

// errGone is a stream that does not reach back to the known number.
var errGone = errors.New("the events behind what is known are not kept there")

// get opens one resource of the feed. It fails where nothing at all is heard
// for half of the lease, while there is time to ask again; the returned function
// is called with every sign of life.
func (s *Subscriber) get(ctx context.Context, path, accept string) (body io.ReadCloser, alive func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(s.config.Lease/2, func() { cancel(errors.New("nothing was heard for half of the lease")) })
	closing := func() error { silence.Stop(); cancel(nil); return nil }
	from := s.origin()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(from.URL, "/")+path, nil)
	if err == nil && from.Authorize != nil {
		err = from.Authorize(request)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	request.Header.Set("Accept", accept)
	response, err := s.config.Transport.RoundTrip(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, nil, errors.Join(err, closing())
	}
	if response.StatusCode == http.StatusGone {
		return nil, nil, errors.Join(errGone, response.Body.Close(), closing())
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, errors.Join(fmt.Errorf("%s answers %s", path, response.Status), response.Body.Close(), closing())
	}
	return closer{response.Body, closing}, func() { silence.Reset(s.config.Lease / 2) }, nil
}

// closer closes more than its body.
type closer struct {
	io.ReadCloser
	also func() error
}

// Close implements io.Closer.
func (c closer) Close() error { return errors.Join(c.also(), c.ReadCloser.Close()) }

func (s *Subscriber) readSnapshot(ctx context.Context) error {
	body, _, err := s.get(ctx, PathSnapshot, "application/jwt")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(body, maxSnapshot+1))
	if err != nil {
		return err
	}
	if len(text) > maxSnapshot {
		return fmt.Errorf("the snapshot has more than %d bytes", maxSnapshot)
	}
	return s.believe(TypeSnapshot, strings.TrimSpace(string(text)))
}

func (s *Subscriber) readEvents(ctx context.Context) (heard bool, err error) {
	after := strconv.FormatInt(s.RevocationSequence(), 10)
	body, alive, err := s.get(ctx, PathEvents+"?after="+after, "text/event-stream")
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }() // it has ended
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 4096), maxStatement)
	name := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			typ, before := map[string]string{nameEvent: TypeEvent, nameHeartbeat: TypeHeartbeat}[name], s.newest()
			if err := s.believe(typ, value); err != nil {
				return heard, err
			}
			heard = true
			if s.newest() > before {
				alive() // a repeated statement is no sign of life
			}
		}
	}
	if err := lines.Err(); err != nil {
		return heard, err
	}
	return heard, errEnded
}

// believe opens one statement and takes over what it says.
func (s *Subscriber) believe(typ, compact string) error {
	var st Statement
	if _, err := signed.Open(typ, s.config.Keys, compact, &st); err != nil {
		return err
	}
	if st.Issuer != s.config.Issuer {
		return fmt.Errorf("a statement is of %q; want %q", st.Issuer, s.config.Issuer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	s.last -= s.setBack(now).Milliseconds()
	age := now.Sub(time.UnixMilli(st.Time)) // the server's time has no monotonic reading
	if age >= s.config.Lease || age < -MaxLease {
		return fmt.Errorf("a statement is %v old by the clock here; compare the clocks", age.Truncate(time.Millisecond))
	}
	if st.Time < s.last-min(maxSkew, s.config.Lease/4).Milliseconds() {
		return errors.New("a statement is older than the one before it")
	}
	old := s.set.Load()
	next := &set{State: old.State, lease: old.lease, extended: old.extended, changed: old.changed}
	if err := next.take(typ, st, now); err != nil {
		return err
	}
	s.replace(old, next, typ, st, now)
	if s.config.Carry != nil {
		s.config.Carry(typ, compact, st)
	}
	return nil
}

// setBack is how far the wall clock here was set back since the statement before, by more
// than skew. Statements of a clock that was ahead must not shut out all that follow them
// until it is that late.
func (s *Subscriber) setBack(now time.Time) time.Duration {
	before := s.heard
	s.heard = now
	if before.IsZero() {
		return 0
	}
	back := now.Sub(before) - now.Round(0).Sub(before.Round(0))
	if back <= maxSkew {
		return 0
	}
	return back
}

// maxSkew is how much older a statement may be than the one before it: two nodes
// of a server have two clocks, and two relays two ways.
const maxSkew = 2 * time.Second

// take makes the state what a statement says.
func (n *set) take(typ string, st Statement, now time.Time) error {
	var err error
	switch {
	case st.Sequence < n.Sequence:
		return fmt.Errorf("%w: to %d, from %d that was known; the server may have been restored from an old backup", errBack, st.Sequence, n.Sequence)
	case typ == TypeSnapshot:
		n.State, err = fromSnapshot(st, steady.Over(now))
	case typ == TypeEvent && st.Event != nil && st.Event.Sequence == st.Sequence:
		if st.Sequence == n.Sequence {
			return fmt.Errorf("event %d came twice", st.Sequence)
		}
		if n.State, err = n.Apply(*st.Event, steady.Over(now)); err != nil {
			return fmt.Errorf("%w: %w", errAgain, err)
		}
	case typ == TypeHeartbeat && st.Event == nil:
		if st.Sequence != n.Sequence {
			return fmt.Errorf("%w: the sequence is at %d, and %d is known", errAgain, st.Sequence, n.Sequence)
		}
	default:
		err = errors.New("a statement says something else than its type")
	}
	if err == nil && n.Digest != st.Digest {
		err = fmt.Errorf("%w: the events up to %d are others than those that are known", errAgain, st.Sequence)
	}
	return err
}

// replace puts the next set in place, with its lease: an event says nothing
// about how far the sequence has come since.
func (s *Subscriber) replace(old, next *set, typ string, st Statement, now time.Time) {
	age := max(now.Sub(time.UnixMilli(st.Time)), 0)
	stale := old.lease.over(now)
	// One that is older than another renews nothing, and ends nothing early.
	if fresh := (period{now, s.config.Lease - age}); typ != TypeEvent && (st.Time > s.last || old.lease.left(now) < fresh.left(now)) {
		next.lease = fresh
	}
	s.last = max(s.last, st.Time)
	if !next.State.extended.Equal(old.State.extended) || typ == TypeSnapshot {
		next.extended = period{}
		if next.State.extended.After(now) {
			next.extended = period{now, min(next.State.extended.Sub(now.Round(0)), maxExtension)}
		}
	}
	s.synced = s.synced || typ == TypeSnapshot
	if typ != TypeHeartbeat || stale {
		next.changed = make(chan struct{})
		defer close(old.changed)
	}
	s.set.Store(next)
	s.wind(next, now)
	if next.Sequence != old.Sequence && s.config.Moved != nil {
		s.config.Moved(next.Sequence)
	}
}

// wind sets the timer to the next moment at which answers become stale.
func (s *Subscriber) wind(n *set, now time.Time) {
	left := n.lease.left(now)
	if left == 0 {
		left = n.extended.left(now)
	}
	if left > 0 {
		s.timer.Reset(left)
	}
}

// ended tells everybody who waits that answers have become stale.
func (s *Subscriber) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, now := s.set.Load(), s.config.Now()
	if left := old.lease.left(now); left > 0 {
		s.timer.Reset(left)
		return
	}
	next := *old
	next.changed = make(chan struct{})
	s.set.Store(&next)
	close(old.changed)
	s.wind(&next, now)
}
