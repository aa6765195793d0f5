package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/trust"
)

// LedgerStore keeps the ledger of scores over a restart (ADR 150).
type LedgerStore interface {
	// Ledger returns the ledger that was kept last, nil for nothing.
	Ledger(ctx context.Context) ([]byte, error)
	// KeepLedger keeps a ledger of so many records, durably and as a whole or not at all. One of
	// as many records or more stays. No body removes it.
	KeepLedger(ctx context.Context, place int64, body []byte) error
	// Records returns how many records the log has.
	Records(ctx context.Context) (int64, error)
	// Tree returns the stored tree, for one goroutine.
	Tree(ctx context.Context) tlog.HashReader
}

// How often the ledger is kept.
const (
	// ledgerEvery is how many records come between two, at the least: what a restart behind a
	// crash reads again.
	ledgerEvery = 50_000
	// ledgerShare is how many bytes of a ledger are written for one record, at the most.
	ledgerShare = 50
	// ledgerForm is the form of a kept ledger. One of another form is not read.
	ledgerForm = "powerbox ledger 1"
)

// ledger is a book with its place in the log. Every record is checked for the links of a
// chain, except for its signature, which takes an export to check.
type ledger struct {
	book   trust.Book
	chains map[evidence.ChainID]evidence.Head // of the next record
	place  int64
	edge   []tlog.Hash // of the tree of the records before place, largest subtree first
	midway bool        // it was not read from the beginning: archived records are missing
	named  func(origin string) bool
	edges  func(ctx context.Context, size int64) ([]tlog.Hash, error) // of the stored tree; nil where it does not matter
	seen   seen

	kept int64 // the place of the ledger that was kept last
	size int   // its bytes
}

// follow takes over about as many of the records behind its place in the log as most, and
// reports whether these are all.
func (l *ledger) follow(ctx context.Context, log RecordLog, most int) (all bool, err error) {
	begins, err := log.Begins(ctx)
	if err != nil {
		return false, err
	}
	if l.place < begins {
		if err := l.skip(ctx, begins); err != nil {
			return false, err
		}
	}
	for taken := 0; taken < most; {
		sealed, err := log.From(ctx, l.place)
		if err != nil || len(sealed) == 0 {
			return err == nil, err
		}
		for _, s := range sealed {
			l.add(s)
		}
		taken += len(sealed)
	}
	return false, nil
}

// skip begins anew behind records that were archived.
func (l *ledger) skip(ctx context.Context, begins int64) error {
	next := ledger{book: trust.Book{Until: l.book.Until}, place: begins, midway: true, named: l.named, edges: l.edges}
	if l.edges != nil {
		var err error
		if next.edge, err = l.edges(ctx, begins); err != nil {
			return err
		}
	}
	*l = next
	return nil
}

func (l *ledger) add(s evidence.Sealed) {
	r := s.Record()
	if l.chains == nil {
		l.chains = map[evidence.ChainID]evidence.Head{}
	}
	next, known := l.chains[r.Details.ChainID]
	switch {
	case !known && l.midway && r.Details.Sequence > 0:
		next = evidence.Head{ChainID: r.Details.ChainID, Sequence: r.Details.Sequence, Hash: s.Prev()}
	case !known:
		next = evidence.Genesis(r.Details.ChainID)
	}
	if s.CheckHash() != nil || r.Details.Sequence != next.Sequence || s.Prev() != next.Hash {
		l.book.Break(r.AgentID)
	}
	l.chains[r.Details.ChainID] = s.Head()
	l.book.Add(r)
	if l.named != nil {
		l.seen.add(r, l.named)
	}
	if l.edges != nil {
		l.grow(tlog.RecordHash(evidence.Leaf(s)))
	}
	l.place++
}

// grow adds a leaf to the tree of the records so far.
func (l *ledger) grow(hash tlog.Hash) {
	whole := len(l.edge)
	for range bits.TrailingZeros64(^uint64(l.place)) {
		whole--
		hash = tlog.NodeHash(l.edge[whole], hash)
	}
	l.edge = append(l.edge[:whole], hash)
}

// keptLedger is a ledger as it is kept.
type keptLedger struct {
	Place  int64           `json:"place"`
	Edge   []tlog.Hash     `json:"edge"`
	Midway bool            `json:"midway,omitempty"`
	Chains []evidence.Head `json:"chains"`
	Book   *trust.Book     `json:"book"`
	Seen   keptSeen        `json:"seen"`
}

func (l *ledger) marshal() ([]byte, error) {
	k := keptLedger{Place: l.place, Edge: l.edge, Midway: l.midway, Book: &l.book, Seen: l.seen.keep()}
	for _, head := range l.chains {
		k.Chains = append(k.Chains, head)
	}
	return json.Marshal(k)
}

