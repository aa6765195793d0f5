package agentcard

import (
	"fmt"
	"slices"
	"strings"
)

// The kinds of change between two cards or two contracts.
const (
	Breach = "breach" // breaks callers that relied on the declaration
	Widens = "widens" // the agent can do or reach more than before: new consent is due (CARD-13)
	Note   = "note"   // everything else
)

// Change is one difference.
type Change struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // what it is about, such as feature context_reuse
	Message string `json:"message"`
}

func (c Change) String() string { return fmt.Sprintf("%-6s  %s: %s", c.Kind, c.Subject, c.Message) }

// changes collects differences.
type changes []Change

func (cs *changes) add(kind, subject, format string, args ...any) {
	*cs = append(*cs, Change{kind, subject, fmt.Sprintf(format, args...)})
}

// Has reports whether there is a change of a kind.
func Has(all []Change, kind string) bool {
	return slices.ContainsFunc(all, func(c Change) bool { return c.Kind == kind })
}

// DiffCards says what an agent's card declared and no longer does, and what it
// declares beyond that. Both cards must be ones that can be relied on. Anything
// that differs is in the list: where the two say the same in other words, as by
// another order of members, there is no change.
func DiffCards(before, after Card) []Change {
	var cs changes
	cs.features(before, after)
	cs.lists("skill", skillIDs(before), skillIDs(after))
	cs.skills(before, after)
	cs.interfaces(before, after)
	cs.lists("input mode", before.modes("defaultInputModes"), after.modes("defaultInputModes"))
	cs.lists("output mode", before.modes("defaultOutputModes"), after.modes("defaultOutputModes"))
	cs.extensions(before, after)
	cs.security(before, after)
	if before.Signed() && !after.Signed() {
		cs.add(Breach, "signatures", "the card was signed and is no longer")
	}
	for _, m := range []struct{ name, was, is string }{
		{"name", before.Name(), after.Name()}, {"description", before.Description(), after.Description()}, {"version", before.AgentVersion(), after.AgentVersion()},
	} {
		if m.was != m.is {
			cs.add(Note, m.name, "was %q, is %q", clip(m.was), clip(m.is))
		}
	}
	if len(cs) == 0 && before.Digest() != after.Digest() {
		cs.add(Note, "card", "differs in what is not compared: %s, %s", before.Digest(), after.Digest())
	}
	return cs
}

func (cs *changes) features(before, after Card) {
	was, is := before.byName(), after.byName()
	for _, d := range before.declared {
		now := is[d.Name]
		switch {
		case !d.Supported || now.Supported:
		case len(now.Pointers) > 0:
			cs.add(Breach, "feature "+d.Name, "was declared and is now declared absent")
		default:
			cs.add(Breach, "feature "+d.Name, "was declared and is dropped")
		}
	}
	for _, d := range after.declared {
		if d.Supported && !was[d.Name].Supported {
			cs.add(Widens, "feature "+d.Name, "is declared for the first time")
		}
	}
}

// byName are the declarations of a card that can be relied on, which has each once.
func (c Card) byName() map[string]Declaration {
	out := make(map[string]Declaration, len(c.declared))
	for _, d := range c.declared {
		if _, there := out[d.Name]; !there {
			out[d.Name] = d
		}
	}
	return out
}

func skillIDs(c Card) []string {
	var out []string
	for _, s := range c.Skills() {
		out = append(out, s.ID)
	}
	return out
}

// modes are the media types of the card.
func (c Card) modes(name string) []string {
	f, _ := cardForm.find(name)
	return c.root.get(f.names()...).strings()
}

// lists compares what callers may count on: one fewer is a breach.
func (cs *changes) lists(what string, before, after []string) {
	was, is := setOf(before), setOf(after)
	for _, s := range before {
		if !is[s] {
			cs.add(Breach, what+" "+s, "was there and is dropped")
		}
	}
	for _, s := range after {
		if !was[s] {
			cs.add(Widens, what+" "+s, "is new")
		}
	}
}

func setOf(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, s := range list {
		out[s] = true
	}
	return out
}

// skills compares skills that both have. What a skill says of itself is what
// people and models go by, so that a change of it needs a look.
func (cs *changes) skills(before, after Card) {
	was := map[string]Skill{}
	for _, s := range before.Skills() {
		was[s.ID] = s
	}
	for _, s := range after.Skills() {
		old, ok := was[s.ID]
		if !ok {
			continue
		}
		if old.Description != s.Description || old.Name != s.Name {
			cs.add(Widens, "skill "+s.ID, "describes itself differently: %q, now %q", clip(old.Name+": "+old.Description), clip(s.Name+": "+s.Description))
		}
		cs.lists("skill "+s.ID+" input mode", old.InputModes, s.InputModes)
		cs.lists("skill "+s.ID+" output mode", old.OutputModes, s.OutputModes)
	}
}

// interfaces compares where calls go and in which versions.
func (cs *changes) interfaces(before, after Card) {
	name := func(i Interface) string {
		return strings.TrimSpace(i.Binding + " " + i.SpokenVersions() + " at " + i.URL + " " + i.Tenant)
	}
	var was, is []string
	for _, i := range before.faces {
		was = append(was, name(i))
	}
	for _, i := range after.faces {
		is = append(is, name(i))
	}
	cs.lists("interface", was, is)
	if before.explicit != after.explicit || !before.explicit {
		return // the range is made of the interfaces
	}
	low, high := before.ranged.Min != after.ranged.Min, before.ranged.Max != after.ranged.Max
	if low || high {
		kind := Widens
		if !covers(after.ranged, before.ranged) {
			kind = Breach
		}
		cs.add(kind, "version range", "was %s, is %s", before.ranged, after.ranged)
	}
}

// covers reports whether every version of b is in a.
func covers(a, b Range) bool {
	low := a.Min.IsZero() || !b.Min.IsZero() && b.Min.line().compare(a.Min.line()) >= 0
	high := a.Max.IsZero() || !b.Max.IsZero() && b.Max.line().compare(a.Max.line()) <= 0
	return low && high
}

// extensions compares which extensions callers must speak.
func (cs *changes) extensions(before, after Card) {
	was := setOf(before.RequiredExtensions())
	for _, uri := range after.RequiredExtensions() {
		if !was[uri] {
			cs.add(Breach, "extension "+uri, "is required now: callers that do not speak it are refused")
		}
	}
}

// security compares what callers have to show. Asking for less is a change to look
// at as well as asking for more.
func (cs *changes) security(before, after Card) {
	text := func(c Card) string {
		kinds := c.schemeKinds()
		var out []string
		for _, names := range c.requirements() {
			var each []string
			for _, n := range names {
				each = append(each, n+" ("+kinds[n]+")")
			}
			out = append(out, strings.Join(each, " and "))
		}
		slices.Sort(out)
		return strings.Join(out, ", or ")
	}
	was, is := text(before), text(after)
	switch {
	case was == is:
	case is == "":
		cs.add(Widens, "security requirements", "were %s, and are gone", was)
	default:
		cs.add(Breach, "security requirements", "were %q, are %q: who met them may not now", was, is)
	}
}
