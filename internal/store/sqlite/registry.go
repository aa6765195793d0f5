package sqlite

import (
	"context"
	"fmt"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
)

// UpdateRegistry implements [registry.Store].
func (s *Store) UpdateRegistry(ctx context.Context, change func(registry.Tx) error) error {
	return s.Update(ctx, func(tx issuer.Tx) error { return change(tx.(*transaction)) })
}

// ViewRegistry implements [registry.Store].
func (s *Store) ViewRegistry(ctx context.Context, read func(registry.Reader) error) error {
	return s.View(ctx, func(r issuer.Reader) error { return read(r.(settled)) })
}

// Listing implements [registry.Reader].
func (r reader) Listing(id string) (registry.Listing, error) {
	return first(bodies[registry.Listing](r, "SELECT body FROM listing WHERE id = ?", id))
}

// Listings implements [registry.Reader].
func (r reader) Listings() ([]registry.Listing, error) {
	return bodies[registry.Listing](r, "SELECT body FROM listing ORDER BY id")
}

// PutListing implements [registry.Tx].
func (t *transaction) PutListing(l registry.Listing) error {
	return t.keep(l, "INSERT INTO listing (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", l.ID)
}

// ForgetListing implements [registry.Tx].
func (t *transaction) ForgetListing(id string) error {
	gone, err := t.db.ExecContext(t.ctx, "DELETE FROM listing WHERE id = ?", id)
	if err != nil {
		return fmt.Errorf("sqlite: a listing to forget: %w", err)
	}
	if n, err := gone.RowsAffected(); err != nil || n == 0 {
		return issuer.ErrNotFound
	}
	return nil
}
