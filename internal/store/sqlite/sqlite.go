// Package sqlite keeps the issuer's state and its evidence in one SQLite file.
//
// One goroutine writes. It takes the changes that are waiting, runs them in one
// transaction, again and in savepoints where one of them failed that had written,
// grows the Merkle tree by the leaves of the records that they appended, signs one
// checkpoint and commits with synchronous FULL: a change that was answered is on the
// disk, with its record, its leaf and a checkpoint over it. With [Config.Spool],
// records that come without anything else are on the disk ahead of the file.
//
// # One index
//
// A record must cost no more than a row of a plain table, because every action waits
// for it. So the table of records has one index, on the id, which is a ULID and
// grows at its end. Queries read records newest first and search their bytes:
// canonical JSON has one spelling for a member. More indexes would cost six texts
// and up to eight pages for every record. Which records name an agent, a caller or a
// user, the server adds to posting lists behind the log ([Store.Index]). The end of a chain is stored every 4,096
// records; a start reads the records behind it. A batch fails with its first
// repeated id, and its changes run again. A change can therefore run twice and must
// set all that it sets anew.
//
// # Journal
//
// With [Config.Spool], a batch that only appends is acknowledged after one fsync of
// a journal beside the file. The file takes such records in about 100 ms later, and
// always before a change of anything else and before a read. So readers see every
// acknowledged record, and state never commits before earlier records. The writer
// alone appends to the chain, so server and gateway share one recorder. At most
// 16,384 records or 64 MiB wait; then every batch goes through the file. The journal
// grows by 1 MiB of zeros, because writing into existing room costs the disk half.
// At a start the file takes in the journal first. The store does not open if the
// journal does not follow the file, or is damaged before its last batch.
//
// # Giving way
//
// Calls wait for the journal, not for the file. While the file takes records in, it
// therefore lets other goroutines run between statements, unless the writer waits
// for the file. The write-ahead log is copied in pieces of about a hundred pages.
//
// # Savepoints
//
// A batch begins without savepoints, because with them SQLite copies every page that
// is written. If a change fails after it has written, the batch is rolled back and
// runs again with savepoints, and so do the next 64 batches. If SQLite may have
// ended the transaction (disk full, I/O error, no memory, busy, interrupted), no
// change of the batch continues. [Store.View] has up to 8 connections with compiled
// statements, because compiling took a tenth of a registration.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	_ "modernc.org/sqlite" // the driver

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/filelock"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// Config says what a store needs beside its file.
type Config struct {
	Path       string          // required; the file, made when it is missing
	Signer     evidence.Signer // required; signs the records
	Batches    bool            // of each chain, only the last record of a commit is signed; see [evidence.SealCovered]
	Origin     string          // required; name of the log
	Checkpoint note.Signer     // required; signs the checkpoints, its name is Origin
	Random     io.Reader       // required; source of chain ids
	// Replaced says that the checkpoint key was replaced on purpose: the checkpoint
	// of the store may be signed by the one before.
	Replaced bool
	// Committed is told of every commit how many changes shared it and how long
	// it took to be on the disk. It can be nil, and needs Now.
	Committed func(changes int, took time.Duration)
	Now       func() time.Time
	// Spool says that records which come without anything else go into a journal
	// beside the file first, from which the file takes them in behind.
	Spool bool
	// Behind is told why records that are in the journal could not be taken in,
	// each time that this was tried. It can be nil.
	Behind func(error)
	// Patience is how long a change waits for its turn and for a file that another
	// process has locked; 5 s where it is 0.
	Patience time.Duration
}

const defaultPatience = 5 * time.Second

// Store is an open SQLite file. Its methods can be called by many goroutines.
type Store struct {
	rows.Log
	config Config
	lock   *os.File
	reads  *sql.DB
	views  *views // connections of reads, for [Store.View]
	writes *sql.DB
	conn   *sql.Conn // the only one of writes

	statements *statements // of conn; for the writer alone once Open is done
	wary       int         // batches that will have savepoints; the writer's alone
	lazyTime   time.Duration

	copying
	fileState
	journal
	queue
}

// copying copies commits from SQLite's log into the file, beside the writer.
type copying struct {
	copies *sql.DB
	copy   chan struct{} // one when there is enough to copy; closed when there will be no more
	copied chan struct{} // closed when nothing is copied any more
}

// fileState is what goes into the file, in transactions of conn.
type fileState struct {
	filing  sync.Mutex   // held by the owner of a transaction of conn; guards tail, commits, busy, room
	wanted  atomic.Int32 // how many batches of changes wait for filing
	tail    tail
	commits int
	busy    time.Duration // for which SQLite waits for a locked file; 0 for that of its opening
	room    []byte        // of the records that were put last
}

// journal holds the records that are durable in the journal and go into the file later.
type journal struct {
	ahead   journalState  // the writer's alone once Open is done
	wake    chan struct{} // one when something waits; closed when nothing will any more
	closing chan struct{}
	takenIn chan struct{} // closed when nothing is taken in any more
	mayWait int           // maxWaiting

	mu      sync.Mutex        // guards waiting
	waiting []evidence.Sealed // records that are in the journal and not in the file, in order
}

