package postgres

import (
	"fmt"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// Passkeys implements [provider.Reader].
func (r reader) Passkeys(principal string) ([]provider.Passkey, error) {
	return bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE principal = $1 ORDER BY made", principal)
}

// Passkey implements [provider.Reader].
func (r reader) Passkey(id []byte) (provider.Passkey, error) {
	return first(bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE id = $1", id))
}

// PutPasskey implements [provider.Tx].
func (t *transaction) PutPasskey(p provider.Passkey) error {
	return t.keep(p, "INSERT INTO passkey (id, principal, made, body) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET body = excluded.body", p.ID, p.Principal, t.next())
}

// ForgetPasskey implements [provider.Tx].
func (t *transaction) ForgetPasskey(id []byte) error {
	if _, err := t.exec("DELETE FROM passkey WHERE id = $1", id); err != nil {
		return fmt.Errorf("postgres: a passkey to forget: %w", err)
	}
	return nil
}
