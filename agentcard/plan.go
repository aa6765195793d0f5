package agentcard

import (
	"fmt"
	"slices"
	"strings"
)

// Plan is a path of delegations that an operator declared: the calls along it are made only
// while the whole path holds.
type Plan struct {
	ID     string
	Shared bool // the origin relies on one context along the path
	Hops   []PlanHop
}

// PlanHop is one delegation of a plan, between agents by their configured names.
type PlanHop struct {
	From  string
	To    string
	Needs Needs
}

// NewPlan returns a plan whose hops can be checked. An empty From is the agent that the hop
// before hands work to.
func NewPlan(id string, shared bool, hops ...PlanHop) (Plan, error) {
	p := Plan{ID: id, Shared: shared, Hops: slices.Clone(hops)}
	if len(hops) == 0 || len(hops) > maxPath {
		return p, fmt.Errorf("hops: there are %d; want 1 to %d", len(hops), maxPath)
	}
	for n := range p.Hops {
		h := &p.Hops[n]
		if h.From == "" && n > 0 {
			h.From = p.Hops[n-1].To
		}
		if h.To == "" {
			return p, fmt.Errorf("hops[%d]: to is missing", n)
		}
		if err := h.Needs.check(); err != nil {
			return p, fmt.Errorf("hops[%d].%w", n, err)
		}
	}
	return p, nil
}

// Along reports whether a call from one agent to another is made along the plan. Skill is the
// skill that the call names, "" for none: a hop that needs skills is about calls that name one
// of them, and about those that name none.
func (p Plan) Along(from, to, skill string) bool {
	return slices.ContainsFunc(p.Hops, func(h PlanHop) bool {
		return h.From == from && h.To == to && (skill == "" || len(h.Needs.Skills) == 0 || slices.Contains(h.Needs.Skills, skill))
	})
}

// Check checks the plan as [CheckPath] does, with the cards that the agents have now. It
// returns an error where a card cannot be read.
func (p Plan) Check(card func(agent string) (Card, error)) (PathAnswer, error) {
	hops := make([]Hop, len(p.Hops))
	for n, h := range p.Hops {
		c, err := card(h.To)
		if err != nil {
			return PathAnswer{}, err
		}
		if h.From == "" {
			h.From = "this agent"
		}
		hops[n] = Hop{From: h.From, To: h.To, Card: c, Needs: h.Needs}
	}
	return CheckPath(hops, p.Shared), nil
}

// maxWhy bounds the reasons in one message, which can have words of cards.
const maxWhy = 800

// Why says for the caller why a path does not hold, "" where it does.
func (p Plan) Why(a PathAnswer) string {
	if a.Compatible {
		return ""
	}
	why := strings.Join(a.Failures, "; ")
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "..."
	}
	return fmt.Sprintf("the plan %s does not hold: %s", p.ID, why)
}
