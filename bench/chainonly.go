package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	_ "modernc.org/sqlite" // the driver, the same as the product's

	"github.com/powerbox-project/powerbox/evidence"
)

// chainOnly is what evidence appends are compared with: the same records,
// sealed and signed into the same hash chains, in one SQLite table with the
// same group commit and the same durability, without tree and checkpoint. No
// record in it can be proven to a stranger.
type chainOnly struct {
	db      *sql.DB
	inserts map[int]*sql.Stmt // by the number of rows
	signer  evidence.Signer
	heads   map[string]evidence.Head
	waiting chan waiting
	done    chan struct{}
}

type waiting struct {
	record evidence.Record
	result chan error
}

const chainOnlyBatch = 256

func (l *ledger) openChainOnly(dir string) (appender, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "chain.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(8000)&_pragma=cache_size(-32000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	c := &chainOnly{
		db: db, signer: l.signer, heads: map[string]evidence.Head{}, inserts: map[int]*sql.Stmt{},
		waiting: make(chan waiting, chainOnlyBatch), done: make(chan struct{}),
	}
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE evidence (place INTEGER PRIMARY KEY, agent TEXT NOT NULL, sequence INTEGER NOT NULL,
		bytes BLOB NOT NULL, UNIQUE (agent, sequence)) STRICT`); err != nil {
		return nil, err
	}
	for n := 1; n <= 64; n *= 2 {
		text := "INSERT OR ROLLBACK INTO evidence (agent, sequence, bytes) VALUES " + strings.TrimSuffix(strings.Repeat("(?,?,?),", n), ",") //nolint:gosec // marks alone are added
		if c.inserts[n], err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	go c.write(ctx)
	return c, nil
}

// Append implements appender.
func (c *chainOnly) Append(record evidence.Record) error {
	w := waiting{record, make(chan error, 1)}
	c.waiting <- w
	return <-w.result
}

// Close implements appender. No append may be running.
func (c *chainOnly) Close() error {
	close(c.waiting)
	<-c.done
	return c.db.Close() // and its statements
}

func (c *chainOnly) write(ctx context.Context) {
	defer close(c.done)
	for first := range c.waiting {
		batch := c.gather(first)
		err := c.commit(ctx, batch)
		for _, w := range batch {
			w.result <- err
		}
	}
}

// gather lets those who are about to bring a record do so, as the product does.
func (c *chainOnly) gather(first waiting) []waiting {
	batch := []waiting{first}
	for yielded := false; len(batch) < chainOnlyBatch; {
		select {
		case w, open := <-c.waiting:
			if !open {
				return batch
			}
			batch, yielded = append(batch, w), false
		default:
			if yielded {
				return batch
			}
			runtime.Gosched()
			yielded = true
		}
	}
	return batch
}

func (c *chainOnly) commit(ctx context.Context, batch []waiting) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var args []any
	for _, w := range batch {
		head, ok := c.heads[w.record.AgentID]
		if !ok {
			head = evidence.Genesis(evidence.ChainID{byte(len(c.heads))})
		}
		sealed, err := evidence.Seal(head, w.record, c.signer)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		c.heads[w.record.AgentID] = sealed.Head()
		args = append(args, w.record.AgentID, head.Sequence, sealed.Bytes())
	}
	for n := 64; len(args) > 0; {
		if 3*n > len(args) {
			n /= 2
			continue
		}
		if _, err := tx.StmtContext(ctx, c.inserts[n]).ExecContext(ctx, args[:3*n]...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		args = args[3*n:]
	}
	return tx.Commit()
}