func (l *ledger) unmarshal(body []byte) error {
	var k keptLedger
	if err := json.Unmarshal(body, &k); err != nil {
		return err
	}
	if k.Place <= 0 || k.Book == nil || len(k.Edge) != bits.OnesCount64(uint64(k.Place)) {
		return errors.New("it is not whole")
	}
	l.place, l.edge, l.midway, l.book, l.kept, l.size = k.Place, k.Edge, k.Midway, *k.Book, k.Place, len(body)
	l.chains = make(map[evidence.ChainID]evidence.Head, len(k.Chains))
	for _, head := range k.Chains {
		l.chains[head.ChainID] = head
	}
	var err error
	l.seen, err = k.Seen.read()
	return err
}

// storedEdge returns the roots of the whole subtrees that the first records of the log are made
// of, largest first; none where it has fewer.
func (s *Scores) storedEdge(ctx context.Context, size int64) ([]tlog.Hash, error) {
	has, err := s.Kept.Records(ctx)
	if err != nil || has < size {
		return nil, err
	}
	edge, err := s.Kept.Tree(ctx).ReadHashes(evidence.Edge(size))
	slices.Reverse(edge)
	return edge, err
}

// begin is a ledger of no record.
func (s *Scores) begin() ledger {
	l := ledger{named: s.Named}
	if s.Kept != nil {
		l.edges = s.storedEdge
	}
	return l
}

// load continues what an earlier process kept, where it is of exactly the records of this log.
// Otherwise the log is read from its beginning. It is called with the lock.
func (s *Scores) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	l := s.begin()
	if s.Kept != nil {
		sealed, err := s.Kept.Ledger(ctx)
		if err != nil {
			return err
		}
		if sealed != nil {
			wrong, err := s.open(ctx, sealed, &l)
			if err != nil {
				return err
			}
			if wrong == nil {
				s.Slog.InfoContext(ctx, "scores and graph continue from what was kept", slog.Int64("records", l.place))
			} else {
				l = s.begin()
				s.Slog.WarnContext(ctx, "what was kept of scores and graph is not used; the log is read again from its beginning", slog.Any("error", wrong))
				if err := s.Kept.KeepLedger(ctx, 0, nil); err != nil {
					return err
				}
			}
		}
	}
	s.ledger, s.loaded = l, true
	return nil
}

// open reads a kept ledger. wrong is why it is not used.
func (s *Scores) open(ctx context.Context, sealed []byte, l *ledger) (wrong, err error) {
	body, wrong := s.Seal.Open(nil, nil, sealed, []byte(ledgerForm))
	if wrong == nil {
		wrong = l.unmarshal(body)
	}
	if wrong != nil {
		return wrong, nil
	}
	stored, err := s.storedEdge(ctx, l.place)
	if err == nil && !slices.Equal(stored, l.edge) {
		wrong = fmt.Errorf("the first %d records of the log are others", l.place)
	}
	return wrong, err
}

// draft is a ledger on its way to the store.
type draft struct {
	place int64
	edge  []tlog.Hash
	body  []byte
}

// due reports whether the ledger is to be kept. It is called with the lock.
func (s *Scores) due() bool {
	return s.Kept != nil && s.ledger.place-s.ledger.kept >= max(ledgerEvery, int64(s.ledger.size/ledgerShare))
}

// draft returns the ledger as it is to be kept, nil where it cannot be. It is called with the lock.
func (s *Scores) draft(ctx context.Context) *draft {
	l := &s.ledger
	body, err := l.marshal()
	l.kept, l.size = l.place, len(body) // also where it fails: the next time is as far away
	if err != nil {
		s.notKept(ctx, err)
		return nil
	}
	return &draft{l.place, slices.Clone(l.edge), body}
}

// keep keeps the ledger, unless the log has other records than it was made of: those of a
// database that was lost are not counted on.
func (s *Scores) keep(ctx context.Context, d *draft) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	stored, err := s.storedEdge(ctx, d.place)
	switch {
	case err != nil:
	case !slices.Equal(stored, d.edge):
		s.mu.Lock()
		s.ledger = s.begin()
		s.mu.Unlock()
		err = errors.New("the log has other records than those that were counted; it is read again from its beginning")
	default:
		err = s.Kept.KeepLedger(ctx, d.place, s.Seal.Seal(nil, nil, d.body, []byte(ledgerForm))) //nolint:gosec // this AEAD makes its own nonces
	}
	if err != nil {
		s.notKept(ctx, err)
	}
}

func (s *Scores) notKept(ctx context.Context, err error) {
	s.Slog.WarnContext(ctx, "the scores are not kept for the next start", slog.Any("error", err))
}

// Keep keeps the ledger, so that the next process continues there. It is called at the
// end, when nothing else uses the scores.
func (s *Scores) Keep(ctx context.Context) {
	s.mu.Lock()
	var d *draft
	if s.Kept != nil && s.ledger.place > s.ledger.kept {
		d = s.draft(ctx)
	}
	s.mu.Unlock()
	if d != nil {
		s.keep(ctx, d)
	}
}
