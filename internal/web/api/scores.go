package api

import (
	"context"
	"crypto/cipher"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/trust"
)

// RecordLog is the log of records in its order.
type RecordLog interface {
	// From returns the records from a place on, a bounded number of them; none at
	// the end of the log.
	From(ctx context.Context, place int64) ([]evidence.Sealed, error)
	// Begins returns the place of the first record that is there: 0, unless others
	// were archived.
	Begins(ctx context.Context) (int64, error)
}

// The times of scores.
const (
	// scoresEvery is how often new records are taken over.
	scoresEvery = time.Second
	// scoresLife is for how long levels hold that could not be brought up to date. After it
	// all callers are of the lowest.
	scoresLife = 30 * time.Second
	// scoresChunk is how many records are taken over before others may read the scores, and
	// scoresLook how many a page takes over. Behind a start, a page does not wait for all.
	scoresChunk = 500
	scoresLook  = 5000
	// catchUpChunks is how many times that many are taken over behind the log.
	catchUpChunks = 4
)

// Scores are the scores of the protected agents, from the evidence of the store
// (EXT-18). They follow the log by reading it, so that anyone who appends to it does
// nothing for them. Its methods can be called by many goroutines.
type Scores struct {
	Log    RecordLog
	Agents func() []string // that are protected here; all others are of the lowest level
	// Named reports whether an origin on record is one that the operator has a name
	// for. Optional: none is.
	Named func(origin string) bool
	Now   func() time.Time
	Slog  *slog.Logger
	// Kept keeps the ledger over a restart, sealed with Seal. Both or neither.
	Kept LedgerStore
	Seal cipher.AEAD

	levels  atomic.Pointer[levels]
	keeping sync.Mutex // held while the ledger is being kept

	mu      sync.Mutex // guards the fields below
	ledger  ledger
	loaded  bool // the kept ledger has been read
	reading bool // a page found it behind, and the rest of the log is being read
}

// levels are those of all agents, as of a time.
type levels struct {
	of map[string]trust.Level
	at time.Time
}

// Update brings the scores up to date.
func (s *Scores) Update(ctx context.Context) error {
	for {
		if all, err := s.advance(ctx, true); err != nil || all {
			return err
		}
	}
}

// advance takes over some records, and keeps the ledger now and then. It learns the levels when
// these are all, if they are wanted.
func (s *Scores) advance(ctx context.Context, levels bool) (all bool, err error) {
	all, draft, err := s.take(ctx, levels)
	if draft != nil {
		s.keep(ctx, draft)
	}
	return all, err
}

// take takes over some records. It returns the ledger where it is to be kept, nil otherwise.
func (s *Scores) take(ctx context.Context, wanted bool) (all bool, due *draft, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return false, nil, err
	}
	all, err = s.ledger.follow(ctx, s.Log, scoresChunk)
	if s.due() {
		due = s.draft(ctx)
	}
	if err != nil || !all || !wanted {
		return all, due, err
	}
	now := s.Now()
	l := &levels{of: map[string]trust.Level{}, at: now}
	for _, agent := range s.Agents() {
		l.of[agent] = trust.Of(s.ledger.book.History(agent, now)).Level
	}
	s.levels.Store(l)
	return true, due, nil
}

// recent takes over the newest records for a page, and reports whether there are more. Those
// are read while the page is shown: the next pages have them. It is called with the lock.
func (s *Scores) recent(ctx context.Context) (behind bool, err error) {
	if err := s.load(ctx); err != nil {
		return true, err
	}
	all, err := s.ledger.follow(ctx, s.Log, scoresLook)
	if err == nil && (!all || s.due()) && !s.reading {
		s.reading = true
		go s.readOn(context.WithoutCancel(ctx))
	}
	return !all, err
}

// readOn reads the rest of the log. It ends with the store at the latest.
func (s *Scores) readOn(ctx context.Context) {
	err := s.Update(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err != nil {
		s.Slog.WarnContext(ctx, "the rest of the log was not read for the graph; the next page about it tries again", slog.Any("error", err))
	}
}

// Follow brings the scores up to date again and again, until ctx ends.
func (s *Scores) Follow(ctx context.Context) {
	periodic.Later(ctx, scoresEvery, func(ctx context.Context) {
		if err := s.Update(ctx); err != nil && ctx.Err() == nil {
			s.Slog.ErrorContext(ctx, "the scores of agents are not brought up to date", slog.Any("error", err))
		}
	})
}

// CatchUp takes over a bounded number of new records, and reports whether these are all. It
// learns no levels. Called now and then, it leaves a page few records to read, also
// after a long time without a look.
func (s *Scores) CatchUp(ctx context.Context) (all bool, err error) {
	for range catchUpChunks {
		if all, err := s.advance(ctx, false); err != nil || all {
			return all, err
		}
	}
	return false, nil
}

// Level returns the level of an agent, the lowest where it is not known now
// (EXT-18, ATK-52).
func (s *Scores) Level(agent string) trust.Level {
	return s.Levels()[agent].OrNone()
}

// Levels returns the levels of all agents, none where they are not known now.
func (s *Scores) Levels() map[string]trust.Level {
	if l := s.levels.Load(); l != nil && s.Now().Sub(l.at) <= scoresLife {
		return l.of
	}
	return nil
}

// Score is an agent's score and its components.
type Score struct {
	Agent string    `json:"agent"`
	AsOf  time.Time `json:"as_of"`
	trust.Report
	Counts  trust.Counts `json:"counts"`
	Broken  bool         `json:"broken_chain"`
	Renewed *time.Time   `json:"credentials_renewed,omitempty"` // absent where unknown
}

// NewScore words the score of an agent.
func NewScore(agent string, h trust.History) Score {
	s := Score{Agent: agent, AsOf: h.AsOf.UTC(), Report: trust.Of(h), Counts: h.Counts, Broken: h.Broken}
	if !h.Renewed.IsZero() {
		at := h.Renewed.UTC()
		s.Renewed = &at
	}
	return s
}

// Of returns the score of an agent as of a time: of now where that is zero.
func (s *Scores) Of(ctx context.Context, agent string, at time.Time) (Score, error) {
	if !slices.Contains(s.Agents(), agent) {
		return Score{}, status{http.StatusNotFound, unknownAgent(agent)}
	}
	if !at.IsZero() {
		then := ledger{book: trust.Book{Until: at}}
		_, err := then.follow(ctx, s.Log, math.MaxInt)
		return NewScore(agent, then.book.History(agent, at)), err
	}
	if err := s.Update(ctx); err != nil {
		return Score{}, errors.Join(errors.New("the evidence cannot be read"), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return NewScore(agent, s.ledger.book.History(agent, s.Now())), nil
}

func (a *Admin) trust(r *http.Request) (any, error) {
	var at time.Time
	if text := r.URL.Query().Get("at"); text != "" {
		var err error
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, status{http.StatusBadRequest, "at must be a time such as 2026-01-02T15:04:05Z"}
		}
	}
	return a.Scores.Of(r.Context(), r.PathValue("agent"), at)
}
