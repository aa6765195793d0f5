package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/operations"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/trust"
)

// Directory makes the contents of the pages about agents and their cards. Every field is
// required.
type Directory struct {
	Registry *registry.Registry
	// Agreed are the cards that were in view when protected agents issued.
	Agreed *registry.Agreed
	// Viewer returns the view of a person: administrators see everything.
	Viewer func(who provider.Person) registry.Viewer
	// Enforcement says how far calls to a protected agent can be held to anything;
	// nil for one of others.
	Enforcement func(id string, card agentcard.Card) *Enforcement
	// Drift is the recorded behaviour of an agent that its card does not declare.
	Drift func(ctx context.Context, id string) ([]Drift, error)
}

// Enforcement is how far the gateway can enforce anything at an unchanged agent: L0
// caller, agent and method; L1 skill; L2 arguments; L3 resources.
type Enforcement struct {
	Level    string // the lowest of its skills
	Skills   []EnforcedSkill
	FreeText string // how the gateway treats messages that name no skill
	Mode     string
}

// EnforcedSkill is the level of one skill.
type EnforcedSkill struct{ Skill, Level, Why string }

// Drift is something that an agent was seen to do.
type Drift struct {
	Behaviour string
	Times     int
	Last      time.Time
}

// The bounds of the lists on pages.
const (
	maxRows = 200
	maxSays = 256 // bytes of a search
)

// registryPage is a search with its results.
type registryPage struct {
	Text, Skill, Feature, Version, Model, Trust string
	Features, Models, Levels                    []string
	Agents                                      []listedAgent
	More                                        int // that are not shown
}

// Filtered reports whether the search leaves out agents.
func (p registryPage) Filtered() bool {
	return p.Text+p.Skill+p.Feature+p.Version+p.Model+p.Trust != ""
}

// listedAgent is a row of the registry.
type listedAgent struct {
	registry.Entry
	Range, Level string
	Wrong        bool // its source says something else, or nothing
}

func (k *Console) registry(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	page, query, err := searched(v.r.URL.Query())
	if err != nil {
		return err
	}
	found, err := k.config.Directory.Registry.Search(v.r.Context(), k.config.Directory.Viewer(who), query)
	if err != nil {
		return err
	}
	for _, e := range found[:min(len(found), maxRows)] {
		r, _ := e.Contract().Range()
		row := listedAgent{Entry: e, Range: r.String(), Wrong: e.Failure != "" || e.Waiting != ""}
		if en := k.config.Directory.Enforcement(e.ID, e.Contract()); en != nil {
			row.Level = en.Level
		}
		page.Agents = append(page.Agents, row)
	}
	page.More = len(found) - len(page.Agents)
	return k.show(v, "registry", page)
}

// searched reads a search from the form.
func searched(form url.Values) (registryPage, registry.Query, error) {
	one := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	p := registryPage{
		Text: one("text"), Skill: one("skill"), Feature: one("feature"), Version: one("version"), Model: one("model"), Trust: one("trust"),
		Models: []string{"CAPABILITY", "ROLE", "ATTRIBUTE"}, Levels: []string{string(trust.Low), string(trust.Moderate), string(trust.High)},
	}
	for _, f := range agentcard.Features() {
		if f.Tier != agentcard.Implicit {
			p.Features = append(p.Features, f.Name)
		}
	}
	var q registry.Query
	for _, s := range []struct {
		said string
		into *[]string
	}{{p.Skill, &q.Skills}, {p.Feature, &q.Features}, {p.Version, &q.Versions}, {p.Model, &q.Models}} {
		if s.said != "" {
			*s.into = []string{s.said}
		}
	}
	q.Text, q.Trust = strings.Fields(p.Text), trust.Level(p.Trust)
	for _, said := range []string{p.Text, p.Skill, p.Feature, p.Version, p.Model} {
		if len(said) > maxSays {
			return p, q, agentauth.Errorf(agentauth.CodeInvalidRequest, "what is searched for is longer than %d bytes", maxSays)
		}
	}
	if p.Trust != "" && !slices.Contains(p.Levels, p.Trust) {
		return p, q, agentauth.Errorf(agentauth.CodeInvalidRequest, "trust is one of %s", strings.Join(p.Levels, ", "))
	}
	return p, q, nil
}

