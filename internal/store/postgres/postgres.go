// Package postgres keeps the issuer's state and its evidence in a PostgreSQL
// database that several nodes share.
//
// One goroutine of each node writes. It takes the changes that are waiting, begins
// a transaction by locking the one row of the table log, runs the changes, those
// that touch the database in a savepoint, grows the Merkle tree by the leaves of the
// records that they appended, signs one checkpoint and commits: a change that was
// answered is durable, with its record, its leaf and a checkpoint over it. Since
// every writer holds that row, writers of all nodes are one after the other, and the
// commit counts only under the epoch that it began with.
//
// Laws: nothing is answered from what this process remembers unless the locked row
// says that no other node has written since; a commit whose outcome is not known is
// looked for by its token before it is made again; SQL is what CockroachDB has, too,
// except for the timeline that tells a failover
// (no advisory locks, no NOTIFY, no triggers).
//
// # Stopped nodes
//
// A node that is stopped in a change keeps the row of the log's head locked, and all
// others wait. So every connection has idle_in_transaction_session_timeout at 5 s:
// the database ends the transaction, and the row goes to the next node. The stopped
// node finds by its token that nothing was committed, and repeats its changes. A
// lease by time would need clocks that agree. The TCP timeout does not help, because
// the kernel of a stopped process still answers.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// Config says what a store needs beside its database.
type Config struct {
	// URL is where the database is, as libpq has it (postgres://user:password@host/name);
	// several hosts with target_session_attrs=read-write find the primary. Required.
	URL string
	// Strict refuses a database that acknowledges what only one machine has.
	Strict     bool
	Signer     evidence.Signer // required; signs the records
	Batches    bool            // of each chain, only the last record of a commit is signed; see [evidence.SealCovered]
	Origin     string          // required; name of the log
	Checkpoint note.Signer     // required; signs the checkpoints, its name is Origin
	Random     io.Reader       // required; source of chain ids and of tokens of commits
	// Replaced says that the checkpoint key was replaced on purpose: the checkpoint
	// of the store may be signed by the one before.
	Replaced bool
	// Committed is told of every commit how many changes shared it and how long it
	// took. It can be nil, and needs Now.
	Committed func(changes int, took time.Duration)
	Now       func() time.Time
	// Patience is how long a change takes at the most, with the times that it is tried
	// again because its connection was lost or its database is away; 5 s where it is 0.
	Patience time.Duration
	// Connections is how many of them this node has at the most; 16 where it is 0.
	Connections int
	// Stillness is for how long a change may stand still; half of Patience where it is 0. Exports,
	// whose readers may be slow, have no such limit.
	Stillness time.Duration
}

const (
	defaultPatience    = 5 * time.Second
	defaultConnections = 16
)

// Store is an open database. Its methods can be called by many goroutines.
type Store struct {
	rows.Log
	config Config
	pool   *pgxpool.Pool
	warned sync.Map // *pgconn.PgConn that the database warned, by connection

	tail tail // the writer's alone
	seen atomic.Pointer[Versions]

	handing sync.RWMutex // held while a change is handed to the writer
	closed  bool
	changes chan *change
	done    chan struct{} // closed when the writer has ended

	finding sync.WaitGroup  // those who look what became of a commit
	life    context.Context //nolint:containedctx // ends when the store is closed
	end     context.CancelFunc
}

// Open opens the store. It refuses a database whose schema is not the one that this
// program knows, see [Migrate], a checkpoint that was not signed by the configured
// key, and with Strict a database without synchronous replication.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Signer == nil || config.Checkpoint == nil || config.Random == nil || config.Origin != config.Checkpoint.Name() {
		return nil, errors.New("postgres: Signer, Checkpoint and Random are required, and Origin must be the name of the checkpoint key")
	}
	if config.Committed == nil {
		config.Committed, config.Now = func(int, time.Duration) {}, func() time.Time { return time.Time{} }
	}
	if config.Patience == 0 {
		config.Patience = defaultPatience
	}
	if config.Stillness == 0 {
		config.Stillness = config.Patience / 2 // others wait for it
	}
	if config.Connections == 0 {
		config.Connections = defaultConnections
	}
	s := &Store{config: config, changes: make(chan *change, maxBatch), done: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		s.end()
		if s.pool != nil {
			s.pool.Close()
		}
		return nil, err
	}
	go s.write()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	pool, err := parse(s.config.URL)
	if err != nil {
		return err
	}
	// A node that is stopped in the middle must not hold for longer the row that all
	// others wait for. When it continues, what it had begun is gone.
	pool.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(s.config.Stillness.Milliseconds(), 10)
	pool.MaxConns = int32(s.config.Connections)
	pool.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			s.warned.Store(c, n.Code)
		}
	}
	pool.BeforeClose = func(c *pgx.Conn) { s.warned.Delete(c.PgConn()) }
	if s.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := check(ctx, s.config.URL); err != nil {
		return err
	}
	if err := s.Durable(ctx); err != nil {
		return err
	}
	s.Log = rows.NewLog(snapshots{s}, latest, s.config.Checkpoint)
	if s.config.Replaced {
		return nil
	}
	if err := s.CheckKey(read(ctx, s.pool)); err != nil {
		return fmt.Errorf("postgres: the database: %w", err)
	}
	return nil
}

// verifier is what a checkpoint signer is as well.
type verifier interface{ note.Verifier }

// Close ends the writer after the changes that it was given, and the connections.
func (s *Store) Close() error {
	s.handing.Lock()
	defer s.handing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.changes)
	<-s.done
	s.end()
	s.finding.Wait()
	s.pool.Close()
	return nil
}

// beginTries is how many connections are tried for a read: those that wait in the
// pool may all have been lost together.
func (s *Store) beginTries() int { return s.config.Connections + 1 }

// snapshot begins a transaction that reads one state of the database. A connection
// that turns out to be lost is no reason to fail.
func (s *Store) snapshot(ctx context.Context) (tx pgx.Tx, err error) {
	within, cancel := context.WithTimeout(ctx, s.config.Patience)
	defer cancel()
	for range s.beginTries() {
		tx, err = s.pool.BeginTx(within, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err == nil || !again(err) || within.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", evidence.ErrUnavailable, err)
	}
	return tx, nil
}

// view is [Store.View] for what reads more than an issuer does.
func (s *Store) view(ctx context.Context, read func(rows.Reader) error) error {
	return s.inSnapshot(ctx, func(db database) error { return read(rows.NewReader(db)) })
}

// inSnapshot runs do in a transaction that reads one state of the database.
func (s *Store) inSnapshot(ctx context.Context, do func(database) error) error {
	tx, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // a read has nothing to keep
	return do(database{ctx, tx})
}
