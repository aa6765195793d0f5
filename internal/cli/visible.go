package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// terminal writes to a terminal what verbs say, much of which is text of others: what a
// terminal would obey, or is invisible, is written by its number, as in JSON, so
// that JSON stays the same JSON (ATK-49). Verbs that draw write to the output behind it.
type terminal struct {
	to *os.File

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end has not come yet
}

// forPeople returns w so that a person at a terminal sees the written characters, and
// w itself where it is none.
func forPeople(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		return &terminal{to: f}
	}
	return w
}

// Drawn is what a verb that draws writes to: the terminal itself, where w is one.
func Drawn(w io.Writer) io.Writer {
	behind := w
	if o, ok := w.(*outlet); ok {
		behind = o.to
	}
	if t, ok := behind.(*terminal); ok {
		return t.to
	}
	return w
}

// Write implements [io.Writer].
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.rest, b...)
	var out strings.Builder
	for len(all) > 0 && utf8.FullRune(all) {
		r, size := utf8.DecodeRune(all)
		if r == utf8.RuneError && size == 1 {
			out.WriteRune(utf8.RuneError)
		} else {
			out.WriteString(byNumber(r))
		}
		all = all[size:]
	}
	t.rest = append([]byte(nil), all...)
	if _, err := t.to.WriteString(out.String()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// byNumber is a character, or its number in the way of JSON where it is not to be seen.
func byNumber(r rune) string {
	switch {
	case r == '\n' || r == '\t' || unicode.IsPrint(r) && !agentauth.Unseen(r):
		return string(r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Printf writes to a terminal or a file. The format is ours, and the arguments can be texts of others.
// Each stays on its line and in its cell of a table: breaks, tabs, invisible characters and
// those that a terminal obeys are written by their numbers (ATK-120, ATK-132). Commands print by it
// and by [Document] alone, which a test of tools/house checks.
func Printf(w io.Writer, format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		if shown[i] = arg; !isNumber(arg) {
			shown[i] = onOneLine{arg}
		}
	}
	if false {
		_ = fmt.Sprintf(format, args...) // go vet checks the callers
	}
	_, _ = fmt.Fprintf(w, format, shown...) // standard output remembers what could not be written
}

// isNumber reports whether a value can be the width of another one.
func isNumber(arg any) bool {
	_, is := arg.(int)
	return is
}

// onOneLine is a value whose text has one line and one cell, whatever the verb.
type onOneLine struct{ arg any }

// Format implements [fmt.Formatter].
func (o onOneLine) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, OneLine(fmt.Sprintf(fmt.FormatString(f, verb), o.arg))) // as above
}

// Document writes a text of several lines as it is: a document that the caller requested, such
// as JSON, a file or the answer of an agent. It ends the last line.
func Document[T ~string | ~[]byte](w io.Writer, text T) {
	whole := string(text)
	if whole != "" && !strings.HasSuffix(whole, "\n") {
		whole += "\n"
	}
	_, _ = io.WriteString(w, whole) // standard output remembers what could not be written
}

// ErrorText is an error as a program says it. Lines behind the first are indented, so that a text
// of others in it begins none.
func ErrorText(err error) string {
	return strings.ReplaceAll(onLines(err.Error()), "\n", "\n  ")
}

// OneLine is a text on one line and in one cell of a table. Within quotation marks of YAML it stays the
// same text: YAML has no pairs of numbers for a character, as JSON has.
func OneLine(text string) string {
	var out strings.Builder
	for _, r := range text {
		shown := byNumber(r)
		switch {
		case r == '\n':
			shown = `\n`
		case r == '\t':
			shown = `\t`
		case r > 0xffff && shown[0] == '\\':
			shown = fmt.Sprintf(`\U%08x`, r)
		}
		out.WriteString(shown)
	}
	return out.String()
}

// onLines is a text of others whose breaks and tabs stay.
func onLines(text string) string {
	var out strings.Builder
	for _, r := range text {
		out.WriteString(byNumber(r))
	}
	return out.String()
}
