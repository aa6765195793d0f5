package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// maxBatch is the number of changes that share one commit at the most.
const maxBatch = 256

// change is one call of Update on its way through the writer.
type change struct {
	ctx    context.Context
	run    func(*transaction) error
	answer func(error)
}

var errClosed = fmt.Errorf("postgres: the store is closed: %w", evidence.ErrNotWritten)

// errLate is what a change ends with whose turn did not come in time. It did not happen.
var errLate = fmt.Errorf("postgres: the store is busy: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable)

// update is [Store.Update] for what writes more than an issuer may.
func (s *Store) update(ctx context.Context, run func(*transaction) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Patience, errLate)
	defer cancel()
	result := make(chan error, 1)
	if err := s.hand(&change{ctx: ctx, run: run, answer: func(err error) { result <- err }}); err != nil {
		return err
	}
	// From here on the change may commit, so its result is awaited even when the caller
	// has gone: a change that happened must not be answered with "no".
	return <-result
}

// Probe writes a row that is never read, as a change that waits for its turn, and returns
// when it is durable. It says whether calls can be recorded.
func (s *Store) Probe(ctx context.Context) error {
	return s.update(ctx, func(t *transaction) error {
		_, err := t.db.Exec(`INSERT INTO kept (kind, id, until, value) VALUES ('probe', 'probe', 1, '')
			ON CONFLICT (kind, id) DO UPDATE SET until = kept.until + 1`)
		return err
	})
}

// hand gives a change to the writer, which answers every one that it is given.
func (s *Store) hand(c *change) error {
	s.handing.RLock()
	defer s.handing.RUnlock()
	if s.closed {
		return errClosed
	}
	select {
	case s.changes <- c:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func (s *Store) write() {
	defer close(s.done)
	for first := range s.changes {
		s.commit([]*change{first})
	}
}

// commit runs a batch in one transaction and answers every change of it, but only
// after the transaction is durable.
func (s *Store) commit(batch []*change) {
	// The batch belongs to many callers: none of them may cancel it. Its first change has
	// waited the longest, and bounds it.
	until, _ := batch[0].ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	begin := s.config.Now()
	batch, results, err := s.persist(ctx, batch)
	if late, ok := errors.AsType[*unknown](err); ok {
		s.answerLate(late, batch, results)
		return
	}
	for i := range batch {
		if results[i] == nil && err != nil {
			results[i] = fmt.Errorf("postgres: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, err)
		}
	}
	if err == nil {
		s.config.Committed(len(batch), s.config.Now().Sub(begin))
	}
	for i, c := range batch {
		c.answer(results[i])
	}
}

// The times between two attempts.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = 500 * time.Millisecond
)

// persist tries a batch until it is known what became of it, or ctx ends. What a
// change sets outside it sets anew, so that it can run again. It returns the batch with
// the changes that came while it waited for its turn.
func (s *Store) persist(ctx context.Context, batch []*change) ([]*change, []error, error) {
	careful := false
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		var results []error
		var err error
		batch, results, err = s.try(ctx, batch, careful)
		switch _, sent := errors.AsType[*unknown](err); {
		case err == nil, sent:
			return batch, results, err
		case usedTwice(err) && !careful:
			// The database refuses an id only when all records are written. So the
			// changes run again, and each id is looked up before: the change that
			// repeats one fails alone.
			careful = true
			continue
		case !again(err):
			return batch, results, err
		}
		s.repair(err)
		if !pause(ctx, wait) {
			return batch, results, err
		}
	}
}

// pause waits, and returns false where ctx is over.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// try runs a batch in one transaction and returns what became of each change, and of
// all of them. What came while it waited for its turn is in the batch that it returns.
func (s *Store) try(ctx context.Context, batch []*change, careful bool) ([]*change, []error, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return batch, make([]error, len(batch)), err
	}
	defer conn.Release()
	t := &transaction{ctx: ctx, store: s, config: s.config, tail: &s.tail, pooled: conn, conn: conn.Conn(), careful: careful, appended: appended{ends: map[rows.Chain]end{}}}
	t.db = database{ctx, (*lazy)(t)}
	t.Tx = rows.NewTx(t.db, &t.versions, func() any { return t.next() })
	if err := t.begin(); err != nil {
		t.rollback()
		return batch, make([]error, len(batch)), err
	}
	batch = rows.Gather(batch, maxBatch, s.changes)
	results, err := s.within(ctx, t, batch)
	return batch, results, err
}

// within runs a batch in a transaction that has its turn, and commits it.
func (s *Store) within(ctx context.Context, t *transaction, batch []*change) ([]error, error) {
	results := make([]error, len(batch))
	t.alone = len(batch) == 1
	for i, c := range batch {
		results[i] = t.change(c)
		if t.broken != nil {
			t.rollback()
			return results, t.broken
		}
	}
	if t.alone && results[0] != nil || !t.wrote && len(t.pending) == 0 {
		t.rollback()
		return results, nil
	}
	if err := t.finish(); err != nil {
		t.rollback()
		return results, err
	}
	err := s.settle(ctx, t)
	if err == nil {
		s.tail.follow(t)
	}
	return results, err
}

