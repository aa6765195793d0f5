package agentcard

import "fmt"

// Hop is one delegation on a path: someone hands work to the agent with this
// card.
type Hop struct {
	From  string // who delegates
	To    string // to whom; "" is the name on the card
	Card  Card
	Needs Needs // of the work that is delegated here
}

// HopAnswer is the answer for one hop.
type HopAnswer struct {
	From string `json:"from"`
	To   string `json:"to"`
	Answer
}

// PathAnswer says whether work can be passed along a whole path.
type PathAnswer struct {
	Compatible bool        `json:"compatible"`
	Hops       []HopAnswer `json:"hops"`
	// SharedContext tells whether the origin may rely on one context along the
	// path: every agent on it declares context_reuse.
	SharedContext bool     `json:"shared_context"`
	Lost          []string `json:"shared_context_lost"` // where not, in words
	Failures      []string `json:"failures"`            // hop and missing need, in words
}

// maxPath bounds how many hops a path has.
const maxPath = 64

// CheckPath checks a path A to B to C before anything is sent: every hop by
// itself, as each agent on the way has to, and what only the origin can see, that
// one agent that does not reuse contexts breaks the shared context of all
// (CARD-9). With shared the origin relies on that context, and a path without it
// is not compatible. The answer names every hop that fails and what for.
func CheckPath(hops []Hop, shared bool) PathAnswer {
	a := PathAnswer{Compatible: true, SharedContext: len(hops) > 0, Hops: []HopAnswer{}, Lost: []string{}, Failures: []string{}}
	if len(hops) == 0 || len(hops) > maxPath {
		a.Compatible, a.SharedContext = false, false
		a.Failures = append(a.Failures, fmt.Sprintf("a path of %d hops; want 1 to %d", len(hops), maxPath))
		return a
	}
	for i, h := range hops {
		if h.To == "" {
			h.To = h.Card.Name()
		}
		answer := HopAnswer{h.From, h.To, Compatible(h.Card, h.Needs)}
		where := fmt.Sprintf("hop %d, %s to %s", i+1, h.From, h.To)
		for _, r := range answer.Reasons {
			a.Failures = append(a.Failures, fmt.Sprintf("%s: %s: %s", where, r.Code, r.Message))
		}
		a.Compatible = a.Compatible && answer.Compatible
		if !h.Card.Supports("context_reuse") {
			a.SharedContext = false
			a.Lost = append(a.Lost, fmt.Sprintf("%s: %s does not declare context_reuse", where, h.To))
		}
		a.Hops = append(a.Hops, answer)
	}
	if shared && !a.SharedContext {
		a.Compatible = false
		for _, l := range a.Lost {
			a.Failures = append(a.Failures, l+", and the origin relies on shared context")
		}
	}
	return a
}
