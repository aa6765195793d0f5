package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LinkNamed implements [issuer.Reader].
func (r reader) LinkNamed(id string) (string, error) {
	var link string
	err := r.row("SELECT link FROM link WHERE id = $1", id).Scan(&link)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("postgres: link: %w", err)
	}
	return link, nil
}

// NameLink implements [issuer.Tx]. What has ended is forgotten on the way.
func (t *transaction) NameLink(id, link string, until, now time.Time) (string, error) {
	_, err := t.exec("DELETE FROM link WHERE until < $1", now.Unix())
	if err == nil {
		_, err = t.exec("INSERT INTO link (id, link, until) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", id, link, until.Unix()+1)
	}
	if err != nil {
		return "", fmt.Errorf("postgres: link: %w", err)
	}
	return t.LinkNamed(id)
}
