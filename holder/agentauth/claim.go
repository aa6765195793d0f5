package agentauth

import (
	"context"
	"fmt"
	"net/http"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Claim asks for someone to take over from an autonomous agent of the store: when a
// person approves, the host is theirs, and the agent ends as claimed (section 2.10).
// Errors are those of [Client.Connect]. Agents of other hosts are not claimed: an id
// shows nothing.
func (c *Client) Claim(ctx context.Context, id string, with Asking) (Agent, error) {
	a, err := c.agent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	if a.Mode != wire.Autonomous {
		return Agent{}, fmt.Errorf("agentauth: agent %q is %s; only autonomous agents are claimed", id, a.Mode)
	}
	s, err := c.managed(ctx, a, http.MethodPost, "claim", with.body(nil))
	if err != nil {
		return Agent{}, err
	}
	o := open{Claim: true}
	out, err := c.keep(s, func(_ *state, k *kept) error {
		k.Open = append(k.Open, o)
		return nil
	})
	if err != nil {
		return out, err
	}
	return c.await(ctx, out, with.NoWait, o)
}

// claimed is outcome of a question who takes over. A provider that does not tell of
// a denial is one whose time runs out.
func claimed(now standing) outcome {
	switch {
	case now.Status == string(wire.Claimed):
		return given
	case now.Status != string(wire.Active):
		return ended
	case now.Claim == string(wire.Denied):
		return denied
	}
	return waits
}
