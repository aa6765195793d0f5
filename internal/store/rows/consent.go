package rows

import (
	"errors"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Consent returns a person's stored consent at an agent, nil for none.
func (r Reader) Consent(agent, person string) ([]byte, error) {
	sealed, err := first(bodies[[]byte](r, "SELECT body FROM consent WHERE agent = ? AND person = ?", agent, person))
	if errors.Is(err, issuer.ErrNotFound) {
		return nil, nil
	}
	return sealed, err
}

// PutConsent keeps it. It removes it where sealed is nil.
func (t Tx) PutConsent(agent, person string, sealed []byte) error {
	if sealed == nil {
		return t.exec("a consent to forget", "DELETE FROM consent WHERE agent = ? AND person = ?", agent, person)
	}
	return t.Keep(sealed, "INSERT INTO consent (agent, person, body) VALUES (?, ?, ?) ON CONFLICT (agent, person) DO UPDATE SET body = excluded.body", agent, person)
}
