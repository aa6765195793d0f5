package action

import (
	"slices"
	"testing"
)

// TestEveryTypeHasAClassAndAName: no type of the list is unlisted, and names are in order.
func TestEveryTypeHasAClassAndAName(t *testing.T) {
	all := All()
	if len(all) < 90 || !slices.IsSortedFunc(all, func(a, b Type) int { return slices.Compare([]string{a.name}, []string{b.name}) }) {
		t.Errorf("%d types: %v", len(all), all)
	}
	for _, of := range all {
		if of.Class() == Unlisted || !of.Is(of.String()) {
			t.Errorf("%q has class %q", of, of.Class())
		}
	}
	for _, name := range []string{"", "trade.execute", "a2a.sendmessage", "key.use "} {
		if class := ClassOf(name); class != Unlisted {
			t.Errorf("%q has class %q", name, class)
		}
	}
	if (Type{}).Is("") {
		t.Error("the zero type is that of a record without one")
	}
}

// TestMethodsThatNoTableKnowsAreOne: callers cannot make up names of action types.
func TestMethodsThatNoTableKnowsAreOne(t *testing.T) {
	for of, want := range map[Type]string{
		OfA2A("SendMessage"): "a2a.SendMessage", OfA2A("a2a/skill/invoke"): "a2a.skill.invoke", OfA2A("made.up"): "a2a.Unknown", OfA2A(""): "a2a.Unknown",
		OfMCP("tools/call"): "mcp.tools.call", OfMCP("GET"): "mcp.GET", OfMCP("made/up"): "mcp.Unknown", OfMCP("PATCH"): "mcp.Unknown",
	} {
		if of.String() != want || of.Class() != Call {
			t.Errorf("%q of class %q, want %q", of, of.Class(), want)
		}
	}
}
