package rows

import (
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
)

// Account implements [provider.Reader] and [approval.Reader].
func (r Reader) Account(principal string) (people.Account, error) {
	return first(bodies[people.Account](r, "SELECT body FROM person WHERE principal = ?", principal))
}

// Accounts implements [provider.Reader].
func (r Reader) Accounts() ([]people.Account, error) {
	return bodies[people.Account](r, "SELECT body FROM person ORDER BY principal")
}

// AllPasskeys implements [provider.Reader].
func (r Reader) AllPasskeys() ([]provider.Passkey, error) {
	return bodies[provider.Passkey](r, "SELECT body FROM passkey ORDER BY principal")
}

// PutAccount implements [provider.Tx].
func (t Tx) PutAccount(a people.Account) error {
	return t.Keep(a, "INSERT INTO person (principal, body) VALUES (?, ?) ON CONFLICT (principal) DO UPDATE SET body = excluded.body", a.Principal)
}
