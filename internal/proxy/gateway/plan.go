package gateway

import (
	"fmt"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// alongPlans returns what asks whether a call holds along the plans that it is part of (CARD-9):
// those with a hop from the calling agent to this one. Only what hands work over is part of a
// plan: a task that runs can be followed and ended whatever became of a card.
func (g *Gateway) alongPlans(x *decoded, tried *attempted) func(origin string) []evidence.Reason {
	if g.config.Plans == nil || !x.by().planned() || x.call.Method.Operation() != a2a.OperationMessage {
		return nil
	}
	return func(origin string) (why []evidence.Reason) {
		for _, p := range g.config.Plans() {
			if p.Along(origin, x.ID, tried.named.Skill) {
				why = append(why, g.along(x, p)...)
			}
		}
		return why
	}
}

// along checks one plan with the cards as they are now.
func (g *Gateway) along(x *decoded, p agentcard.Plan) []evidence.Reason {
	unread := ""
	answer, err := p.Check(func(id string) (agentcard.Card, error) {
		if id == x.ID {
			return x.view.contract, nil
		}
		unread = id
		a, ok := g.all()[id]
		if !ok {
			return agentcard.Card{}, fmt.Errorf("gateway: no agent %q", id)
		}
		v, err := a.view(x.request.Context())
		if err != nil {
			return agentcard.Card{}, err
		}
		return v.contract, nil
	})
	if err != nil {
		g.config.Log.WarnContext(x.request.Context(), "a plan cannot be checked", "plan", p.ID, "agent", unread, "error", err)
		return []evidence.Reason{{Code: gate.CodeUnavailable, Message: fmt.Sprintf("the card of agent %s on the plan %s cannot be read now", unread, p.ID)}}
	}
	if why := p.Why(answer); why != "" {
		return []evidence.Reason{{Code: gate.CodePath, Message: why}}
	}
	return nil
}
