package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// The times of a rotation (EXT-34).
const (
	// keyLead is how long a new key is published before it signs: those who keep
	// the key set keep it for a minute, and remote gateways ask every two seconds.
	keyLead = 90 * time.Second
	// maxGrace is for how long a key that is not in use any more can be accepted.
	maxGrace = 90 * 24 * time.Hour
)

// Rotation is an operator's request: how long signatures of the key before are accepted,
// and how long the new key is published before it signs; defaults where they are absent.
type Rotation struct {
	Grace *time.Duration `json:"grace,omitempty"` // in ns; the longest life of a capability, with the lead
	Lead  *time.Duration `json:"lead,omitempty"`  // in ns; 90 s
}

// Rotated is the result of a rotation.
type Rotated struct {
	Agent  string     `json:"agent"`
	Key    string     `json:"key"` // thumbprint
	Before string     `json:"before"`
	Signs  time.Time  `json:"signs"`              // from when on the new key signs
	Until  *time.Time `json:"accepted,omitempty"` // until when signatures of the one before are accepted; absent for not at all
	Ends   bool       `json:"ends_chains"`        // whether capabilities can end with it that would have lived longer
}

// rotate has an agent sign with a new key.
func (a *Admin) rotate(r *http.Request) (any, error) {
	var asked Rotation
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	agent := r.PathValue("agent")
	keys, ok := a.Issuing(agent)
	if !ok {
		return nil, status{http.StatusNotFound, unknownAgent(agent)}
	}
	lead, grace := keyLead, a.MaximumLifetime+keyLead
	if asked.Lead != nil {
		lead = *asked.Lead
	}
	if asked.Grace != nil {
		grace = *asked.Grace
	}
	if grace < 0 || grace > maxGrace || lead < 0 || lead > time.Hour {
		return nil, status{http.StatusBadRequest, fmt.Sprintf("a grace of %v and a lead of %v; want up to %v and up to 1h", grace, lead, maxGrace)}
	}
	lead = min(lead, grace) // nothing is signed that is not accepted
	now, before := a.Now(), ""
	done := Rotated{Agent: agent, Signs: now.Add(lead), Ends: grace < a.MaximumLifetime+lead}
	until := now.Add(grace)
	next, err := keys.Turn(done.Signs, until, func(next, old keyring.AgentKey) error {
		before = old.Key.Public().Thumbprint()
		return a.Issuer.RotatesKey(r.Context(), operator(r), issuer.AgentKey{
			Agent: agent, Key: next.Key.Public().Thumbprint(), Renewed: next.Made, Before: before, Until: until,
		})
	})
	if err != nil {
		return nil, err
	}
	done.Key, done.Before = next.Key.Public().Thumbprint(), before
	if grace > 0 {
		done.Until = &until
	}
	return done, nil
}
