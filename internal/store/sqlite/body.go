package sqlite

import (
	"context"
	"fmt"
)

// putBodies stores what the records of the batch commit to beside them.
func (t *transaction) putBodies() error {
	bodies := &bulk{head: "INSERT OR ROLLBACK INTO body (place, agent, principal, time, key, bytes) VALUES ", row: "(?,?,?,?,?,?)", width: 6, between: t.giveWay}
	for i, s := range t.pending {
		if r := s.Record(); r.Detached != nil {
			bodies.add(t.tail.size+int64(i), r.AgentID, r.Details.Principal, r.Time.UnixMilli(), r.Detached.Key, r.Detached.Bytes)
		}
	}
	return bodies.insert(t.ctx, t.raw)
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