// transaction is what a batch of changes shares. Records are written together when
// all changes have run.
type transaction struct {
	rows.Tx
	ctx     context.Context //nolint:containedctx // lives as long as the batch
	db      rows.DB         // the changes' own
	store   *Store
	config  Config
	pooled  *pgxpool.Conn
	conn    *pgx.Conn // the same
	tail    *tail
	careful bool // ids of records are looked up before they are used
	alone   bool // one change is all: what it did ends with the transaction
	wrote   bool // something but records was written
	turn
	appended
	savepoint
}

// turn is where a transaction found the log when it locked it.
type turn struct {
	head     logHead // as it was locked
	versions Versions
	made     int64
	token    [16]byte
}

// appended are the records of a batch.
type appended struct {
	ends    map[rows.Chain]end // of the chains that moved, after the changes so far
	pending []evidence.Sealed  // records of the batch, in the order of the log
	grown   []tlog.Hash        // hashes that the batch adds to the tree
	note    []byte             // checkpoint over all of it
}

// savepoint undoes a change that fails.
type savepoint struct {
	saved  bool // the change under way has a savepoint
	undo   []undone
	broken error // nothing of the transaction may be answered with yes
}

// logHead is the row that every writer holds.
type logHead struct {
	size  int64
	note  []byte
	epoch int64
	made  int64
	Versions
}

const lockHead = `SELECT size, note, epoch, made, stops, modes, gateways, agents, cards FROM log WHERE only_row = 0 FOR UPDATE`

// begin begins the transaction and waits for the row that one writer at a time holds.
func (t *transaction) begin() error {
	if _, err := t.conn.Exec(t.ctx, "BEGIN ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	h, v := &t.head, &t.head.Versions
	if err := t.conn.QueryRow(t.ctx, lockHead).Scan(&h.size, &h.note, &h.epoch, &h.made, &v.Stops, &v.Modes, &v.Gateways, &v.Agents, &v.Cards); err != nil {
		return err
	}
	locked := h.Versions
	t.store.seen.Store(&locked)
	if t.config.Strict {
		if err := durable(t.ctx, t.conn); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(t.config.Random, t.token[:]); err != nil {
		return err
	}
	t.made, t.versions = h.made, h.Versions
	t.tail.at(t.head)
	return nil
}

func (t *transaction) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = t.conn.Close(ctx) // the database ends what it was in
	}
}

// undone is the end of a chain before a change moved it.
type undone struct {
	name  rows.Chain
	end   end
	known bool
}

// change runs one change. What it did is taken back when it fails.
func (t *transaction) change(c *change) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	t.saved, t.undo = false, t.undo[:0]
	before, wrote, versions := len(t.pending), t.wrote, t.versions
	err := c.run(t)
	if err == nil && t.saved {
		if _, err = t.conn.Exec(t.ctx, "RELEASE SAVEPOINT change"); aborted(err) {
			err = fmt.Errorf("postgres: a statement failed and its error was not looked at: %w", evidence.ErrNotWritten)
		}
	}
	if err == nil {
		return nil
	}
	if t.spoiled(err) {
		t.broken = err
		return err
	}
	t.pending, t.wrote, t.versions = t.pending[:before], wrote, versions
	for i := len(t.undo) - 1; i >= 0; i-- {
		if u := t.undo[i]; u.known {
			t.ends[u.name] = u.end
		} else {
			delete(t.ends, u.name)
		}
	}
	if t.saved {
		t.broken = t.takeBack()
	}
	return errors.Join(err, t.broken)
}

// spoiled reports whether an error of a change is the end of the whole transaction.
func (t *transaction) spoiled(err error) bool {
	var refused *pgconn.PgError
	return t.conn.IsClosed() || errors.As(err, &refused) && again(err)
}

// takeBack undoes a change.
func (t *transaction) takeBack() error {
	_, err := t.conn.Exec(t.ctx, "ROLLBACK TO SAVEPOINT change; RELEASE SAVEPOINT change", pgx.QueryExecModeSimpleProtocol)
	return err
}

// move notes where a chain ends now.
func (t *transaction) move(name rows.Chain, to end) {
	old, known := t.ends[name]
	t.undo = append(t.undo, undone{name, old, known})
	t.ends[name] = to
}

// next is the number of the next row that has an order.
func (t *transaction) next() int64 {
	t.made++
	return t.made
}

// save makes the savepoint of the change under way, before its first statement: in
// PostgreSQL a statement that fails spoils all that came before it.
func (t *transaction) save() error {
	if t.saved || t.alone {
		return nil
	}
	_, err := t.conn.Exec(t.ctx, "SAVEPOINT change")
	t.saved = err == nil
	return err
}

// lazy is what a change reads and writes through.
type lazy transaction

// Exec implements queryer.
func (l *lazy) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	if err := (*transaction)(l).save(); err != nil {
		return pgconn.CommandTag{}, err
	}
	l.wrote = true
	return l.conn.Exec(ctx, query, args...)
}

// Query implements queryer.
func (l *lazy) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	if err := (*transaction)(l).save(); err != nil {
		return nil, err
	}
	return l.conn.Query(ctx, query, args...)
}

// failed is a row that could not be asked for.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// QueryRow implements queryer. A statement that returns what it wrote has written.
func (l *lazy) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	if err := (*transaction)(l).save(); err != nil {
		return failed{err}
	}
	l.wrote = l.wrote || !strings.HasPrefix(query, "SELECT")
	return l.conn.QueryRow(ctx, query, args...)
}
