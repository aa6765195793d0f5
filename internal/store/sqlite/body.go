package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// putBodies stores what the records of the batch commit to beside them.
func (t *transaction) putBodies() error {
	rows := &rows{head: "INSERT OR ROLLBACK INTO body (place, agent, principal, time, key, bytes) VALUES ", row: "(?,?,?,?,?,?)", width: 6, between: t.giveWay}
	for i, s := range t.pending {
		if r := s.Record(); r.Detached != nil {
			rows.add(t.tail.size+int64(i), r.AgentID, r.Details.Principal, r.Time.UnixMilli(), r.Detached.Key, r.Detached.Bytes)
		}
	}
	return rows.insert(t.ctx, t.raw)
}

// Body implements [issuer.Reader].
func (r reader) Body(record string) (*evidence.Body, error) {
	var b evidence.Body
	err := r.db.QueryRowContext(r.ctx, "SELECT key, bytes FROM body WHERE place = (SELECT place FROM record WHERE id = ?)", record).Scan(&b.Key, &b.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, issuer.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: body of record %q: %w", record, err)
	}
	return &b, nil
}

// Bodies implements [issuer.Reader].
func (r reader) Bodies(q issuer.BodyQuery) ([]issuer.Body, error) {
	where, args := "", []any{}
	among := func(column string, values []string) {
		if len(values) > 0 {
			where += " AND " + column + " IN (?" + strings.Repeat(",?", len(values)-1) + ")"
			for _, v := range values {
				args = append(args, v)
			}
		}
	}
	among("record.id", q.Records)
	among("body.principal", q.Principals)
	if q.Agent != "" {
		among("body.agent", []string{q.Agent})
	}
	if !q.Until.IsZero() {
		where, args = where+" AND body.time <= ?", append(args, q.Until.UnixMilli())
	}
	limit := q.Limit
	if limit == 0 {
		limit = math.MaxInt32
	}
	rows, err := r.db.QueryContext(r.ctx, "SELECT record.id, body.agent, body.principal, body.time, length(body.bytes) FROM body JOIN record ON record.place = body.place WHERE 1"+
		where+" ORDER BY body.place LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: bodies: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []issuer.Body
	for rows.Next() {
		var b issuer.Body
		var milli int64
		if err := rows.Scan(&b.Record, &b.Agent, &b.Principal, &milli, &b.Size); err != nil {
			return nil, fmt.Errorf("sqlite: bodies: %w", err)
		}
		b.Time = time.UnixMilli(milli).UTC()
		out = append(out, b)
	}
	return out, rows.Err()
}

// BodyAgents implements [issuer.Reader].
func (r reader) BodyAgents() ([]string, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT DISTINCT agent FROM body")
	if err != nil {
		return nil, fmt.Errorf("sqlite: bodies: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []string
	for rows.Next() {
		var agent string
		if err := rows.Scan(&agent); err != nil {
			return nil, fmt.Errorf("sqlite: bodies: %w", err)
		}
		out = append(out, agent)
	}
	return out, rows.Err()
}

// EraseBody implements [issuer.Tx]. The file is opened with secure_delete: what
// was deleted is overwritten in its pages.
func (t *transaction) EraseBody(record string) error {
	_, err := t.db.ExecContext(t.ctx, "DELETE FROM body WHERE place = (SELECT place FROM record WHERE id = ?)", record)
	if err != nil {
		return fmt.Errorf("sqlite: erasing the body of record %q: %w", record, err)
	}
	return nil
}

// Scrub implements [issuer.Store]. Pages as they were before stand in the
// write-ahead log until it is copied into the file and cut off, for which no reader
// may read an older state.
func (s *Store) Scrub(ctx context.Context) (bool, error) {
	var busy, frames, copied int
	if err := s.copies.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &copied); err != nil {
		return false, fmt.Errorf("sqlite: cutting off the write-ahead log: %w", err)
	}
	return busy == 0, nil
}

// ExportBodies is [Store.Export] with the bodies that are left.
func (s *Store) ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return s.exportUnder(ctx, w, export{keys: keys, bodies: true})
}

// withBodies yields the records that a query selects, with key and body behind the
// bytes of each, and makes the body of the last one known.
func (r reader) withBodies(e *evidence.Export, size int64) {
	var last *evidence.Body
	e.Body = func() *evidence.Body { return last }
	e.Records = func(yield func([]byte, error) bool) {
		rows, err := r.db.QueryContext(r.ctx, "SELECT record.bytes, body.key, body.bytes FROM record LEFT JOIN body ON body.place = record.place WHERE record.place >= ? AND record.place < ? ORDER BY record.place", e.From, size)
		if err != nil {
			yield(nil, fmt.Errorf("sqlite: records: %w", err))
			return
		}
		defer func() { _ = rows.Close() }() // Err below tells what matters
		for rows.Next() {
			var record, key, bytes []byte
			if err := rows.Scan(&record, &key, &bytes); err != nil {
				yield(nil, fmt.Errorf("sqlite: records: %w", err))
				return
			}
			if last = nil; key != nil {
				last = &evidence.Body{Key: key, Bytes: bytes}
			}
			if !yield(record, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("sqlite: records: %w", err))
		}
	}
}
