package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// putBodies stores what the records of the batch commit to beside them.
func (t *transaction) putBodies(batch *pgx.Batch) {
	for i, s := range t.pending {
		if r := s.Record(); r.Detached != nil {
			batch.Queue("INSERT INTO body (place, agent, principal, time, key, bytes) VALUES ($1, $2, $3, $4, $5, $6)", bytewise([]any{
				t.head.size + int64(i), r.AgentID, r.Details.Principal, r.Time.UnixMilli(), r.Detached.Key, r.Detached.Bytes,
			})...)
		}
	}
}

// Body implements [issuer.Reader].
func (r reader) Body(record string) (*evidence.Body, error) {
	var b evidence.Body
	err := r.row("SELECT key, bytes FROM body WHERE place = (SELECT place FROM record WHERE id = $1)", record).Scan(&b.Key, &b.Bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, issuer.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: body of record %q: %w", record, err)
	}
	return &b, nil
}

// Bodies implements [issuer.Reader].
func (r reader) Bodies(q issuer.BodyQuery) ([]issuer.Body, error) {
	where, args := "true", []any{}
	among := func(column string, values ...string) {
		if len(values) > 0 {
			args = append(args, values)
			where += fmt.Sprintf(" AND %s = ANY ($%d::bytea[])", column, len(args))
		}
	}
	among("record.id", q.Records...)
	among("body.principal", q.Principals...)
	if q.Agent != "" {
		among("body.agent", q.Agent)
	}
	if !q.Until.IsZero() {
		args = append(args, q.Until.UnixMilli())
		where += fmt.Sprintf(" AND body.time <= $%d", len(args))
	}
	limit := q.Limit
	if limit == 0 {
		limit = math.MaxInt32
	}
	args = append(args, limit)
	rows, err := r.query(fmt.Sprintf("SELECT record.id, body.agent, body.principal, body.time, length(body.bytes) FROM body JOIN record ON record.place = body.place WHERE %s ORDER BY body.place LIMIT $%d",
		where, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("postgres: bodies: %w", err)
	}
	defer rows.Close()
	var out []issuer.Body
	for rows.Next() {
		var b issuer.Body
		var milli int64
		if err := rows.Scan(&b.Record, &b.Agent, &b.Principal, &milli, &b.Size); err != nil {
			return nil, fmt.Errorf("postgres: bodies: %w", err)
		}
		b.Time = time.UnixMilli(milli).UTC()
		out = append(out, b)
	}
	return out, rows.Err()
}

// BodyAgents implements [issuer.Reader].
func (r reader) BodyAgents() ([]string, error) {
	rows, err := r.query("SELECT DISTINCT agent FROM body")
	if err != nil {
		return nil, fmt.Errorf("postgres: bodies: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var agent string
		if err := rows.Scan(&agent); err != nil {
			return nil, fmt.Errorf("postgres: bodies: %w", err)
		}
		out = append(out, agent)
	}
	return out, rows.Err()
}

// EraseBody implements [issuer.Tx]. The key goes with it, so that the rest in
// pages, in the write-ahead log and in backups of the database says nothing once
// they are gone, too.
func (t *transaction) EraseBody(record string) error {
	_, err := t.exec("DELETE FROM body WHERE place = (SELECT place FROM record WHERE id = $1)", record)
	if err != nil {
		return fmt.Errorf("postgres: erasing the body of record %q: %w", record, err)
	}
	return nil
}

// Scrub implements [issuer.Store]: it has the database write the table of bodies
// anew. Copies of the database, its write-ahead log and its backups are the
// operator's to let go.
func (s *Store) Scrub(ctx context.Context) (bool, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	defer conn.Release()
	// Anyone who reads an older state holds the table; no change waits for that for long.
	if _, err := conn.Exec(ctx, "SET lock_timeout = '2s'"); err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	_, err = conn.Exec(ctx, "VACUUM FULL body")
	_, reset := conn.Exec(ctx, "RESET lock_timeout")
	if err != nil && again(err) {
		return false, reset
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("postgres: writing the table of bodies anew: %w", err), reset)
	}
	return true, reset
}
