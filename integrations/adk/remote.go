package powerboxadk

import (
	"cmp"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/remoteagent/v2"
	"google.golang.org/adk/v2/session"

	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
)

// Remote fills in how a remote A2A agent is reached: by its card at the gateway, with
// capability and proof in the headers of every request, and delegations in its metadata
// ([powerboxa2a.HandOver]). Every presented capability is from the context's task or
// wallet ([powerboxa2a.WithWallet]).
//
// Before a request goes out the gate is asked whether anyone who runs the remote agent
// may hand over to it.
func (g *Gate) Remote(c remoteagent.A2AConfig, peer *powerboxa2a.Peer) remoteagent.A2AConfig {
	c.AgentCard, c.AgentCardProvider = peer.Card, nil
	c.ClientProvider = remoteagent.NewA2AClientProvider(a2aclient.NewFactory(peer.Options()...))
	c.BeforeRequestCallbacks = append(c.BeforeRequestCallbacks, g.BeforeRequest)
	return c
}

// BeforeRequest is the callback of a remote agent: nothing goes out for an agent
// that was not admitted to this run.
func (g *Gate) BeforeRequest(ctx agent.Context, _ *a2a.SendMessageRequest) (*session.Event, error) {
	name := ctx.AgentName()
	g.mu.Lock()
	r := g.run(ctx.InvocationID())
	free := r.first == name || r.admitted[name]
	g.mu.Unlock()
	if free {
		return nil, nil //nolint:nilnil // nil sends the request
	}
	parent := cmp.Or(g.parentOf(name), r.first)
	d, err := g.handoff(ctx, parent, name)
	if err != nil {
		g.refused(ctx, parent, name, err)
		return nil, err
	}
	g.tell(ctx, d, nil)
	return nil, nil //nolint:nilnil // as above
}
