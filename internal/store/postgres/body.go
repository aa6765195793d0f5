package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
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
