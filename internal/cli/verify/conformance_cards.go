package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/agentcard"
)

// discoverySuite is tests/conformance/capability-discovery.json (CARD-17).
type discoverySuite struct {
	Cards  map[string]json.RawMessage `json:"cards"`
	Cases  []discoveryCase            `json:"cases"`
	Traces []discoveryTrace           `json:"traces"`
}

// discoveryCase is one case of any kind.
type discoveryCase struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Card   string          `json:"card"`
	Needs  json.RawMessage `json:"needs"`
	Hops   []discoveryHop  `json:"hops"`
	Relies bool            `json:"relies_on_shared_context"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Expect json.RawMessage `json:"expect"`
}

type discoveryHop struct {
	From  string          `json:"from"`
	To    string          `json:"to"`
	Card  string          `json:"card"`
	Needs json.RawMessage `json:"needs"`
}

type discoveryTrace struct {
	ID         string            `json:"id"`
	Agents     map[string]string `json:"agents"`
	Events     []event           `json:"events"`
	Violations []violationAnswer `json:"violations"`
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

// answerDiscovery answers the suite of capability discovery.
func answerDiscovery(data []byte) ([]answered, error) {
	var suite discoverySuite
	if err := json.Unmarshal(data, &suite); err != nil {
		return nil, err
	}
	cards := map[string]agentcard.Card{}
	for name, raw := range suite.Cards {
		cards[name], _ = agentcard.Lint(raw, false)
	}
	var out []answered
	for _, c := range suite.Cases {
		got, err := c.answer(cards)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		a, err := compared(c.ID, got, c.Expect)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		out = append(out, a)
	}
	for _, t := range suite.Traces {
		a, err := t.answer(cards)
		if err != nil {
			return nil, fmt.Errorf("trace %s: %w", t.ID, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// compared brings an answer and the expected answer into one form. A member that no
// answer has is an error: it would be compared with nothing.
func compared[A any](id string, got A, expect json.RawMessage) (answered, error) {
	text, err := json.Marshal(got)
	if err != nil {
		return answered{}, err
	}
	var tree, want any
	if err := errors.Join(json.Unmarshal(text, &tree), json.Unmarshal(expect, &want)); err != nil {
		return answered{}, err
	}
	a, errA := json.Marshal(tree)
	b, errB := json.Marshal(want)
	return answered{name: id, got: string(a), want: string(b)}, errors.Join(errA, errB)
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

func (t discoveryTrace) answer(cards map[string]agentcard.Card) (answered, error) {
	agents := map[string]agentcard.Card{}
	for agent, name := range t.Agents {
		card, err := cardNamed(cards, name)
		if err != nil {
			return answered{}, err
		}
		agents[agent] = card
	}
	got := []violationAnswer{}
	for _, v := range checkTrace(agents, t.Events) {
		got = append(got, violationAnswer{v.Invariant, v.Event})
	}
	want, err := json.Marshal(t.Violations)
	if err != nil {
		return answered{}, err
	}
	return compared("trace "+t.ID, got, want)
}
