package rows

import (
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// Passkeys implements [provider.Reader].
func (r Reader) Passkeys(principal string) ([]provider.Passkey, error) {
	return bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE principal = ? ORDER BY made", principal)
}

// Passkey implements [provider.Reader].
func (r Reader) Passkey(id []byte) (provider.Passkey, error) {
	return first(bodies[provider.Passkey](r, "SELECT body FROM passkey WHERE id = ?", id))
}

// PutPasskey implements [provider.Tx].
func (t Tx) PutPasskey(p provider.Passkey) error {
	return t.Keep(p, "INSERT INTO passkey (id, principal, made, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", p.ID, p.Principal, t.made())
}

// ForgetPasskey implements [provider.Tx].
func (t Tx) ForgetPasskey(id []byte) error {
	return t.exec("a passkey to forget", "DELETE FROM passkey WHERE id = ?", id)
}
