package registry

import (
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/trust"
)

// Query is what an agent must have. Everything in it must hold; the zero Query
// selects every agent that the caller may see.
type Query struct {
	Text       []string // words, each somewhere in name, description, or a skill's id, name, description or tags
	Skills     []string // ids
	Operations []string // by their qualified names
	Versions   []string // of the protocol, of which the agent must speak one
	Bindings   []string // of which it must have one
	Features   []string // that its card declares
	Models     []string // of which its authorization model must be one
	Scopes     []string // that it accepts
	Depth      int      // how often authority passed to it may be passed on, at least
	Evidence   []string // formats of evidence that it can produce
	Compliance []string // labels
	Trust      trust.Level
}

// Entry is an agent as the caller may see it.
type Entry struct {
	ID            string                `json:"id"`
	Name          string                `json:"name"`
	Description   string                `json:"description"`
	URL           string                `json:"url"`
	Card          string                `json:"card"`      // where its card is, "" where it was handed in
	Protected     bool                  `json:"protected"` // by this server
	Digest        string                `json:"card_digest"`
	KeyID         string                `json:"key_id,omitempty"` // by which the card is signed, where keys are pinned
	Version       string                `json:"version"`
	Interfaces    []agentcard.Interface `json:"interfaces"`
	Features      []string              `json:"features"`
	Skills        []agentcard.Skill     `json:"skills"`
	Operations    []string              `json:"operations"`
	Authorization *Authorization        `json:"authorization"`
	Trust         trust.Level           `json:"trust,omitempty"`
	Waiting       string                `json:"waiting_digest,omitempty"` // of the current card of its source, which is not accepted
	Changed       []Change              `json:"changed,omitempty"`        // changes of its source that are not accepted
	Failure       string                `json:"failure,omitempty"`
	card          agentcard.Card
}

// entryOf reads a card into an entry. The card can be relied on.
func entryOf(id string, raw []byte, card agentcard.Card) (Entry, error) {
	v, err := powerbox.DecodeValue(raw, powerbox.Limits{Bytes: agentcard.MaxBytes, Depth: 64})
	if err != nil {
		return Entry{}, refused("the card: %v", err)
	}
	e := Entry{
		ID: id, Name: card.Name(), Description: card.Description(), Version: card.AgentVersion(), Digest: card.Digest(), Interfaces: card.Interfaces(),
		Skills: card.Skills(), Operations: operationsOf(v), Authorization: authorizationOf(v), Features: []string{}, card: card,
	}
	if len(e.Interfaces) > 0 {
		e.URL = e.Interfaces[0].URL
	}
	for _, d := range card.Declared() {
		if d.Supported {
			e.Features = append(e.Features, d.Name)
		}
	}
	if e.Operations == nil {
		e.Operations = []string{}
	}
	if e.Skills == nil {
		e.Skills = []agentcard.Skill{}
	}
	return e, nil
}

// Contract returns the card itself.
func (e Entry) Contract() agentcard.Card { return e.card }

// matches reports whether an agent has what a query wants.
func (q Query) matches(e Entry) bool {
	return q.speaks(e) && q.inCard(e) && q.authorized(e) && (q.Trust == "" || e.Trust.Reaches(q.Trust))
}

// speaks asks for the protocol, by the rules by which a call would be made.
func (q Query) speaks(e Entry) bool {
	if len(q.Versions) == 0 && len(q.Bindings) == 0 {
		return true
	}
	if len(q.Versions) == 0 && slices.ContainsFunc(e.Interfaces, func(i agentcard.Interface) bool { return i.Revision != "" && slices.Contains(q.Bindings, i.Binding) }) {
		return true // an MCP server speaks no version of A2A
	}
	needs := agentcard.Needs{Versions: q.Versions, Bindings: q.Bindings}
	if len(q.Versions) == 0 {
		needs.Versions = []string{"1.0", "0.3"}
	}
	answer := agentcard.Compatible(e.card, needs)
	return !slices.ContainsFunc(answer.Reasons, func(r agentcard.Reason) bool {
		return r.Code == agentcard.NeedVersion || r.Code == agentcard.NeedBinding || r.Code == agentcard.NeedCard || r.Code == "needs"
	})
}

func (q Query) inCard(e Entry) bool {
	skill := func(id string) bool {
		return slices.ContainsFunc(e.Skills, func(s agentcard.Skill) bool { return s.ID == id })
	}
	if !all(q.Skills, skill) || !all(q.Operations, among(e.Operations)) || !all(q.Features, e.card.Supports) {
		return false
	}
	if len(q.Text) == 0 {
		return true
	}
	words := []string{e.ID, e.Name, e.Description}
	for _, s := range e.Skills {
		words = append(append(words, s.ID, s.Name, s.Description), s.Tags...)
	}
	said := strings.ToLower(strings.Join(words, "\n"))
	return all(q.Text, func(word string) bool { return strings.Contains(said, strings.ToLower(word)) })
}

// authorized asks for what the card says under the authorization extension. A card
// that says nothing has nothing.
func (q Query) authorized(e Entry) bool {
	if len(q.Models) == 0 && len(q.Scopes) == 0 && q.Depth == 0 && len(q.Evidence) == 0 && len(q.Compliance) == 0 {
		return true
	}
	a := e.Authorization
	if a == nil {
		return false
	}
	return (len(q.Models) == 0 || slices.Contains(q.Models, a.Model)) && all(q.Scopes, among(a.AcceptedScopes)) && a.MaxDepth >= q.Depth &&
		all(q.Evidence, among(a.EvidenceFormats)) && all(q.Compliance, among(a.Compliance))
}

func among(list []string) func(string) bool {
	return func(s string) bool { return slices.Contains(list, s) }
}

func all(wanted []string, has func(string) bool) bool {
	return !slices.ContainsFunc(wanted, func(s string) bool { return !has(s) })
}
