package sqlite

import (
	"fmt"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// Passkeys implements [provider.Reader].
func (r reader) Passkeys(principal string) ([]provider.Passkey, error) {
	return bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE principal = ? ORDER BY rowid", principal)
}

// Passkey implements [provider.Reader].
func (r reader) Passkey(id []byte) (provider.Passkey, error) {
	return first(bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE id = ?", id))
}

// PutPasskey implements [provider.Tx].
func (t *transaction) PutPasskey(p provider.Passkey) error {
	return t.keep(p, "INSERT INTO passkey (id, principal, body) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", p.ID, p.Principal)
}

// ForgetPasskey implements [provider.Tx].
func (t *transaction) ForgetPasskey(id []byte) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM passkey WHERE id = ?", id); err != nil {
		return fmt.Errorf("sqlite: a passkey to forget: %w", err)
	}
	return nil
}
