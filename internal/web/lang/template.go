package lang

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Template is a template in the language, from the English one. Parts that the catalogue
// lacks stay in English.
func (l *Language) Template(source string) string {
	if l == English {
		return source
	}
	return rewritten(source, func(part string) string { return l.T(part) })
}

// Parts are the parts of a template that have words: what the catalogue has to translate.
func Parts(source string) (out []string) {
	rewritten(source, func(part string) string {
		out = append(out, part)
		return part
	})
	return out
}

// kind is a kind of token of a template.
type kind int

const (
	words  kind = iota // text of the page
	action             // of the template, that opens nothing
	opens              // {{if}}, {{range}}, {{with}} or {{define}}, or a tag inside a line
	middle             // {{else}}
	closes             // {{end}}, or the end of a tag
	block              // a tag that a sentence does not go across
)

type token struct {
	kind kind
	name string // of a tag, or "" for an action
	text string
}

// inline are the tags that stand inside a sentence.
var inline = []string{"a", "abbr", "b", "cite", "code", "em", "i", "kbd", "mark", "q", "small", "span", "strong", "sub", "sup", "time"}

// verbatim are the tags whose contents are no words.
var verbatim = []string{"code", "kbd"}

// spoken are the attributes that people read or hear.
var spoken = []string{"alt", "aria-label", "data-label", "data-says", "data-short", "data-side", "placeholder", "title"}

var (
	entity  = regexp.MustCompile(`&#?[a-zA-Z0-9]+;`)
	keyword = regexp.MustCompile(`^\{\{-?\s*(if|with|range|define|block|else|end)\b`)
	tagName = regexp.MustCompile(`^</?([a-zA-Z][a-zA-Z0-9]*)`)
)

// rewritten has every part with words replaced. A part is the smallest piece of a template,
// between tags that no sentence goes across, that has words of its own.
func rewritten(source string, replace func(string) string) string {
	var out strings.Builder
	var run []token
	flush := func() {
		out.WriteString(pieces(run, replace))
		run = nil
	}
	for _, t := range tokens(source) {
		if t.kind != block {
			run = append(run, t)
			continue
		}
		flush()
		out.WriteString(attributes(t.text, replace))
	}
	flush()
	return out.String()
}

// tokens splits a template.
func tokens(source string) (out []token) {
	for source != "" {
		t := token{kind: words}
		switch {
		case strings.HasPrefix(source, "{{"):
			end := strings.Index(source, "}}") + 2
			t.text, t.kind = source[:end], action
			if m := keyword.FindStringSubmatch(t.text); m != nil {
				t.kind = map[string]kind{"else": middle, "end": closes}[m[1]]
				if t.kind == words {
					t.kind = opens
				}
			}
		case tagName.MatchString(source) || strings.HasPrefix(source, "<!"):
			t = tag(source)
		default:
			t.text = source[:1]
			for i := 1; i < len(source) && source[i] != '<' && !strings.HasPrefix(source[i:], "{{"); i++ {
				t.text = source[:i+1]
			}
		}
		out = append(out, t)
		source = source[len(t.text):]
	}
	return out
}

// tag is the tag at the beginning of a source. Its attributes can have actions.
func tag(source string) token {
	end, quoted := 0, false
	for end < len(source) {
		if strings.HasPrefix(source[end:], "{{") {
			end += strings.Index(source[end:], "}}") + 2
			continue
		}
		if source[end] == '"' {
			quoted = !quoted
		}
		end++
		if source[end-1] == '>' && !quoted {
			break
		}
	}
	t := token{kind: block, text: source[:end]}
	if m := tagName.FindStringSubmatch(source); m != nil {
		t.name = strings.ToLower(m[1])
	}
	switch {
	case t.name == "br":
		t.kind = action
	case slices.Contains(inline, t.name) && strings.HasPrefix(source, "</"):
		t.kind = closes
	case slices.Contains(inline, t.name):
		t.kind = opens
	}
	return t
}

