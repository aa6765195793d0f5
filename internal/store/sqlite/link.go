package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// LinkNamed implements [issuer.Reader].
func (r reader) LinkNamed(id string) (string, error) {
	var link string
	err := r.db.QueryRowContext(r.ctx, "SELECT link FROM link WHERE id = ?", id).Scan(&link)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("sqlite: link: %w", err)
	}
	return link, nil
}

// NameLink implements [issuer.Tx]. What has ended is forgotten on the way.
func (t *transaction) NameLink(id, link string, until, now time.Time) (string, error) {
	_, err := t.db.ExecContext(t.ctx, "DELETE FROM link WHERE until < ?", now.Unix())
	if err == nil {
		_, err = t.db.ExecContext(t.ctx, "INSERT INTO link (id, link, until) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", id, link, until.Unix()+1)
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: link: %w", err)
	}
	return t.LinkNamed(id)
}
