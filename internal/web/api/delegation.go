package api

import (
	"context"

	"github.com/powerbox-project/powerbox/internal/identity"
)

// IssuerOf returns the agent that issued a capability that the caller holds and can use.
// A capability that it does not hold is refused like one that does not exist.
func (s Issuing) IssuerOf(ctx context.Context, caller identity.Caller, id string) (string, error) {
	c, err := s.Issuer.Held(ctx, caller, id)
	if err != nil {
		return "", worded(err)
	}
	return c.Agent, nil
}
