package console

import (
	"strings"
	"unicode"

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
