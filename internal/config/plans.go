package config

import (
	"fmt"

	"github.com/powerbox-project/powerbox/agentcard"
)

// Plan is a path of delegations that an operator declares.
type Plan struct {
	ID            string    `key:"id" required:"true" format:"id" doc:"Name of the plan, for denials."`
	SharedContext bool      `key:"shared_context" doc:"Whether the origin relies on one context along the path: every agent on it must then declare context_reuse."`
	Hops          []PlanHop `key:"hops" required:"true" doc:"The delegations, in order; at most 64."`
}

// PlanHop is one delegation of a plan.
type PlanHop struct {
	From  string    `key:"from" format:"id" doc:"Name of the delegating agent. Default: the receiving agent of the hop before."`
	To    string    `key:"to" required:"true" format:"id" doc:"Name of the receiving agent."`
	Needs PlanNeeds `key:"needs" doc:"Needs that the receiving agent must meet, as in powerbox card check --needs (docs/reference/cards.md)."`
}

// PlanNeeds has the members of [agentcard.Needs], in their order.
type PlanNeeds struct {
	Versions   []string `key:"versions" doc:"Versions of the protocol that the caller speaks. Default: 1.0."`
	Bindings   []string `key:"bindings" doc:"Bindings that the caller speaks. Default: JSONRPC, HTTP+JSON and GRPC."`
	Features   []string `key:"features" doc:"Features that the work relies on, by name, vendor's name or extension URI."`
	Skills     []string `key:"skills" doc:"Skills that the agent must have. The hop then covers calls that name one of them, and free text."`
	Inputs     []string `key:"inputs" doc:"Media types that the agent must take."`
	Outputs    []string `key:"outputs" doc:"Media types of which the agent must give at least one."`
	Extensions []string `key:"extensions" doc:"URIs of the extensions that the caller speaks, for agents that require some."`
	Schemes    []string `key:"schemes" doc:"Kinds of security scheme that the caller can use. Absent: any."`
	Strict     bool     `key:"strict" doc:"Whether every error on the card makes it incompatible."`
	Digest     string   `key:"card_digest" doc:"Digest of the only card that is accepted."`
}

// declared returns the plan as it is checked.
func (p Plan) declared() (agentcard.Plan, error) {
	hops := make([]agentcard.PlanHop, len(p.Hops))
	for n, h := range p.Hops {
		hops[n] = agentcard.PlanHop{From: h.From, To: h.To, Needs: agentcard.Needs(h.Needs)}
	}
	return agentcard.NewPlan(p.ID, p.SharedContext, hops...)
}

// Declared returns the plans as they are checked. They were checked when they were read.
func Declared(plans []Plan) []agentcard.Plan {
	var out []agentcard.Plan
	for _, p := range plans {
		if d, err := p.declared(); err == nil {
			out = append(out, d)
		}
	}
	return out
}

// PlansTo returns the parts of plans about calls to one agent, for a gateway that serves it
// alone and reads no other agent's card.
func PlansTo(agent string, plans []Plan) []Plan {
	var out []Plan
	for _, p := range plans {
		own := Plan{ID: p.ID, SharedContext: p.SharedContext}
		from := ""
		for _, h := range p.Hops {
			if h.From == "" {
				h.From = from
			}
			if from = h.To; h.To == agent {
				own.Hops = append(own.Hops, h)
			}
		}
		if len(own.Hops) > 0 {
			out = append(out, own)
		}
	}
	return out
}

// checkPlans wants every hop between agents that there are. Of an MCP server there is no card
// of A2A.
func (k checker) checkPlans() {
	k.unique("plans", "id", len(k.Plans), func(i int) string { return k.Plans[i].ID })
	for i, p := range k.Plans {
		at := fmt.Sprintf("plans[%d]", i)
		if len(p.Hops) > 0 && p.Hops[0].From == "" {
			k.place(at+".hops[0]", "from is missing: name of the agent that the path begins at, as in scopes")
		}
		for n, h := range p.Hops {
			hop := fmt.Sprintf("%s.hops[%d]", at, n)
			if h.From != "" {
				k.known(hop+".from", "caller", h.From, k.callers())
			}
			if k.known(hop+".to", "agent", h.To, k.agents) && k.protocolOf(h.To) != "a2a" {
				k.place(hop+".to", "agent %q has protocol: %s, and so no card to check; want an agent of A2A", h.To, k.protocolOf(h.To))
			}
		}
		if _, err := p.declared(); err != nil {
			k.place(at, "%v", err)
		}
	}
}

func (k checker) protocolOf(agent string) string {
	for _, a := range k.Agents {
		if a.ID == agent {
			return a.Protocol
		}
	}
	return ""
}
