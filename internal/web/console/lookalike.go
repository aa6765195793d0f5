package console

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// lookalike warns of misleading names of an agent, and of misleading values that it asks
// for; "" for none. They have letters of several scripts in one word, the service's own
// name (AAP-A8), or invisible characters.
func lookalike(l *lang.Language, q provider.Question, service string) string {
	for _, name := range []string{q.Agent.Name, q.Host.Name} {
		for _, word := range strings.Fields(name) {
			if mixed(word) {
				return l.T("A word in its name mixes letters of several scripts, which can be read as another name.")
			}
		}
		if service != "" && strings.Contains(letters(name), letters(service)) {
			return l.T("It calls itself by the name of this service. It is not part of it.")
		}
	}
	var values []string
	for _, g := range slices.Concat(q.Grants, q.Held) {
		values = append(values, textsIn(g.ShownConstraints())...)
	}
	return marked(l, values)
}

// textsIn are the texts of a value, and the names of its members.
func textsIn(v powerbox.Value) (out []string) {
	if s, ok := v.Text(); ok {
		return []string{s}
	}
	elements, _ := v.Elements()
	for _, e := range elements {
		out = append(out, textsIn(e)...)
	}
	members, _ := v.Members()
	for _, m := range members {
		out = append(append(out, m.Name), textsIn(m.Value)...)
	}
	return out
}

// letters are those of a name, small, and as they look: wide, slanted and accented ones
// as plain ones, and those of other scripts that are drawn like a Latin one as that.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		r = unicode.ToLower(r)
		if as, ok := drawnLike[r]; ok {
			return as
		}
		return r
	}, norm.NFKD.String(name))
}

// drawnLike are small letters, some by their capitals, that are drawn like a Latin one.
var drawnLike = map[rune]rune{
	'\u0430': 'a', '\u0432': 'b', '\u0441': 'c', '\u0501': 'd', '\u0435': 'e', '\u04bb': 'h', '\u043d': 'h', '\u0456': 'i', '\u0458': 'j', '\u043a': 'k', '\u04cf': 'l', '\u043c': 'm',
	'\u043e': 'o', '\u0440': 'p', '\u051b': 'q', '\u0455': 's', '\u0442': 't', '\u051d': 'w', '\u0445': 'x', '\u0443': 'y', // Cyrillic
	'\u03b1': 'a', '\u03b2': 'b', '\u03b5': 'e', '\u03b7': 'h', '\u03b9': 'i', '\u03ba': 'k', '\u03bc': 'm', '\u03bd': 'n', '\u03bf': 'o', '\u03c1': 'p', '\u03c4': 't', '\u03c5': 'y', '\u03c7': 'x', '\u03b6': 'z', // Greek
	'\u0251': 'a', '\u0261': 'g', '\u0131': 'i', // Latin
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

// deskMark warns of misleading names in a question, "" for none (ATK-37).
func deskMark(l *lang.Language, q approval.Question) string {
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
	return marked(l, names)
}

// marked warns of misleading texts.
func marked(l *lang.Language, names []string) string {
	for _, name := range names {
		if strings.ContainsFunc(name, hidden) {
			return l.T("Something below has characters that cannot be seen, or that turn the direction of what is read. They are shown as \\u and a number.")
		}
		if slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }), mixed) {
			return l.T("A word below mixes letters of several scripts, which can be read as another word.")
		}
	}
	return ""
}

// hidden reports whether a character shows nothing of its own.
func hidden(r rune) bool {
	return agentauth.Unseen(r) || unicode.IsControl(r) && r != '\n' && r != '\t'
}

// visible shows the characters of a text that cannot be seen by their numbers.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if hidden(r) || r == '\t' {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
