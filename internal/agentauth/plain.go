package agentauth

import (
	"regexp"
	"strings"
	"unicode"
)

var tags = regexp.MustCompile(`<[^<>]*>?`)

// Plain makes a text of an agent's own fit to be shown to a person: one line
// without mark-up and without characters that cannot be seen or that turn the
// direction, and not longer than it may be (AAP-A8, ATK-49).
func Plain(s string, longest int) string {
	s = tags.ReplaceAllString(strings.ToValidUTF8(s, ""), " ")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		}
		return r
	}, s)
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > longest {
		return string(runes[:longest-3]) + "..."
	}
	return string(runes)
}
