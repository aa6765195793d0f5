package lang

import (
	"regexp"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// saidFile has finished texts of /v1 and of decisions, which pages show. Its English texts have
// %s where a value stands.
const saidFile = "/said.txt"

// sayings are the texts of a language's saidFile as patterns, the longest first.
var sayings = sync.OnceValue(func() map[string][]saying {
	all := map[string][]saying{}
	for _, l := range All()[1:] {
		for english, text := range readFile(l.Tag + saidFile) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(english), "%s", "(.*)")
			all[l.Tag] = append(all[l.Tag], saying{regexp.MustCompile("^(?s:" + pattern + ")$"), text, len(english)})
		}
		sorting.Sort(all[l.Tag], func(a, b saying) int {
			if a.length != b.length {
				return b.length - a.length
			}
			return strings.Compare(a.text, b.text)
		})
	}
	return all
})

type saying struct {
	english *regexp.Regexp
	text    string
	length  int
}

// Said translates a text that a program wrote for people and for other programs, with its
// values. A text that the catalogue does not know stays as it is.
func (l *Language) Said(text string) string {
	l = l.orEnglish()
	if known, ok := l.texts()[text]; ok {
		return known
	}
	for _, s := range sayings()[l.Tag] {
		values := s.english.FindStringSubmatch(text)
		if values == nil {
			continue
		}
		out := ""
		for i, part := range strings.Split(s.text, "%s") {
			if i > 0 && i == len(values)-1 && strings.HasSuffix(s.text, ": %s") {
				out += l.Said(values[i]) // a text behind a text
			} else if i > 0 {
				out += values[i]
			}
			out += part
		}
		return out
	}
	return text
}
