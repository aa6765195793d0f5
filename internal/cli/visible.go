package cli

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// visible writes text of others to a terminal: what a terminal would obey, or
// an invisible character, becomes U+FFFD. Lines and tabs stay.
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

// Visible is standard output for text of others.
func (p *Program) Visible() io.Writer { return visible{p.Stdout} }

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
// those that a terminal obeys are written by their numbers (ATK-120).
func Printf(w io.Writer, format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = onOneLine(arg)
	}
	_, _ = fmt.Fprintf(w, format, shown...) // standard output remembers what could not be written
}

// onOneLine is a value whose text, if it is one, has one line and one cell.
func onOneLine(arg any) any {
	switch v := arg.(type) {
	case error:
		return OneLine(v.Error())
	case fmt.Stringer:
		return OneLine(v.String())
	}
	switch v := reflect.ValueOf(arg); {
	case v.Kind() == reflect.String:
		return OneLine(v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return OneLine(string(v.Bytes()))
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Map || v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer:
		return OneLine(fmt.Sprint(arg))
	}
	return arg
}

// OneLine is a text on one line and in one cell of a table.
func OneLine(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch r {
		case '\n':
			out.WriteString(`\n`)
		case '\t':
			out.WriteString(`\t`)
		default:
			out.WriteString(byNumber(r))
		}
	}
	return out.String()
}

// ShownJSON is JSON of others as people read it.
func ShownJSON(raw []byte) string {
	var out strings.Builder
	for _, r := range string(raw) {
		out.WriteString(byNumber(r))
	}
	return out.String()
}