// queue holds changes that were handed to the writer.
type queue struct {
	handing sync.RWMutex // held while a change is handed to the writer
	closed  bool
	changes chan *change
	overdue overdue
	done    chan struct{} // closed when the writer has ended
}

// Open opens the store and brings its schema up to date. It refuses a file
// that another process has open, a schema that is newer than this program, and
// a checkpoint that was not signed by the configured key.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Signer == nil || config.Checkpoint == nil || config.Random == nil || config.Origin != config.Checkpoint.Name() {
		return nil, errors.New("sqlite: Signer, Checkpoint and Random are required, and Origin must be the name of the checkpoint key")
	}
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o700); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	lock, err := filelock.Take(config.Path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if config.Committed == nil {
		config.Committed, config.Now = func(int, time.Duration) {}, func() time.Time { return time.Time{} }
	}
	if config.Patience == 0 {
		config.Patience = defaultPatience
	}
	if config.Behind == nil {
		config.Behind = func(error) {}
	}
	s := &Store{
		config: config, lock: lock,
		queue:   queue{changes: make(chan *change, maxBatch), done: make(chan struct{})},
		copying: copying{copy: make(chan struct{}, 1), copied: make(chan struct{})},
		journal: journal{wake: make(chan struct{}, 1), closing: make(chan struct{}), takenIn: make(chan struct{}), mayWait: maxWaiting}, lazyTime: lazyTime,
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	go s.write()
	go s.takeIn()  //nolint:gosec // as below
	go s.copyLog() //nolint:gosec // it lives as long as the store, not as long as its opening
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	err := createPrivate(s.config.Path)
	if err != nil {
		return err
	}
	if s.writes, err = open(s.config.Path, "rwc"); err != nil {
		return err
	}
	s.writes.SetMaxOpenConns(1)
	if err := migrate(ctx, s.writes); err != nil {
		return fmt.Errorf("sqlite: %s: %w", s.config.Path, err)
	}
	if s.reads, err = open(s.config.Path, "ro"); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(2 * maxViews)
	s.reads.SetMaxIdleConns(2 * maxViews)
	s.views = newViews(s.reading)
	if s.copies, err = open(s.config.Path, "rw"); err != nil {
		return err
	}
	s.copies.SetMaxOpenConns(1)
	if s.conn, err = s.writes.Conn(ctx); err != nil {
		return fmt.Errorf("sqlite: %s: %w", s.config.Path, err)
	}
	s.statements = &statements{conn: s.conn, prepared: map[string]*sql.Stmt{}}
	s.Log = rows.NewLog(snapshots{s}, latest, s.config.Checkpoint)
	if !s.config.Replaced {
		if err := s.CheckKey(read(ctx, s.conn)); err != nil {
			return fmt.Errorf("sqlite: %s: %w", s.config.Path, err)
		}
	}
	if !s.config.Spool {
		return nil
	}
	return s.openSpool(ctx)
}

// createPrivate makes the file for its owner alone when it is missing, before
// SQLite would make it readable for others; the files beside it get the same
// mode from SQLite. The mode of a file that exists is its owner's choice.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return f.Close()
}

// uriPath escapes the signs of a path that end it or stand for others in a URI.
var uriPath = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23")

func open(path, mode string) (*sql.DB, error) {
	query := url.Values{
		"mode": {mode},
		"_pragma": {
			"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
			"wal_autocheckpoint(8000)", "cache_size(-32000)", "secure_delete(ON)",
		},
	}
	if mode == "ro" {
		query["_pragma"] = []string{"busy_timeout(10000)", "query_only(ON)"}
	}
	db, err := sql.Open("sqlite", "file:"+uriPath.Replace(filepath.ToSlash(path))+"?"+query.Encode())
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	return db, nil
}

// verifier is what a checkpoint signer is as well.
type verifier interface{ note.Verifier }

// Close ends the writer after the changes that it was given, and closes the
// file.
func (s *Store) Close() error {
	s.handing.Lock()
	defer s.handing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.changes)
	<-s.done
	close(s.closing)
	close(s.wake)
	<-s.takenIn
	err := s.settle(context.Background())
	if err == nil {
		err = s.reset(1)
	}
	close(s.copy)
	<-s.copied
	return errors.Join(err, s.release())
}

func (s *Store) release() error {
	var errs []error
	if s.ahead.journal != nil {
		errs = append(errs, s.ahead.journal.Close())
	}
	errs = append(errs, s.statements.close(), s.views.close())
	for _, db := range []*sql.DB{s.reads, s.copies, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *Store) reading(ctx context.Context) (*statements, error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &statements{conn: conn, prepared: map[string]*sql.Stmt{}}, nil
}

// view is [Store.View] for what reads more than an issuer does.
func (s *Store) view(ctx context.Context, look func(settled) error) error {
	view, err := s.views.take(ctx)
	if err != nil {
		return err
	}
	within := context.WithoutCancel(ctx) // both take no time, and must not be cut
	if _, err := view.ExecContext(within, "BEGIN"); err != nil {
		s.views.drop(view)
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() {
		// A read has nothing to keep.
		if _, err := view.ExecContext(within, "ROLLBACK"); err != nil {
			s.views.drop(view)
			return
		}
		s.views.keep(view)
	}()
	return look(settled{read(ctx, view), ctx, s})
}
