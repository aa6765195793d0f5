package a2a

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox"
)

// foldName maps a name to the one that the most lenient reader takes it for: protobuf's
// JSON form accepts task_id for taskId, others ignore dashes.
func foldName(name string) string {
	return powerbox.FoldCase(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, name))
}

// CheckCase refuses an object, at any depth, with two names that differ in letter case
// alone, or a name with U+0000: the reader decides which one counts (ATK-27). Code that
// decides on a body that another reader reads after it calls this first. The error is
// nil for a body without such names, and otherwise an invalid request that names the
// two.
func CheckCase(v powerbox.Value) *Error {
	room := maxOddNames
	if wrong := checkNames(v, &room); wrong != nil {
		return wrong
	}
	if err := v.CheckNames(); err != nil {
		return invalidRequest(ReasonVariant, "%v", err)
	}
	return nil
}

// names is a set of member names with the spellings that lenient readers take for them.
type names struct {
	exact  map[string]bool
	folded map[string]string // folded name to exact name
}

func newNames(exact ...string) names {
	n := names{make(map[string]bool, len(exact)), make(map[string]string, len(exact))}
	for _, name := range exact {
		n.exact[name] = true
		n.folded[foldName(name)] = name
	}
	return n
}

// variant returns the name that a lenient reader takes the given one for,
// where an exact reader does not.
func (n names) variant(name string) (exact string, ok bool) {
	if n.exact[name] {
		return "", false
	}
	exact, ok = n.folded[foldName(name)]
	return exact, ok
}

// check refuses the members of an object that are one of the names to a
// lenient reader and something else to an exact one.
func (n names) check(where string, v powerbox.Value) *Error {
	members, _ := v.Members()
	for _, m := range members {
		if exact, ok := n.variant(m.Name); ok {
			return invalidRequest(ReasonVariant, "%s has a member %q, which some readers take for %q; write %q", where, m.Name, exact, exact)
		}
	}
	return nil
}

// checkRaw is check for the members of a raw object.
func (n names) checkRaw(where string, o rawObject) error {
	for _, m := range o {
		if exact, ok := n.variant(m.name); ok {
			return fmt.Errorf("%s has a member %q, which some readers take for %q", where, m.name, exact)
		}
	}
	return nil
}

// Bounds of member names. Names are folded several times, and the letters of the world
// cost a hundred times as much as ASCII.
const (
	maxName     = 1024     // bytes of one name
	maxOddNames = 64 << 10 // bytes of all names that are not of ASCII
)

// checkNames refuses, at any depth, names that are too long, and names with a meaning in
// JavaScript: an agent that copies such a member changes every object, and others ignore
// it.
func checkNames(v powerbox.Value, room *int) *Error {
	elements, _ := v.Elements()
	for _, e := range elements {
		if wrong := checkNames(e, room); wrong != nil {
			return wrong
		}
	}
	members, _ := v.Members()
	for _, m := range members {
		if wrong := checkName(m.Name, room); wrong != nil {
			return wrong
		}
		if wrong := checkNames(m.Value, room); wrong != nil {
			return wrong
		}
	}
	return nil
}

func checkName(name string, room *int) *Error {
	if len(name) > maxName {
		return invalidRequest(ReasonTooLarge, "a member name has %d bytes; want at most %d", len(name), maxName)
	}
	switch name {
	case "__proto__", "constructor", "prototype":
		return invalidRequest(ReasonVariant, "a member is named %q, which JavaScript gives a meaning of its own; choose another name", name)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if *room -= len(name); *room < 0 {
			return invalidRequest(ReasonTooLarge, "member names that are not of ASCII have more than %d bytes together; want at most as many", maxOddNames)
		}
	}
	return nil
}
