package agentauth

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var tags = regexp.MustCompile(`<[^<>]*>?`)

// maxMarks bounds the marks above and below one letter: with more of them a text reaches
// into the lines around it.
const maxMarks = 3

// Plain makes a text of an agent's own fit to be shown to a person: one line
// without mark-up and without characters that cannot be seen or that turn the
// direction, and not longer than it may be (AAP-A8, ATK-49).
func Plain(s string, longest int) string {
	s = tags.ReplaceAllString(strings.ToValidUTF8(s, ""), " ")
	marks := 0
	s = strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return -1
		}
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Co, r), Unseen(r):
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

// blankPattern is a pattern of Braille without a dot: a sign by its category, and nothing
// to see.
const blankPattern = '\u2800'

// Unseen reports whether a character shows nothing of its own where others are read: one
// that turns the direction or joins, and letters and marks that are left blank (ATK-37,
// ATK-49).
func Unseen(r rune) bool {
	return r == blankPattern || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Quotable spells by its number each character of a text that could end the quotation in which it
// is shown (ATK-49, ATK-135). An apostrophe between two letters ends none.
func Quotable(s string) string {
	var b strings.Builder
	var before rune
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		after, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case r == apostrophe && unicode.IsLetter(before) && unicode.IsLetter(after):
			b.WriteRune(r)
		case r == '"' || r == '`' || unicode.In(r, unicode.Pi, unicode.Pf) || strings.ContainsRune("\u201a\u201e\u300c\u300d\u300e\u300f\uff02\u02ba\u2033\u301d\u301e\u301f", r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// apostrophe is also the end of a quotation in single marks, which no page uses.
const apostrophe = '\u2019'
