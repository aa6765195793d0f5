package handoff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Finding is one thing that a check has to say.
type Finding struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"` // error or warning
	Place   Place  `json:"place"`
	Message string `json:"message"`
}

// rules are the rules of a check, with what they are about.
var rules = []struct{ ID, About string }{
	{"never_passes", "A wire whose requirements are not within Caps(target) meet Scope(caller): it can never pass the gate (GATE-1, GATE-12)."},
	{"undeclared_agent", "An agent that scopes or wires name and that declares no surface: nothing can be asked of it."},
	{"cycle", "Agents that hand to each other in a circle."},
	{"scope_of_nothing", "A part of a scope that matches nothing that the target can do."},
	{"scope_unused", "A part of a scope that allows what no wire of the pair requires: it is wider than what it is for."},
	{"unmapped_skill", "A skill of a card that maps to no operation: it cannot be granted."},
}

// Check finds the errors of declarations. Errors are violations; warnings
// are places to look at.
func Check(d *Declarations) ([]Finding, error) {
	g, err := d.Graph()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for i, e := range g.Edges() {
		if e.Failure != nil {
			out = append(out, Finding{"never_passes", "error", d.Wires[i].Place, fmt.Sprintf("%s to %s: %s", e.Wire.From, e.Wire.To, explained(e))})
		}
	}
	_, handedTo := d.ends()
	for _, id := range slices.Sorted(maps.Keys(d.Agents)) {
		a := d.Agents[id]
		if !a.Declared && handedTo[id] {
			out = append(out, Finding{"undeclared_agent", "error", a.Place, fmt.Sprintf("%s is handed tasks and declares no surface", id)})
		}
		if len(a.Unmapped) > 0 {
			out = append(out, Finding{"unmapped_skill", "warning", a.Place, fmt.Sprintf("%s: the skills %s are no operations", id, strings.Join(a.Unmapped, ", "))})
		}
	}
	for _, circle := range g.Cycles() {
		out = append(out, Finding{"cycle", "warning", d.Agents[circle[0]].Place, strings.Join(circle, ", ") + " hand to each other in a circle"})
	}
	for _, b := range g.OverBroad() {
		at := d.scoped[[2]string{b.From, b.To}]
		if b.Nothing {
			out = append(out, Finding{"scope_of_nothing", "warning", at, fmt.Sprintf("%s at %s: %s matches nothing that %s can do", b.From, b.To, b.Pattern, b.To)})
			continue
		}
		out = append(out, Finding{"scope_unused", "warning", at, fmt.Sprintf("%s at %s: %s allows %s, which no wire requires", b.From, b.To, b.Pattern, strings.Join(b.Unused, ", "))})
	}
	sorting.Stable(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Place.File, b.Place.File), cmp.Compare(a.Place.Line, b.Place.Line))
	})
	return out, nil
}

// ends are the agents that wires begin at and lead to.
func (d *Declarations) ends() (from, to map[string]bool) {
	from, to = map[string]bool{}, map[string]bool{}
	for _, w := range d.Wires {
		from[w.From], to[w.To] = true, true
	}
	return from, to
}

// explained is the text of GATE-3 with why.
func explained(e graph.Edge) string {
	switch {
	case len(e.Wire.Requires) == 0:
		return e.Failure.Error() + "; the wire does not say what it requires"
	case !e.Scoped:
		return e.Failure.Error() + "; no scope is declared for the pair"
	}
	return e.Failure.Error()
}

// Item is one line of the checklist of GATE-14.
type Item struct {
	Item    string   `json:"item"`
	Done    bool     `json:"done"`
	Missing []string `json:"missing"`
}

// Checklist asks the five questions of GATE-14. tracked says whether a file is
// under version control.
func Checklist(d *Declarations, tracked func(file string) bool) []Item {
	items := []Item{
		{Item: "every agent declares its surface"},
		{Item: "every orchestrator declares a scope for each agent that it coordinates"},
		{Item: "the gate is in place on every wire"},
		{Item: "a refusal is an explicit failure"},
		{Item: "declarations are under version control"},
	}
	said := map[string]bool{}
	miss := func(i int, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !said[fmt.Sprint(i, text)] {
			said[fmt.Sprint(i, text)] = true
			items[i].Missing = append(items[i].Missing, text)
		}
	}
	origin, handedTo := d.ends()
	for _, id := range slices.Sorted(maps.Keys(d.Agents)) {
		// Who only hands on is asked for nothing and has no surface to declare.
		if a := d.Agents[id]; !a.Declared && (handedTo[id] || !origin[id]) {
			miss(0, "%s declares neither a card nor operations", id)
		} else if len(a.Unmapped) > 0 {
			miss(0, "%s: skills without an operation: %s", id, strings.Join(a.Unmapped, ", "))
		}
	}
	for _, w := range d.Wires {
		pair := w.From + " to " + w.To
		if _, ok := d.scoped[[2]string{w.From, w.To}]; !ok {
			miss(1, "%s: no scope", pair)
		}
		if w.Gate == "" || w.Gate == "none" {
			miss(2, "%s: no gate", pair)
		}
		if w.Failure == "" && w.Gate != "gateway" {
			miss(3, "%s: on_violation says nothing", pair)
		}
	}
	for _, f := range d.Files {
		if !tracked(f) {
			miss(4, "%s is not under version control", f)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.Agents)) {
		if card := d.Agents[id].Card; card != "" && !tracked(card) {
			miss(4, "%s, the card of %s, is not under version control", card, id)
		}
	}
	for i := range items {
		if items[i].Missing == nil {
			items[i].Missing = []string{}
		}
		items[i].Done = len(items[i].Missing) == 0
	}
	return items
}

// Gain is a difference in what an agent may have done.
type Gain struct {
	Agent     string   `json:"agent"` // who gains or loses
	At        string   `json:"at"`    // by whom it is done
	Gains     []string `json:"gains"`
	Loses     []string `json:"loses"`
	Unchanged int      `json:"unchanged"`
}

// Diff says who gains and who loses what between two sets of declarations:
// operations that a scope allows of what the target can do (GATE-13).
func Diff(before, after *Declarations) ([]Gain, error) {
	was, err := before.effective()
	if err != nil {
		return nil, err
	}
	is, err := after.effective()
	if err != nil {
		return nil, err
	}
	pairs := map[[2]string]bool{}
	for p := range was {
		pairs[p] = true
	}
	for p := range is {
		pairs[p] = true
	}
	var out []Gain
	for _, p := range slices.SortedFunc(maps.Keys(pairs), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		gain := Gain{Agent: p[0], At: p[1], Gains: []string{}, Loses: []string{}}
		for _, op := range is[p] {
			if slices.Contains(was[p], op) {
				gain.Unchanged++
			} else {
				gain.Gains = append(gain.Gains, op)
			}
		}
		for _, op := range was[p] {
			if !slices.Contains(is[p], op) {
				gain.Loses = append(gain.Loses, op)
			}
		}
		if len(gain.Gains)+len(gain.Loses) > 0 {
			out = append(out, gain)
		}
	}
	return out, nil
}

// effective is Caps(B) meet Scope(A), for every pair with a scope.
func (d *Declarations) effective() (map[[2]string][]string, error) {
	g, err := d.Graph()
	if err != nil {
		return nil, err
	}
	out := map[[2]string][]string{}
	for _, s := range g.Effective() {
		out[[2]string{s.From, s.To}] = s.Operations
	}
	return out, nil
}
