package sqlite

import (
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
)

// Account implements [provider.Reader] and [approval.Reader].
func (r reader) Account(principal string) (people.Account, error) {
	return first(bodies[people.Account](r, "SELECT body FROM person WHERE principal = ?", principal))
}

// Accounts implements [provider.Reader].
func (r reader) Accounts() ([]people.Account, error) {
	return bodies[people.Account](r, "SELECT body FROM person ORDER BY principal")
}

// AllPasskeys implements [provider.Reader].
func (r reader) AllPasskeys() ([]provider.Passkey, error) {
	return bodies[provider.Passkey](r, "SELECT body FROM passkey ORDER BY principal")
}

// PutAccount implements [provider.Tx].
func (t *transaction) PutAccount(a people.Account) error {
	return t.keep(a, "INSERT INTO person (principal, body) VALUES (?, ?) ON CONFLICT (principal) DO UPDATE SET body = excluded.body", a.Principal)
}
