package attach

import (
	"context"
	"fmt"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// codePath is the code by which the gateway refuses the same call.
const codePath = "path_incompatible"

// alongPlans returns why a call is not made: it hands work over along a plan that does not hold
// (CARD-9). It returns nil for a call that is part of no plan.
func (a *Attach) alongPlans(ctx context.Context, o *outgoing) *a2a.Denial {
	if !o.isMessage() && o.call.Method != a2a.Unknown {
		return nil
	}
	for _, p := range a.config.Plans {
		if !p.Along("", o.peer.Name, o.proven.Skill) {
			continue
		}
		answer, err := p.Check(func(name string) (agentcard.Card, error) { return a.contract(ctx, name) })
		if err != nil {
			return &a2a.Denial{Code: a2a.CodeInternal, Reason: "attach", Message: fmt.Sprintf("the plan %s cannot be checked: %v", p.ID, err), Retryable: true}
		}
		if why := p.Why(answer); why != "" {
			return &a2a.Denial{Reason: codePath, Message: why}
		}
	}
	return nil
}

// contract is what the card of a peer declares.
func (a *Attach) contract(ctx context.Context, name string) (agentcard.Card, error) {
	p, ok := a.peers[name]
	if !ok {
		return agentcard.Card{}, fmt.Errorf("there is no agent %s", name)
	}
	known, err := p.card.get(ctx)
	if err != nil {
		return agentcard.Card{}, err
	}
	c, _ := agentcard.Lint(known.raw, false) // an error on it is a reason of the check
	return c, nil
}
