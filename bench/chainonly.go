package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver, the same as the product's

	"github.com/powerbox-project/powerbox/evidence"
)

// chainOnly is what evidence appends are compared with: the same records,
// sealed and signed into the same hash chains, in one SQLite table with the
// same group commit and the same durability, without tree and checkpoint. No
// record in it can be proven to a stranger.
type chainOnly struct {
	db      *sql.DB
	insert  *sql.Stmt
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
		db: db, signer: l.signer, heads: map[string]evidence.Head{},
		waiting: make(chan waiting, chainOnlyBatch), done: make(chan struct{}),
	}
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE evidence (place INTEGER PRIMARY KEY, agent TEXT NOT NULL, sequence INTEGER NOT NULL,
		bytes BLOB NOT NULL, UNIQUE (agent, sequence)) STRICT`); err != nil {
		return nil, err
	}
	if c.insert, err = db.PrepareContext(ctx, "INSERT INTO evidence (agent, sequence, bytes) VALUES (?, ?, ?)"); err != nil {
		return nil, err
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

// Close implements appender. Nobody may be appending.
func (c *chainOnly) Close() error {
	close(c.waiting)
	<-c.done
	return errors.Join(c.insert.Close(), c.db.Close())
}

func (c *chainOnly) write(ctx context.Context) {
	defer close(c.done)
	for first := range c.waiting {
		batch := []waiting{first}
		for len(batch) < chainOnlyBatch && len(c.waiting) > 0 {
			batch = append(batch, <-c.waiting)
		}
		err := c.commit(ctx, batch)
		for _, w := range batch {
			w.result <- err
		}
	}
}

func (c *chainOnly) commit(ctx context.Context, batch []waiting) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert := tx.StmtContext(ctx, c.insert)
	for _, w := range batch {
		if err := c.seal(ctx, insert, w.record); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (c *chainOnly) seal(ctx context.Context, insert *sql.Stmt, record evidence.Record) error {
	head, ok := c.heads[record.AgentID]
	if !ok {
		head = evidence.Genesis(evidence.ChainID{byte(len(c.heads))})
	}
	sealed, err := evidence.Seal(head, record, c.signer)
	if err != nil {
		return err
	}
	c.heads[record.AgentID] = sealed.Head()
	_, err = insert.ExecContext(ctx, record.AgentID, head.Sequence, sealed.Bytes())
	return err
}
