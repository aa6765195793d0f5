package main

import (
	"io"
	"strings"
	"unicode"
)

// visible writes text of others to a terminal: what a terminal would obey, or
// what is not to be seen, becomes U+FFFD. Lines and tabs stay.
type visible struct{ io.Writer }

// Write implements [io.Writer]. Every call brings whole characters.
func (v visible) Write(b []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(b))
	if _, err := io.WriteString(v.Writer, text); err != nil {
		return 0, err
	}
	return len(b), nil
}
