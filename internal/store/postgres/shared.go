package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// Versions count what nodes remember of the database. Where one is as it was, so is
// what it counts.
type Versions = issuer.Versions

// versions are counted by the primary: a standby, which may be behind, refuses to say
// where it writes.
const versions = "SELECT stops, modes, gateways, agents, cards, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM log WHERE only_row = 0"

// Versions returns them as of now.
func (s *Store) Versions(ctx context.Context) (v Versions, err error) {
	for range s.beginTries() {
		err = s.pool.QueryRow(ctx, versions).Scan(&v.Stops, &v.Modes, &v.Gateways, &v.Agents, &v.Cards, &v.Timeline)
		if err == nil || !again(err) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return v, fmt.Errorf("postgres: %w: %w", evidence.ErrUnavailable, err)
	}
	return v, nil
}

// Seen returns the counts that this node's last change found, all of whose changes were committed
// before it. They have no timeline.
func (s *Store) Seen() Versions {
	if v := s.seen.Load(); v != nil {
		return *v
	}
	return Versions{}
}

// Copied returns when everything here was copied from another store, the zero time for
// what began here.
func (s *Store) Copied(ctx context.Context) (time.Time, error) {
	var at int64
	err := s.pool.QueryRow(ctx, "SELECT copied FROM log WHERE only_row = 0").Scan(&at)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("postgres: %w: %w", evidence.ErrUnavailable, err)
	case at == 0:
		return time.Time{}, nil
	}
	return time.Unix(at, 0), nil
}

// Keep keeps a value until a time, in place of the one before.
func (s *Store) Keep(ctx context.Context, kind, id string, value []byte, until time.Time) error {
	return s.brief(ctx, `INSERT INTO kept (kind, id, until, value) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, id) DO UPDATE SET until = excluded.until, value = excluded.value`, nil, kind, id, until.UnixMilli(), append([]byte{}, value...))
}

// Once keeps an id until a time, and returns false where it is kept already. That is
// all that there is to it: of two nodes that ask at once one is told true.
func (s *Store) Once(ctx context.Context, kind, id string, until, now time.Time) (bool, error) {
	var n int64
	err := s.brief(ctx, `INSERT INTO kept (kind, id, until, value) VALUES ($1, $2, $3, '')
		ON CONFLICT (kind, id) DO UPDATE SET until = excluded.until WHERE kept.until < $4`, &n, kind, id, until.UnixMilli(), now.UnixMilli())
	return n == 1, err
}

// Kept returns the stored bytes, or [issuer.ErrNotFound].
func (s *Store) Kept(ctx context.Context, kind, id string, now time.Time) (value []byte, err error) {
	err = s.inSnapshot(ctx, func(db database) error {
		err := db.QueryRow("SELECT value FROM kept WHERE kind = ? AND id = ? AND until >= ?", kind, id, now.UnixMilli()).Scan(&value)
		if errors.Is(err, rows.ErrNone) {
			return issuer.ErrNotFound
		}
		return err
	})
	return value, err
}

// Take is [Store.Kept] for one caller: of two at once one gets it.
func (s *Store) Take(ctx context.Context, kind, id string, now time.Time) (value []byte, err error) {
	err = s.pool.QueryRow(ctx, "DELETE FROM kept WHERE kind = $1 AND id = $2 RETURNING CASE WHEN until >= $3 THEN value END",
		[]byte(kind), []byte(id), now.UnixMilli()).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && value == nil {
		return nil, issuer.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: %w: %w", evidence.ErrUnavailable, err)
	}
	return value, nil
}

// AllKept returns everything of a kind, by id.
func (s *Store) AllKept(ctx context.Context, kind string, now time.Time) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := s.inSnapshot(ctx, func(db database) error {
		found, err := db.Query("SELECT id, value FROM kept WHERE kind = ? AND until >= ?", kind, now.UnixMilli())
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var id string
			var value []byte
			if err := found.Scan(&id, &value); err != nil {
				return err
			}
			out[id] = value
		}
		return found.Err()
	})
	return out, err
}

// Forget deletes the stored bytes of an id, and ForgetKept all whose time is over.
func (s *Store) Forget(ctx context.Context, kind, id string) error {
	return s.brief(ctx, "DELETE FROM kept WHERE kind = $1 AND id = $2", nil, kind, id)
}

// ForgetKept deletes everything whose time is over.
func (s *Store) ForgetKept(ctx context.Context, now time.Time) error {
	return s.brief(ctx, "DELETE FROM kept WHERE until < $1", nil, now.UnixMilli())
}

// brief runs one statement in its own transaction. It is not tried again where
// it may have happened.
func (s *Store) brief(ctx context.Context, query string, n *int64, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Patience)
	defer cancel()
	tag, err := s.pool.Exec(ctx, query, bytewise(args)...)
	for range s.beginTries() {
		if err == nil || !unsent(err) || ctx.Err() != nil {
			break
		}
		tag, err = s.pool.Exec(ctx, query, bytewise(args)...)
	}
	if err != nil {
		return fmt.Errorf("postgres: %w: %w", evidence.ErrUnavailable, err)
	}
	if n != nil {
		*n = tag.RowsAffected()
	}
	return nil
}
