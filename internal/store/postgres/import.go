package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
)

// Tables gives everything that another store has, table by table, in an order in which
// nothing is named before it is there.
type Tables func(ctx context.Context, take func(name, columns string, rows iter.Seq2[[]any, error]) error) error

// errNotEmpty is returned for a database that has been written.
var errNotEmpty = errors.New("postgres: the database is not empty")

// booleans are the columns that another store has as numbers.
var booleans = map[string]bool{"period.archived": true, "agent_key.newest": true, "capability.once": true, "approval.pending": true}

// Import takes over everything of another store, with its signed checkpoint and the one
// that witnesses have cosigned last (nil for none), in one transaction, into an empty
// database. The time is that of now: which proofs were used before it is not known.
func (s *Store) Import(ctx context.Context, tables Tables, signed, cosigned []byte, now time.Time) error {
	size, err := s.sizeOf(signed)
	if err != nil {
		return err
	}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing where it has committed
	var epoch, made, stops int64
	if err := tx.QueryRow(ctx, "SELECT epoch FROM log WHERE only_row = 0 FOR UPDATE").Scan(&epoch); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if epoch != 0 {
		return fmt.Errorf("%w: %d commits were made in it", errNotEmpty, epoch)
	}
	err = tables(ctx, func(name, columns string, rows iter.Seq2[[]any, error]) error {
		list := strings.Split(columns, ", ")
		in := &taken{table: name, columns: list}
		next, stop := iter.Pull2(rows)
		defer stop()
		in.next = next
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{name}, list, in); err != nil {
			return fmt.Errorf("postgres: table %s: %w", name, err)
		}
		made = max(made, in.made)
		if name == "revocation" {
			stops = in.count
		}
		return nil
	})
	if err != nil {
		return err
	}
	if cosigned != nil {
		covered, err := s.sizeOf(cosigned)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO cosigned (only_row, size, note) VALUES (0, $1, $2)", covered, cosigned); err != nil {
			return fmt.Errorf("postgres: cosigned checkpoint: %w", err)
		}
	}
	if size == 0 {
		signed = []byte{}
	}
	if _, err := tx.Exec(ctx, "UPDATE log SET size = $1, note = $2, epoch = 1, made = $3, stops = $4, modes = 1, gateways = 1, agents = 1, cards = 1, copied = $5 WHERE only_row = 0", size, signed, made, stops, now.Unix()); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

func (s *Store) sizeOf(signed []byte) (int64, error) {
	c, err := evidence.OpenCheckpoint(signed, s.config.Checkpoint.(verifier))
	if err != nil {
		return 0, fmt.Errorf("postgres: a checkpoint of the other store: %w", err)
	}
	return c.Size, nil
}

// taken are the rows of one table on their way in; it implements pgx.CopyFromSource.
type taken struct {
	table       string
	columns     []string
	next        func() ([]any, error, bool)
	row         []any
	err         error
	made, count int64
}

func (t *taken) Next() bool {
	row, err, more := t.next()
	if t.err = err; !more || err != nil {
		return false
	}
	t.count++
	t.row = bytewise(row)
	for i, name := range t.columns {
		n, number := row[i].(int64)
		switch {
		case number && booleans[t.table+"."+name]:
			t.row[i] = n != 0
		case number && name == "made":
			t.made = max(t.made, n)
		}
	}
	return true
}

func (t *taken) Values() ([]any, error) { return t.row, nil }
func (t *taken) Err() error             { return t.err }
