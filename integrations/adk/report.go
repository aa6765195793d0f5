package powerboxadk

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/adk/v2/agent"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/guard"
)

// Wire is something that an agent was wired with.
type Wire struct {
	From  string `json:"from"`  // name at the gate
	To    string `json:"to"`    // agent whose skill it is, or that is handed over to
	Skill string `json:"skill"` // "" for a hand-off
	Tool  string `json:"tool"`  // as the agent has it
	// Exceeds says that the agent's scope does not allow it. Missing names the
	// missing permissions. Nothing is allowed of a tool without a mapping.
	Exceeds bool     `json:"exceeds"`
	Missing []string `json:"missing"`
}

// Wiring is the implicit hierarchy in words.
type Wiring struct {
	Wires []Wire `json:"wires"`
	// Opaque are agents whose tools cannot be seen from outside: those that are not of
	// ADK's own kinds, and those with toolsets, which are made at run time.
	Opaque []string `json:"opaque"`
}

// Exceeding are the wires that go beyond the scopes.
func (w Wiring) Exceeding() []Wire {
	return slices.DeleteFunc(slices.Clone(w.Wires), func(w Wire) bool { return !w.Exceeds })
}

// Scopes words the wiring as the section scopes of powerbox.yaml that would allow
// just that: per agent and target, skills in the order of their names.
func (w Wiring) Scopes() map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for _, wire := range w.Wires {
		if out[wire.From] == nil {
			out[wire.From] = map[string][]string{}
		}
		skills := out[wire.From][wire.To]
		if wire.Skill != "" && !slices.Contains(skills, wire.Skill) {
			skills = append(skills, wire.Skill)
		}
		slices.Sort(skills)
		if skills == nil {
			skills = []string{}
		}
		out[wire.From][wire.To] = skills
	}
	return out
}

// Report says what each agent of the hierarchy was wired with, and where that goes
// beyond its scope, as the gate says. Its questions are on record, with the purpose
// "report of the wiring".
func (g *Gate) Report(ctx context.Context) (Wiring, error) {
	w := Wiring{Wires: []Wire{}, Opaque: []string{}}
	g.mu.Lock()
	agents := maps.Clone(g.agents)
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a := agents[name]
		tools, open := toolsOf(a)
		if !open {
			w.Opaque = append(w.Opaque, name)
		}
		for _, t := range tools {
			mapped, ok := g.config.Tools[t]
			if agents[t] != nil && !ok {
				mapped.Agent = g.named(t)
				if slices.ContainsFunc(a.SubAgents(), func(s agent.Agent) bool { return s.Name() == t }) {
					continue // below
				}
			} else if t == finish || t == transfer {
				continue
			}
			w.Wires = append(w.Wires, Wire{From: g.named(name), To: mapped.Agent, Skill: mapped.Skill, Tool: t})
		}
		for _, sub := range a.SubAgents() {
			w.Wires = append(w.Wires, Wire{From: g.named(name), To: g.named(sub.Name()), Tool: sub.Name()})
		}
	}
	for i := range w.Wires {
		if err := g.exceeds(ctx, &w.Wires[i]); err != nil {
			return Wiring{}, err
		}
	}
	return w, nil
}

const purposeReport = "report of the wiring"

func (g *Gate) exceeds(ctx context.Context, w *Wire) error {
	a := guard.Attempt{From: w.From, To: w.To, Purpose: purposeReport}
	if w.To == "" {
		w.Exceeds = true
		return nil
	}
	var d guard.Decision
	var err error
	if w.Skill == "" {
		d, err = g.config.Gate.Check(ctx, a)
	} else {
		var skills []string
		if skills, d, err = g.config.Gate.Skills(ctx, a); err == nil && !slices.Contains(skills, w.Skill) {
			w.Exceeds, w.Missing = true, []string{w.Skill}
		}
	}
	refused := (*guard.Refused)(nil)
	switch {
	case errors.As(err, &refused):
		w.Exceeds, w.Missing = true, d.Missing
		return nil
	case err != nil && !errors.Is(err, powerbox.ErrDenied):
		return err
	}
	return g.config.Gate.Outcome(ctx, d, nil)
}

// toolsOf are the names of an agent's tools, where they are seen.
func toolsOf(a agent.Agent) (names []string, open bool) {
	list, open, ok := listOf(a)
	if !ok { // a workflow of the ADK has none
		return nil, len(a.SubAgents()) > 0 && strings.HasPrefix(reflect.Indirect(reflect.ValueOf(a)).Type().PkgPath(), "google.golang.org/adk/")
	}
	for _, t := range list {
		names = append(names, t.Name())
	}
	slices.Sort(names)
	return names, open
}
