// Package lang has the texts of the console in every language that ships. The English text
// is the key. Templates and Go code stay in English, and a catalogue of each other language
// has the translations:
//
//   - Templates are translated when they are parsed (template.go). The key is the part of the
//     template that has words, with its actions.
//   - Go code calls [Language.T] and [Language.N]. The key is the format.
//   - Scripts of the pages call t. Their catalogue is served to them.
//
// Names of agents, people, operations and values are arguments of texts, and no texts.
package lang

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// Language is one language of the console.
type Language struct {
	Tag   string                   // BCP 47
	Name  string                   // in the language itself
	texts func() map[string]string // read when the first of them is needed
	form  form
}

// form is how a language writes numbers and quotation marks.
type form struct {
	open, close    string // quotation marks
	decimal, group string
	signAfter      bool // a currency stands behind its amount
}

//go:embed de/*.txt
var catalogues embed.FS

// The languages that ship.
var (
	English = &Language{Tag: "en", Name: "English", texts: func() map[string]string { return nil }, form: form{open: "\u201c", close: "\u201d", decimal: ".", group: ","}}
	German  = &Language{Tag: "de", Name: "Deutsch", texts: sync.OnceValue(func() map[string]string { return read("de") }), form: form{open: "\u201e", close: "\u201c", decimal: ",", group: ".", signAfter: true}}
)

// All are the languages, English first.
func All() []*Language { return []*Language{English, German} }

// matcher finds the best language for a reader. English is the first, and so the one for
// readers of other languages.
var matcher = language.NewMatcher([]language.Tag{language.English, language.German})

// Named returns the language of a tag, and false for none.
func Named(tag string) (*Language, bool) {
	for _, l := range All() {
		if l.Tag == tag {
			return l, true
		}
	}
	return English, false
}

// Choose returns the language that a reader chose, by its tag, or else the best one for the
// Accept-Language header of the reader's browser.
func Choose(chosen, accept string) *Language {
	if l, ok := Named(chosen); ok {
		return l
	}
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil || len(tags) == 0 {
		return English
	}
	_, at, sure := matcher.Match(tags...)
	if sure == language.No {
		return English
	}
	return All()[at]
}

// T is a text in the language: text is the English one, a format if there are arguments.
// No language is English.
func (l *Language) T(text string, args ...any) string {
	l = l.orEnglish()
	text = cmp.Or(l.texts()[text], text)
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// N is a text about a number of things. Both forms are formats, whose first argument is the
// number.
func (l *Language) N(n int, one, many string, args ...any) string {
	if n != 1 {
		one = many
	}
	return l.T(one, append([]any{Number(n)}, args...)...)
}

func (l *Language) orEnglish() *Language {
	if l == nil {
		return English
	}
	return l
}

// Mark marks a text that T translates later.
func Mark(text string) string { return text }

// Has reports whether the language has a text of its own for an English one. English has all.
func (l *Language) Has(text string) bool {
	_, ok := l.texts()[text]
	return ok || l == English
}

// Number writes a number with thin spaces between its thousands, in every language.
func Number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return text
}

// Quote puts a text between quotation marks. The text must have none that end them.
func (l *Language) Quote(text string) string {
	l = l.orEnglish()
	return l.form.open + text + l.form.close
}

// Money writes an amount, digits with a point before the cents, with its currency. A sign
// such as the dollar's stands at the number, a code such as CHF beside it.
func (l *Language) Money(digits, currency string) string {
	l = l.orEnglish()
	minus := strings.HasPrefix(digits, "-")
	whole, part, decimal := strings.Cut(strings.TrimPrefix(digits, "-"), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + l.form.group + whole[i:]
	}
	if decimal {
		if len(part) == 1 {
			part += "0"
		}
		whole += l.form.decimal + part
	}
	switch isCode := len([]rune(currency)) == len("CHF") && !strings.Contains(currency, "$"); {
	case l.form.signAfter:
		whole += "\u00a0" + currency
	case isCode:
		whole = currency + "\u00a0" + whole
	default:
		whole = currency + whole
	}
	if minus {
		return "-" + whole
	}
	return whole
}

// Scripts is a script that gives the scripts of pages their texts.
func (l *Language) Scripts() ([]byte, error) {
	texts := map[string]string{}
	if l != English {
		texts = readFile(l.Tag + "/scripts.txt")
	}
	data, err := json.Marshal(texts)
	if err != nil {
		return nil, fmt.Errorf("lang: %w", err)
	}
	return []byte("\"use strict\";\nconst texts = " + string(data) + ";\n"), nil
}

// read reads all catalogues of a language.
func read(tag string) map[string]string {
	all := map[string]string{}
	names, err := fs.Glob(catalogues, tag+"/*.txt")
	if err != nil {
		panic("lang: " + err.Error())
	}
	for _, name := range names {
		for english, text := range readFile(name) {
			all[english] = text
		}
	}
	return all
}

// readFile reads one catalogue: an English text on a line of its own, and on the next one,
// indented, its translation. "=" stands for the same text. A line that begins with # is a
// comment.
func readFile(name string) map[string]string {
	data, err := catalogues.ReadFile(name)
	if err != nil {
		panic("lang: " + err.Error())
	}
	texts, english := map[string]string{}, ""
	for n, line := range strings.Split(string(data), "\n") {
		text := strings.TrimSpace(line)
		switch indented := strings.HasPrefix(line, "  "); {
		case text == "" || strings.HasPrefix(line, "# "):
		case !indented && english == "":
			english = text
		case indented && english != "" && texts[english] == "":
			if text == "=" {
				text = english
			}
			texts[english], english = text, ""
		default:
			panic(fmt.Sprintf("lang: %s, line %d: want an English text once, and then its translation indented", name, n+1))
		}
	}
	if english != "" {
		panic("lang: " + name + ": the last text has no translation")
	}
	return texts
}