// pieces splits a run of tokens where something opens or closes that the run has no other
// end of, and rewrites the text between.
func pieces(run []token, replace func(string) string) string {
	var stack []int
	loose, middles := map[int]bool{}, map[int][]int{}
	for i, t := range run {
		switch t.kind {
		case opens:
			stack = append(stack, i)
		case middle:
			if n := len(stack); n > 0 && run[stack[n-1]].name == "" {
				middles[stack[n-1]] = append(middles[stack[n-1]], i)
			} else {
				loose[i] = true
			}
		case closes:
			if n := len(stack); n > 0 && run[stack[n-1]].name == t.name {
				stack = stack[:n-1]
			} else {
				loose[i] = true
			}
		case words, action, block:
		}
	}
	for _, open := range stack {
		loose[open] = true
		for _, m := range middles[open] {
			loose[m] = true
		}
	}
	var out strings.Builder
	begin := 0
	for i := range run {
		if loose[i] {
			out.WriteString(piece(run[begin:i], replace))
			out.WriteString(attributes(run[i].text, replace))
			begin = i + 1
		}
	}
	out.WriteString(piece(run[begin:], replace))
	return out.String()
}

// piece rewrites balanced tokens: as one part if they have words of their own, and otherwise
// each of what they hold.
func piece(run []token, replace func(string) string) string {
	depth := 0
	for _, t := range run {
		switch t.kind {
		case opens:
			depth++
		case closes:
			depth--
		case words:
			if depth == 0 && hasWords(t.text) {
				return part(joined(run), replace)
			}
		case action, middle, block:
		}
	}
	var out strings.Builder
	for i := 0; i < len(run); i++ {
		if run[i].kind != opens {
			out.WriteString(attributes(run[i].text, replace))
			continue
		}
		end := closing(run, i)
		out.WriteString(attributes(run[i].text, replace))
		if slices.Contains(verbatim, run[i].name) {
			out.WriteString(joined(run[i+1 : end]))
		} else {
			branches(run[i+1:end], &out, replace)
		}
		out.WriteString(run[end].text)
		i = end
	}
	return out.String()
}

// branches rewrites the text between {{if}} and {{end}}, each side of an {{else}} alone.
func branches(run []token, out *strings.Builder, replace func(string) string) {
	depth, begin := 0, 0
	for i, t := range run {
		switch t.kind {
		case opens:
			depth++
		case closes:
			depth--
		case middle:
			if depth == 0 {
				out.WriteString(piece(run[begin:i], replace))
				out.WriteString(t.text)
				begin = i + 1
			}
		case words, action, block:
		}
	}
	out.WriteString(piece(run[begin:], replace))
}

// closing is the place of the end of what opens at a place.
func closing(run []token, at int) int {
	depth := 0
	for i := at; i < len(run); i++ {
		switch run[i].kind {
		case opens:
			depth++
		case closes:
			if depth--; depth == 0 {
				return i
			}
		case words, action, middle, block:
		}
	}
	return len(run) - 1
}

func joined(run []token) string {
	var out strings.Builder
	for _, t := range run {
		out.WriteString(t.text)
	}
	return out.String()
}

func hasWords(text string) bool {
	return strings.ContainsFunc(entity.ReplaceAllString(text, ""), unicode.IsLetter)
}

// part replaces a part. Space around it stays, and space inside it is one space.
func part(text string, replace func(string) string) string {
	core := strings.TrimSpace(text)
	before := text[:strings.Index(text, core)]
	return before + replace(strings.Join(strings.Fields(core), " ")) + text[len(before)+len(core):]
}

// attributes rewrites the attributes of a tag that people read or hear. Any other text stays.
func attributes(tag string, replace func(string) string) string {
	if !strings.HasPrefix(tag, "<") {
		return tag
	}
	var out strings.Builder
	for tag != "" {
		equals := strings.Index(tag, `="`)
		if equals < 0 {
			break
		}
		begin := equals + len(`="`)
		end := begin
		for end < len(tag) && tag[end] != '"' {
			if strings.HasPrefix(tag[end:], "{{") {
				end += strings.Index(tag[end:], "}}") + 1
			}
			end++
		}
		name := tag[strings.LastIndexAny(tag[:equals], " \n}")+1 : equals]
		value := tag[begin:end]
		out.WriteString(tag[:begin])
		if slices.Contains(spoken, name) {
			value = pieces(valueTokens(value), replace)
		}
		out.WriteString(value)
		tag = tag[end:]
	}
	out.WriteString(tag)
	return out.String()
}

// valueTokens splits the value of an attribute, which has no tags.
func valueTokens(value string) (out []token) {
	for _, t := range tokens(strings.ReplaceAll(value, "<", "\x00")) {
		t.text = strings.ReplaceAll(t.text, "\x00", "<")
		out = append(out, t)
	}
	return out
}
