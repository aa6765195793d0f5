package rows

import (
	"errors"
	"fmt"
	"time"
)

// LinkNamed implements [issuer.Reader].
func (r Reader) LinkNamed(id string) (string, error) {
	var link string
	err := r.db.QueryRow("SELECT link FROM link WHERE id = ?", id).Scan(&link)
	if err != nil && !errors.Is(err, ErrNone) {
		return "", fmt.Errorf("store: link: %w", err)
	}
	return link, nil
}

// NameLink implements [issuer.Tx]. Links that have ended are deleted first.
func (t Tx) NameLink(id, link string, until, now time.Time) (string, error) {
	if err := t.exec("link", "DELETE FROM link WHERE until < ?", now.Unix()); err != nil {
		return "", err
	}
	if err := t.exec("link", "INSERT INTO link (id, link, until) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", id, link, until.Unix()+1); err != nil {
		return "", err
	}
	return t.LinkNamed(id)
}
