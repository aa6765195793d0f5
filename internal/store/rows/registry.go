package rows

import (
	"fmt"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
)

// Listing implements [registry.Reader].
func (r Reader) Listing(id string) (registry.Listing, error) {
	return first(bodies[registry.Listing](r, "SELECT body FROM listing WHERE id = ?", id))
}

// Listings implements [registry.Reader].
func (r Reader) Listings() ([]registry.Listing, error) {
	return bodies[registry.Listing](r, "SELECT body FROM listing ORDER BY id")
}

// PutListing implements [registry.Tx].
func (t Tx) PutListing(l registry.Listing) error {
	t.counts.Cards++
	return t.Keep(l, "INSERT INTO listing (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", l.ID)
}

// ForgetListing implements [registry.Tx].
func (t Tx) ForgetListing(id string) error {
	gone, err := t.db.Exec("DELETE FROM listing WHERE id = ?", id)
	if err != nil {
		return fmt.Errorf("store: a listing to forget: %w", err)
	}
	if gone == 0 {
		return issuer.ErrNotFound
	}
	t.counts.Cards++
	return nil
}
