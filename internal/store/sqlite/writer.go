package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// maxBatch is the number of changes that share one commit at the most.
const maxBatch = 256

// change is one call of Update on its way through the writer.
type change struct {
	ctx    context.Context
	until  time.Time // when its turn comes too late; the zero time for never
	run    func(*transaction) error
	answer func(error)
	lazy   bool // no call waits for it
}

// over returns why the turn of a change comes too late, nil while it does not.
func (c *change) over() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if !c.until.IsZero() && time.Until(c.until) <= 0 { //nolint:forbidigo // as its deadline
		return errLate
	}
	return nil
}

var errClosed = fmt.Errorf("sqlite: the store is closed: %w", evidence.ErrNotWritten)

// errLate is what a change ends with whose turn did not come in time. It did not happen.
var errLate = fmt.Errorf("sqlite: the store is busy: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable)

// update is [Store.Update] for what writes more than an issuer may. It takes as long as [Config.Patience]
// says, about, when the file is locked.
func (s *Store) update(ctx context.Context, run func(*transaction) error) error {
	// A context with a deadline of its own would cost about 1 % of a call.
	now := time.Now() //nolint:forbidigo // it is compared with the deadlines of contexts
	until := now.Add(s.config.Patience)
	if own, ok := ctx.Deadline(); ok && own.Before(until) {
		until = own
	}
	result := make(chan error, 2) // room for the true result behind errOverdue
	if err := s.hand(&change{ctx: ctx, until: until, run: run, answer: func(err error) { result <- err }, lazy: issuer.IsLazy(ctx)}); err != nil {
		return err
	}
	if issuer.IsInTime(ctx) {
		return s.overdue.await(result, now.Add(s.config.Patience+politeWait))
	}
	// From here on the change may commit, so its true result is awaited even
	// when the caller has gone: a change that happened must not be answered with "no".
	return <-result
}

// Probe writes a row that is never read, as a change that waits for its turn, and returns
// when it is on the disk. It says whether calls can be recorded.
func (s *Store) Probe(ctx context.Context) error {
	return s.update(issuer.InTime(ctx), func(t *transaction) error {
		var before int32
		if err := t.db.QueryRow("PRAGMA user_version").Scan(&before); err != nil {
			return err
		}
		// Another number each time: one that is there already is not written.
		_, err := t.db.Exec(fmt.Sprintf("PRAGMA user_version = %d", (int64(before)+1)&math.MaxInt32))
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
	default:
	}
	over := time.NewTimer(time.Until(c.until)) //nolint:forbidigo // as its deadline
	defer over.Stop()
	select {
	case s.changes <- c:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-over.C:
		return errLate
	}
}

// copyEvery is the number of commits after which what they wrote is copied from
// the log into the file: about a hundred pages, so that it takes a few milliseconds,
// in which the disk is not the journal's alone. A commit of many records counts as
// several.
const copyEvery, copyRecords = 64, 16

func (s *Store) write() {
	defer close(s.done)
	for first := range s.changes {
		batch := rows.Gather([]*change{first}, maxBatch, s.changes)
		if !slices.ContainsFunc(batch, func(c *change) bool { return !c.lazy }) {
			batch = s.company(batch)
		}
		s.commit(batch)
	}
}

// lazyTime is how long changes for which no call waits are kept for one that a call waits
// for, with which they share a wait for the disk.
const lazyTime = 10 * time.Millisecond

// company adds changes to a batch of lazy ones until one comes that is not.
func (s *Store) company(batch []*change) []*change {
	timer := time.NewTimer(s.lazyTime)
	defer timer.Stop()
	for len(batch) < maxBatch {
		select {
		case c, more := <-s.changes:
			if !more {
				return batch
			}
			if batch = append(batch, c); !c.lazy {
				return rows.Gather(batch, maxBatch, s.changes)
			}
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// copyLog copies the write-ahead log into the file while the writer continues,
// which it would otherwise do itself, all at once, with everybody waiting. Where
// this fails the writer still does so when the log has its full length, which is
// also where the log begins anew.
func (s *Store) copyLog() {
	defer close(s.copied)
	for range s.copy {
		_, _ = s.copies.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	}
}

// commit runs a batch in one transaction and answers every change of it, but
// only after the transaction is on the disk.
func (s *Store) commit(batch []*change) {
	// The batch belongs to many callers: none of them may cancel it.
	ctx := context.Background()
	how := batchOptions{savepoints: s.wary > 0}
	s.wary = max(0, s.wary-1)
	results, err := s.try(ctx, batch, how)
	if errors.Is(err, errSpoiled) {
		s.wary, how.savepoints = wary, true
		results, err = s.try(ctx, batch, how)
	}
	if usedTwice(err) {
		// The file refuses an id only when all records are written, and does
		// not say whose it is. So the changes run again, and each id is looked
		// up before: the change that repeats one fails alone.
		results, err = s.try(ctx, batch, batchOptions{ids: true, savepoints: true})
	}
	for i, c := range batch {
		if results[i] == nil && err != nil {
			results[i] = fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, err)
		}
		c.answer(results[i])
	}
}

// batchOptions is what a batch does beside running its changes, because of what came of
// others.
type batchOptions struct {
	ids        bool // ids of records are looked up before they are used
	savepoints bool // a change that writes to the file can be taken back alone
}

// wary is how many batches have savepoints after one that would have needed them: as
// a rule no change fails that has written, and a savepoint has SQLite copy every page
// that is written after it.
const wary = 64

// errSpoiled is what a batch without savepoints ends with where one was needed.
var errSpoiled = errors.New("a change failed that had written to the file")

// usedTwice tells whether the id of a record is in the file already.
func usedTwice(err error) bool {
	var refused *sqlite.Error
	return errors.As(err, &refused) && refused.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE
}

// try runs a batch in one transaction and returns what became of each change,
// and of all of them. Where it only appends, its records go ahead of the file.
func (s *Store) try(ctx context.Context, batch []*change, how batchOptions) ([]error, error) {
	results := make([]error, len(batch))
	t := s.transaction(ctx, how)
	t.until = batch[0].until
	t.first = s.ahead.next
	defer t.leave()
	if s.ahead.journal == nil || how.ids || s.crowded() {
		if err := t.enter(); err != nil {
			return results, t.end(err)
		}
	}
	if t.pending == nil {
		t.pending = make([]evidence.Sealed, 0, len(batch))
	}
	for i, c := range batch {
		results[i] = t.change(c)
	}
	begin := s.config.Now()
	var err error
	if t.entered {
		err = t.end(t.grow())
	} else {
		err = s.spool(t)
	}
	if err != nil {
		return results, err
	}
	s.config.Committed(len(batch), s.config.Now().Sub(begin))
	if t.entered && s.ahead.journal != nil {
		s.ahead.follow(t)
		// It is in the file: where the journal cannot be made anew it is tried again
		// with the next record, which is not acknowledged before.
		_ = s.reset(resetBytes)
	}
	return results, nil
}

// transaction is what a batch of changes shares. Nothing that is appended is
// written before all changes have run: a change that only appends needs no
// savepoint, and the records go into the file together.
type transaction struct {
	rows.Tx
	ctx     context.Context //nolint:containedctx // lives as long as the batch
	db      rows.DB         // the changes' own
	store   *Store
	config  Config
	raw     *statements
	tail    *tail
	entered bool      // there is a transaction of SQLite, and the file is this one's
	until   time.Time // when its waiting caller gives up
	polite  bool      // no call waits for the batch
	care    batchOptions
	settled bool            // rows of the chains are brought up to date with this batch
	counts  issuer.Versions // of nodes that share a store, which these do not
	appended
	savepoint
}

// appended are the records of a batch.
type appended struct {
	ends    map[rows.Chain]end  // of the chains that moved, after the changes so far
	behind  map[rows.Chain]end  // of those that moved with what waited for the file
	used    map[string]struct{} // ids of records of the batch
	first   int64               // place of the first of pending in the log
	pending []evidence.Sealed   // records of the batch, in the order of the log
	taken   int                 // of pending, at its beginning, those that waited for the file
	signed  int                 // of pending, at its beginning, those that are finally signed
	grown   []tlog.Hash         // hashes that the batch adds to the tree
	noted   int64               // what the tail's becomes
}

// savepoint undoes a change that fails.
type savepoint struct {
	saved  bool // the change under way has written to the file, behind a savepoint where there are any
	undo   []undone
	broken error // SQLite ended the transaction; nothing of it may be answered with yes
}

func (s *Store) transaction(ctx context.Context, how batchOptions) *transaction {
	t := &transaction{
		ctx: ctx, store: s, config: s.config, raw: s.statements, tail: &s.tail, care: how,
		appended: appended{ends: map[rows.Chain]end{}, behind: map[rows.Chain]end{}, used: map[string]struct{}{}},
	}
	t.db = connection{ctx, (*lazy)(t)}
	t.Tx = rows.NewTx(t.db, &t.counts, func() any { return nil })
	return t
}

// stored returns a reader of the file, the batch's own rows with it.
func (t *transaction) stored() rows.Reader { return read(t.ctx, t.raw) }

// enter begins a transaction of SQLite, with everything in it that waits for the
// file: from here on the changes see it, and commit with it.
func (t *transaction) enter() error {
	if !t.entered && t.broken == nil {
		t.store.wanted.Add(1)
		t.store.filing.Lock()
		t.store.wanted.Add(-1)
		t.entered = true
		if t.broken = t.store.repair(); t.broken == nil {
			t.broken = t.begin(maxWaiting + maxBatch)
		}
	}
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, t.broken)
	}
	return nil
}

// begin begins a transaction of SQLite and takes in some records that wait.
func (t *transaction) begin(limit int) error {
	if err := t.patience(); err != nil {
		return err
	}
	if _, err := t.raw.ExecContext(t.ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	// Every place is counted from it, also in a salvage, which has no journal.
	if err := t.loadTail(); err != nil || t.store.ahead.journal == nil {
		return err
	}
	t.store.mu.Lock()
	waiting := t.store.waiting[:min(limit, len(t.store.waiting))]
	t.store.mu.Unlock()
	t.first, t.taken, t.signed = t.tail.size, len(waiting), len(waiting)
	for i, w := range waiting {
		t.behind[rows.ChainOf(w.Record())] = end{w.Head(), t.first + int64(i)}
	}
	t.pending = append(waiting[:len(waiting):len(waiting)], t.pending...)
	return t.put(waiting, t.first)
}

// politeWait is how long the file is waited for if no call waits for the batch, since it
// is kept from others for as long.
const politeWait = 500 * time.Millisecond

// patience has SQLite wait for a file that is locked for as long as someone waits.
func (t *transaction) patience() error {
	wait := politeWait
	if !t.polite && !t.until.IsZero() {
		// In steps, so that it is seldom another one.
		wait = max(time.Until(t.until).Round(politeWait), politeWait) //nolint:forbidigo // the deadline of a context is by that clock
	}
	if wait == t.store.busy {
		return nil
	}
	_, err := t.raw.conn.ExecContext(t.ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", wait.Milliseconds()))
	if err == nil {
		t.store.busy = wait
	}
	return err
}

// place is that of the next record in the log.
func (t *transaction) place() int64 {
	if t.entered {
		return t.tail.size + int64(len(t.pending))
	}
	return t.first + int64(len(t.pending))
}

// leave gives the file back.
func (t *transaction) leave() {
	if t.entered {
		t.entered = false
		t.store.filing.Unlock()
	}
}

// end commits, where nothing went wrong before.
func (t *transaction) end(err error) error {
	s := t.store
	if t.broken != nil {
		err = t.broken
	}
	if err == nil {
		_, err = t.raw.ExecContext(t.ctx, "COMMIT")
	}
	if err != nil {
		s.tail = tail{} // the state of the file is read anew
		_, rollback := t.raw.ExecContext(t.ctx, "ROLLBACK")
		// A transaction that SQLite has ended cannot be ended again.
		_ = rollback
		return err
	}
	s.tail.follow(t)
	s.mu.Lock()
	if s.waiting = s.waiting[t.taken:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	s.mu.Unlock()
	if s.commits += 1 + len(t.pending)/copyRecords; s.commits >= copyEvery {
		s.commits = 0
		select {
		case s.copy <- struct{}{}:
		default: // it is being copied
		}
	}
	return nil
}

// undone is the end of a chain before a change moved it.
type undone struct {
	name  rows.Chain
	end   end
	known bool
}

// change runs one change. What it did is taken back when it fails.
func (t *transaction) change(c *change) error {
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, t.broken)
	}
	if err := c.over(); err != nil {
		return err
	}
	t.saved, t.undo = false, t.undo[:0]
	before := len(t.pending) - t.taken
	err := c.run(t)
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, t.broken)
	}
	if t.saved && !t.care.savepoints {
		if err != nil {
			t.broken = errSpoiled // it runs again, and its error is that of then
		}
		return err
	}
	if err == nil && t.saved {
		_, err = t.raw.ExecContext(t.ctx, "RELEASE change")
	}
	if err == nil {
		return nil
	}
	t.pending = t.pending[:before+t.taken]
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

// move notes where a chain ends now.
func (t *transaction) move(name rows.Chain, to end) {
	old, known := t.ends[name]
	t.undo = append(t.undo, undone{name, old, known})
	t.ends[name] = to
}

// save makes the savepoint of the change under way, before its first write.
func (t *transaction) save() error {
	if t.saved && t.broken == nil {
		return nil
	}
	if err := t.enter(); err != nil {
		return err
	}
	if !t.care.savepoints {
		t.saved = true
		return nil
	}
	_, err := t.raw.ExecContext(t.ctx, "SAVEPOINT change")
	t.saved = err == nil
	return err
}

// takeBack undoes a change. It fails where SQLite has ended the transaction by
// itself, as on a full disk: a savepoint after that would be a transaction of
// its own, which commits without the leaves and the checkpoint.
func (t *transaction) takeBack() error {
	if _, err := t.raw.ExecContext(t.ctx, "ROLLBACK TO change"); err != nil {
		return err
	}
	_, err := t.raw.ExecContext(t.ctx, "RELEASE change")
	return err
}

// lazy is what a change writes through: the first write makes its savepoint.
type lazy transaction

// ExecContext implements queryer.
func (l *lazy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := (*transaction)(l).save(); err != nil {
		return nil, err
	}
	result, err := l.raw.ExecContext(ctx, query, args...)
	if ended(err) {
		l.broken = err // what came after would stand alone
	}
	return result, err
}

// ended tells whether SQLite may have ended the transaction of a statement that failed.
func ended(err error) bool {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT:
		return true
	}
	return false
}

// QueryContext implements queryer.
func (l *lazy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := (*transaction)(l).enter(); err != nil {
		return nil, err
	}
	return l.raw.QueryContext(ctx, query, args...)
}

// QueryRowContext implements queryer. What returns rows of what it wrote has
// its savepoint too; where that cannot be had the row carries the error of a
// transaction that is over.
func (l *lazy) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	begin := (*transaction)(l).enter
	if !strings.HasPrefix(query, "SELECT") {
		begin = (*transaction)(l).save
	}
	if err := begin(); err != nil {
		over, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return l.raw.QueryRowContext(over, query, args...)
	}
	return l.raw.QueryRowContext(ctx, query, args...)
}