// agentPage is one agent with its card.
type agentPage struct {
	registry.Entry
	Range       string
	Explicit    bool
	Declared    []agentcard.Declaration
	Required    []string
	Schemes     []string
	Problems    int
	Enforcement *Enforcement
	Drift       []Drift
	Current     string // digest of the card that a protected agent has now
	Stopped     []registry.Stopped
	Operator    bool // the visitor may see the agent as operators do
	Steers      bool // the visitor may accept cards of it
	Signs       bool
}

func (k *Console) listing(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	viewer := k.config.Directory.Viewer(who)
	e, err := k.config.Directory.Registry.Agent(v.r.Context(), viewer, v.r.PathValue("id"))
	if err != nil {
		return listingError(err)
	}
	card := e.Contract()
	r, explicit := card.Range()
	page := agentPage{
		Entry: e, Range: r.String(), Explicit: explicit, Required: card.RequiredExtensions(), Schemes: card.SecuritySchemes(), Problems: agentcard.Errors(card.Problems()),
		Enforcement: k.config.Directory.Enforcement(e.ID, card), Operator: k.rights(who).MayAt(people.See, e.ID), Steers: k.steers(who, e.ID, e.Protected), Signs: k.passkeys != nil,
	}
	for _, d := range card.Declared() {
		if d.Tier != agentcard.Implicit && (d.Supported || len(d.Pointers) > 0 || d.Tier == agentcard.Declared) {
			page.Declared = append(page.Declared, d)
		}
	}
	if e.Protected && page.Operator { // records show it, and they are for operators alone
		if page.Drift, err = k.config.Directory.Drift(v.r.Context(), e.ID); err != nil {
			return err
		}
		if page.Current, page.Stopped, err = k.config.Directory.Agreed.Waiting(v.r.Context(), e.ID); err != nil {
			return err
		}
	}
	return k.show(v, "listing", page)
}

// acceptCard takes the waiting card in place of the agreed one (ATK-53). Of a protected
// agent it lets the capabilities continue that stopped since its card widened (CARD-13).
func (k *Console) acceptCard(v *visit) error {
	who, err := k.accepting(v)
	if err != nil {
		return err
	}
	id := v.r.PathValue("id")
	if v.r.PostFormValue("grants") != "" {
		_, err = k.config.Directory.Agreed.Consent(v.r.Context(), id, v.r.PostFormValue("card_digest"), who.Principal)
	} else {
		_, err = k.config.Directory.Registry.Accept(v.r.Context(), who.Principal, id, v.r.PostFormValue("card_digest"))
	}
	if err != nil {
		return listingError(err)
	}
	return v.see("/registry/" + url.PathEscape(id))
}

// accepting returns the visitor, who must be permitted to accept the card that is named.
func (k *Console) accepting(v *visit) (provider.Person, error) {
	who, err := k.person(v)
	if err == nil && !k.steers(who, v.r.PathValue("id"), v.r.PostFormValue("grants") != "") {
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("to accept a card needs the permission %s; an administrator gives roles in operators.roles", people.Steer))
	}
	return who, err
}

// steers reports whether a person may accept a card: of a protected agent by a role there,
// of a listing by a role at every agent.
func (k *Console) steers(who provider.Person, id string, protected bool) bool {
	if protected {
		return k.rights(who).MayAt(people.Steer, id)
	}
	return k.rights(who).May(people.Steer)
}

// listingError words an error of the registry for a page.
func listingError(err error) error {
	var no registry.Refused
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return agentauth.Errorf(agentauth.CodeNotFound, "no agent of that name is listed, or none that you may see")
	case errors.As(err, &no):
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", no)
	}
	return err
}

// delegations leads to the graph of the operators.
func (k *Console) delegations(v *visit) error {
	to := operations.Path + "/graph"
	if agent := v.r.URL.Query().Get("agent"); agent != "" {
		to += "?agent=" + url.QueryEscape(agent)
	}
	return v.see(to)
}
