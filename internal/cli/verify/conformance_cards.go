package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/agentcard"
)

// discoveryCase is one case of tests/conformance/capability-discovery.json (CARD-17), of any
// kind, with the cards of the file.
type discoveryCase struct {
	Cards  map[string]json.RawMessage `json:"cards"`
	Kind   string                     `json:"kind"`
	Card   string                     `json:"card"`
	Needs  json.RawMessage            `json:"needs"`
	Hops   []discoveryHop             `json:"hops"`
	Relies bool                       `json:"relies_on_shared_context"`
	Before json.RawMessage            `json:"before"`
	After  json.RawMessage            `json:"after"`
}

type discoveryHop struct {
	From  string          `json:"from"`
	To    string          `json:"to"`
	Card  string          `json:"card"`
	Needs json.RawMessage `json:"needs"`
}

type discoveryTrace struct {
	Cards  map[string]json.RawMessage `json:"cards"`
	Agents map[string]string          `json:"agents"`
	Events []event                    `json:"events"`
}

// The answers have the form of the file's expectations.
type (
	problemAnswer struct {
		Pointer  string             `json:"pointer"`
		Code     string             `json:"code"`
		Severity agentcard.Severity `json:"severity"`
	}
	reasonAnswer struct {
		Code    string `json:"code"`
		Subject string `json:"subject"`
	}
	interfaceAnswer struct {
		URL     string `json:"url"`
		Binding string `json:"binding"`
	}
	failureAnswer struct {
		Hop     int    `json:"hop"`
		Code    string `json:"code"`
		Subject string `json:"subject"`
	}
	violationAnswer struct {
		Invariant string `json:"invariant"`
		Event     int    `json:"event"`
	}
	validateAnswer struct {
		Problems []problemAnswer `json:"problems"`
	}
	discoverAnswer struct {
		Compatible bool             `json:"compatible"`
		Reasons    []reasonAnswer   `json:"reasons"`
		Interface  *interfaceAnswer `json:"interface,omitempty"`
		Version    string           `json:"protocol_version,omitempty"`
		Warnings   int              `json:"warnings,omitempty"`
	}
	pathAnswer struct {
		Compatible bool            `json:"compatible"`
		Shared     bool            `json:"shared_context"`
		Failures   []failureAnswer `json:"failures"`
	}
	stabilityAnswer struct {
		Breaches []string `json:"breaches"`
	}
)

// answerDiscovery answers a case of capability discovery.
func answerDiscovery(c discoveryCase) (any, error) {
	a, err := c.answer(linted(c.Cards))
	return map[string]any{"expect": a}, err
}

func linted(cards map[string]json.RawMessage) map[string]agentcard.Card {
	out := map[string]agentcard.Card{}
	for name, raw := range cards {
		out[name], _ = agentcard.Lint(raw, false)
	}
	return out
}

func (c discoveryCase) answer(cards map[string]agentcard.Card) (any, error) {
	switch c.Kind {
	case "validate":
		card, err := cardNamed(cards, c.Card)
		a := validateAnswer{Problems: []problemAnswer{}}
		for _, p := range card.Problems() {
			a.Problems = append(a.Problems, problemAnswer{p.Pointer, p.Code, p.Severity})
		}
		return a, err
	case "discover":
		card, err := cardNamed(cards, c.Card)
		if err != nil {
			return nil, err
		}
		needs, err := agentcard.ParseNeeds(c.Needs)
		return discovered(agentcard.Compatible(card, needs)), err
	case "path":
		return c.path(cards)
	case "stability":
		before, errBefore := agentcard.ParseContract(c.Before)
		after, errAfter := agentcard.ParseContract(c.After)
		a := stabilityAnswer{Breaches: []string{}}
		for _, change := range agentcard.DiffContracts(before, after) {
			if change.Kind == agentcard.Breach {
				a.Breaches = append(a.Breaches, change.Subject)
			}
		}
		return a, errors.Join(errBefore, errAfter)
	}
	return nil, fmt.Errorf("kind %q: %w", c.Kind, errUnreadable)
}

func cardNamed(cards map[string]agentcard.Card, name string) (agentcard.Card, error) {
	c, ok := cards[name]
	if !ok {
		return c, fmt.Errorf("there is no card %q: %w", name, errUnreadable)
	}
	return c, nil
}

func discovered(a agentcard.Answer) discoverAnswer {
	out := discoverAnswer{Compatible: a.Compatible, Reasons: []reasonAnswer{}, Version: a.Version.String(), Warnings: len(a.Warnings)}
	for _, r := range a.Reasons {
		out.Reasons = append(out.Reasons, reasonAnswer{r.Code, r.Subject})
	}
	if a.Compatible {
		out.Interface = &interfaceAnswer{a.Interface.URL, a.Interface.Binding}
	}
	return out
}

func (c discoveryCase) path(cards map[string]agentcard.Card) (any, error) {
	var hops []agentcard.Hop
	for _, h := range c.Hops {
		card, err := cardNamed(cards, h.Card)
		if err != nil {
			return nil, err
		}
		needs, err := agentcard.ParseNeeds(h.Needs)
		if err != nil {
			return nil, err
		}
		hops = append(hops, agentcard.Hop{From: h.From, To: h.To, Card: card, Needs: needs})
	}
	a := agentcard.CheckPath(hops, c.Relies)
	out := pathAnswer{Compatible: a.Compatible, Shared: a.SharedContext, Failures: []failureAnswer{}}
	for i, h := range a.Hops {
		for _, r := range h.Reasons {
			out.Failures = append(out.Failures, failureAnswer{i + 1, r.Code, r.Subject})
		}
		if lost := fmt.Sprintf("hop %d,", i+1); c.Relies && strings.Contains(strings.Join(a.Lost, "\n"), lost) {
			out.Failures = append(out.Failures, failureAnswer{i + 1, "shared_context", "context_reuse"})
		}
	}
	return out, nil
}

// answerTrace says which events of a trace break an invariant.
func answerTrace(t discoveryTrace) (any, error) {
	cards, agents := linted(t.Cards), map[string]agentcard.Card{}
	for agent, name := range t.Agents {
		card, err := cardNamed(cards, name)
		if err != nil {
			return nil, err
		}
		agents[agent] = card
	}
	got := []violationAnswer{}
	for _, v := range checkTrace(agents, t.Events) {
		got = append(got, violationAnswer{v.Invariant, v.Event})
	}
	return map[string]any{"violations": got}, nil
}
