package gateway

import (
	"fmt"
	"net/url"

	"github.com/powerbox-project/powerbox/evidence"
)

// codeAgentRemoved is the code of what ends because the agent was taken away.
const codeAgentRemoved = "agent_removed"

// all are the agents by id. The map is never written to.
func (g *Gateway) all() map[string]*agent { return *g.agents.Load() }

// Replace returns what puts other agents instead of the present ones. Agents of which
// same says that nothing changed stay, with the card that is known of them. Calls that are under
// way end under the settings that they began with; streams of an agent that is gone are ended.
func (g *Gateway) Replace(agents []Agent, same func(id string) bool) (put func(), err error) {
	before, next := g.all(), map[string]*agent{}
	for _, a := range agents {
		if _, err := url.Parse(a.Upstream); err != nil || a.ID == "" || a.URL == "" || a.Signer == nil {
			return nil, fmt.Errorf("gateway: agent %q needs an id, a public URL, an upstream URL and a signer", a.ID)
		}
		if old, ok := before[a.ID]; ok && same != nil && same(a.ID) {
			next[a.ID] = old
			continue
		}
		next[a.ID] = newAgent(a, g)
	}
	return func() {
		g.agents.Store(&next)
		for id, old := range before {
			if _, stays := next[id]; !stays {
				old.leave()
			}
		}
	}, nil
}

// parting is why streams end without a decision to end them.
func (x *decided) parting() evidence.Reason {
	if x.gateway.ending.Err() != nil {
		return stopping()
	}
	return evidence.Reason{Code: codeAgentRemoved, Message: "the operator took the agent away from this gateway"}
}
