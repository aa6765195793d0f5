package console

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/powerbox-project/powerbox/internal/approval"
	"github.com/powerbox-project/powerbox/internal/provider"
)

// lookalike says what about an agent's names may mislead, "" for nothing: letters
// of several scripts in one word, and the service's own name (AAP-A8).
func lookalike(q provider.Question, service string) string {
	for _, name := range []string{q.Agent.Name, q.Host.Name} {
		for _, word := range strings.Fields(name) {
			if mixed(word) {
				return "A word in its name mixes letters of several scripts, which can be read as another name."
			}
		}
		if service != "" && strings.Contains(letters(name), letters(service)) {
			return "It calls itself by the name of this service. It is not part of it."
		}
	}
	return ""
}

// letters are those of a name, small.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// mixed reports whether a word has letters of Latin and of a script whose letters
// look alike.
func mixed(word string) bool {
	latin, other := false, false
	for _, r := range word {
		latin = latin || unicode.Is(unicode.Latin, r)
		other = other || unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee)
	}
	return latin && other
}

// deskMark says what about the names in a question may mislead, "" for nothing
// (ATK-37).
func deskMark(q approval.Question) string {
	names := []string{q.Requester, q.Purpose}
	for _, m := range q.Matters {
		names = append(names, m.Grant)
		for _, r := range m.Resources {
			names = append(names, r.Name)
		}
		for _, a := range m.Arguments {
			names = append(names, a.Value)
		}
	}
	for _, name := range names {
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Cf, r) }) {
			return "Something below has characters that cannot be seen, or that turn the direction of what is read. They are shown as \\u and a number."
		}
		if slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }), mixed) {
			return "A word below mixes letters of several scripts, which can be read as another word."
		}
	}
	return ""
}

// visible shows the characters of a text that cannot be seen by their numbers.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\n' {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
