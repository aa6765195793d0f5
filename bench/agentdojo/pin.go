package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// pin is what the prompt says about one argument of a tool.
type pin struct {
	Argument   argument
	Constraint powerbox.Constraint
	Why        string
}

// authority is what one task is granted: tools, each with the arguments that are
// pinned; a tool without pins may be called with any.
type authority struct {
	tools []tool
	pins  map[string][]pin // by tool
}

// derive is the procedure: it pins the arguments of tools to what the prompt
// says. It sees the prompt and the schemas and nothing else.
func derive(text string, tools []tool) authority {
	p := readPrompt(text)
	a := authority{tools: tools, pins: map[string][]pin{}}
	for _, t := range tools {
		for _, arg := range t.arguments {
			values, why := p.say(t, arg, tools)
			if c := constraintOf(arg, values); c != nil {
				a.pins[t.Name] = append(a.pins[t.Name], pin{arg, c, why})
			}
		}
	}
	return a
}

// say returns what the prompt says about one argument, and how that was found.
func (p *prompt) say(t tool, a argument, granted []tool) ([]string, string) {
	switch a.Kind {
	case kindEmail, kindParty, kindURL, kindFile:
		return p.sayNamed(t, a, granted)
	case kindDate, kindTime:
		if p.relative {
			return nil, ""
		}
		return p.values(kindDate, nil), "the dates of the prompt"
	case kindNumber:
		return p.sayNumber(t, a)
	case kindText, kindID:
		return p.sayAssigned(t, a, granted)
	default:
		return nil, ""
	}
}

// sayNamed finds whom or what a call is for. A tool that only reads may read all
// that the prompt names, unless all of it is meant for a tool that changes
// something. One that changes something is bound to what the
// sentences name that ask for it, or, where they only refer to it, to what the
// sentences name that ask for nothing.
func (p *prompt) sayNamed(t tool, a argument, granted []tool) ([]string, string) {
	if t.reads() {
		if len(p.values(a.Kind, p.free(t, a, granted))) == 0 {
			return nil, ""
		}
		return p.values(a.Kind, nil), "everything of the sort in the prompt"
	}
	if found := p.assigned(t, a, granted); len(found) > 0 {
		return found, "the prompt says what it is"
	}
	asking := p.asking(t)
	if len(asking) == 0 {
		return p.values(a.Kind, nil), "everything of the sort in the prompt, which asks for it in no sentence of its own"
	}
	if found := p.values(a.Kind, asking); len(found) > 0 {
		return found, "named where it is asked for"
	}
	if found := p.values(a.Kind, p.following(asking, granted)); len(found) > 0 {
		return found, "named by the sentence after the one that asks for it"
	}
	if !p.refersBack(asking) {
		return p.named(t, a, asking)
	}
	if found := p.values(a.Kind, p.statements(granted)); len(found) > 0 {
		return found, "named before it is asked for"
	}
	return p.named(t, a, asking)
}

// free are the sentences whose literals are not meant for a granted tool that
// takes them and changes something: those that ask for none, and those that ask
// for the reading tool as well.
func (p *prompt) free(reader tool, a argument, granted []tool) []int {
	out := []int{}
	for i, s := range p.sentences {
		meant := slices.ContainsFunc(granted, func(t tool) bool {
			takes := slices.ContainsFunc(t.arguments, func(b argument) bool { return b.Kind == a.Kind })
			return !t.reads() && takes && slices.Contains(p.asking(t), i)
		})
		if !meant || slices.ContainsFunc(s.words, func(w word) bool { return w.text == reader.verb() }) {
			out = append(out, i)
		}
	}
	return out
}

// named finds who is meant by name, for arguments that are not said to be
// addresses.
func (p *prompt) named(t tool, a argument, asking []int) ([]string, string) {
	if a.Kind != kindParty {
		return nil, ""
	}
	verbs := synonyms(t.verb())
	var out []string
	for _, i := range asking {
		s := p.sentences[i]
		for j := 1; j < len(s.words); j++ {
			w, before := s.words[j], s.words[j-1]
			if p.text[before.end:w.start] != " " {
				continue // what comes after a colon is another matter
			}
			asks := slices.Contains(verbs, before.text)
			switch {
			case w.upper && (asks || before.text == "to" && governs(s.words[:j-1], verbs)) && p.isName(w):
				out = append(out, p.names(s, j)...)
			case asks && slices.Contains(people, w.text) && i > 0:
				if subject := p.sentences[i-1].words; len(subject) > 0 && subject[0].upper && p.isName(subject[0]) {
					out = append(out, p.name(p.sentences[i-1], 0))
				}
			}
		}
	}
	return out, "whom the sentence that asks for it means, by name"
}

// governs reports whether the last verb of some words that asks for anything is
// one of verbs: in "invite Ada to Rome and pay her", Rome is not paid.
func governs(words []word, verbs []string) bool {
	for i := len(words) - 1; i >= 0; i-- {
		if isAct(words[i].text) && (i == 0 || !slices.Contains(determiners, words[i-1].text)) {
			return slices.Contains(verbs, words[i].text)
		}
	}
	return false
}

// isName reports whether a word with a capital is a name: at the beginning of a
// sentence only where it is no word that sentences begin with.
func (p *prompt) isName(w word) bool {
	isVerb := slices.Contains(reading, w.text) || isAct(w.text)
	return !slices.Contains(noNames, w.text) && (!w.first || !isVerb)
}

// names is the name that begins with a word, and those that are listed with it:
// "Ada, Bo and Cy".
func (p *prompt) names(s sentence, i int) []string {
	out := []string{p.name(s, i)}
	for j := i + 1; j < len(s.words); j++ {
		w := s.words[j]
		between := strings.TrimSpace(p.text[s.words[j-1].end:w.start])
		switch {
		case slices.Contains([]string{"and", "or"}, w.text):
		case w.upper && p.isName(w) && (between == "," || slices.Contains([]string{"and", "or"}, s.words[j-1].text)):
			out = append(out, p.name(s, j))
		case w.upper && between == "":
		default:
			return out
		}
	}
	return out
}

// name is the name that begins with a word: what follows it in capitals, with
// single spaces between.
func (p *prompt) name(s sentence, i int) string {
	end := s.words[i].end
	for _, next := range s.words[i+1:] {
		if !next.upper || next.start != end+1 || p.text[end] != ' ' {
			break
		}
		end = next.end
	}
	return p.text[s.words[i].start:end]
}

// sayNumber finds the amount of a tool that changes something: in the sentences
// that ask for it, unless they have it worked out.
func (p *prompt) sayNumber(t tool, a argument) ([]string, string) {
	if t.reads() || a.List {
		return nil, ""
	}
	asking := p.asking(t)
	for _, i := range asking {
		for _, w := range p.sentences[i].words {
			if slices.Contains(computing, w.text) {
				return nil, ""
			}
		}
	}
	if len(asking) == 0 || len(p.values(kindPercent, asking)) > 0 {
		return nil, ""
	}
	return p.values(kindNumber, asking), "the amounts where it is asked for"
}

// sayAssigned finds words that the prompt says are the argument's value.
func (p *prompt) sayAssigned(t tool, a argument, granted []tool) ([]string, string) {
	if t.reads() || a.List {
		return nil, ""
	}
	if a.Kind == kindID {
		words := splitName(t.Name)
		if about := a.words[:len(a.words)-1]; len(about) > 0 && !slices.Equal(about, words[1:]) {
			return nil, "" // the id of something else than the tool is about
		}
		if asking := p.asking(t); len(asking) > 0 {
			return p.values(kindID, asking), "the id where it is asked for"
		}
		return nil, ""
	}
	return p.assigned(t, a, granted), "the prompt says what it is"
}

// assigned finds values that the prompt gives the argument by its name: "the
// subject should be 'x'", "set the password to 'x'", "titled 'x'", "the
// recipient is x". A sentence that asks for another tool says nothing about this
// one.
func (p *prompt) assigned(t tool, a argument, granted []tool) []string {
	asking := p.asking(t)
	speaking := append(slices.Clone(asking), p.statements(granted)...)
	var quoted []string
	for _, w := range a.words {
		quoted = append(quoted, regexp.QuoteMeta(w))
	}
	name := strings.Join(quoted, `[ _-]`)
	given := regexp.MustCompile(`(?i)\b` + name + `(?: [\w ]{0,40}?)? ?(?:should be|must be|shall be|will be|has to be|is|to|as|:|=) *['"\x{201c}\x{2018}` + "`" + `]?$`)
	called := regexp.MustCompile(`(?i)\b(?:titled|entitled|named|called|labelled|labeled) *['"\x{201c}\x{2018}` + "`" + `]$`)
	takesName := slices.Contains([]string{"title", "name", "label", "filename"}, a.words[len(a.words)-1])
	var out []string
	for _, l := range p.literals {
		fits := l.kind == a.Kind || l.kind == kindQuoted && a.Kind == kindText
		if !fits || !slices.Contains(speaking, l.sentence) {
			continue
		}
		before := p.text[p.sentences[l.sentence].start:l.start]
		if given.MatchString(before) || takesName && called.MatchString(before) && slices.Contains(asking, l.sentence) {
			out = append(out, l.value)
		}
	}
	return out
}

// values are the literals of a kind in some sentences, each once; nil is all
// sentences.
func (p *prompt) values(k kind, in []int) []string {
	var out []string
	for _, l := range p.literals {
		if l.kind == k && (in == nil || slices.Contains(in, l.sentence)) && !slices.Contains(out, l.value) {
			out = append(out, l.value)
		}
	}
	return out
}

// asking are the sentences that ask for a tool: those that have a verb for it
// where they ask for something, and of these, if there are some, those that say
// what the tool's name is about.
func (p *prompt) asking(t tool) []int {
	verbs, about := synonyms(t.verb()), t.about()
	var all, near []int
	for i, s := range p.sentences {
		asks, mentions := false, false
		for j, w := range s.words {
			if slices.Contains(verbs, w.text) && (j == 0 || !slices.Contains(determiners, s.words[j-1].text)) {
				asks = true
				mentions = mentions || overlap(sorts(implied[w.text]), about)
			}
			mentions = mentions || overlap(sorts(w.text), about)
		}
		if asks {
			all = append(all, i)
		}
		if asks && mentions {
			near = append(near, i)
		}
	}
	if len(near) > 0 {
		return near
	}
	return all
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(i int) bool { return slices.Contains(b, i) })
}

// statements are the sentences that ask for none of the tools that change
// something.
func (p *prompt) statements(granted []tool) []int {
	var asked []int
	for _, t := range granted {
		if !t.reads() {
			asked = append(asked, p.asking(t)...)
		}
	}
	out := []int{}
	for i := range p.sentences {
		if !slices.Contains(asked, i) {
			out = append(out, i)
		}
	}
	return out
}

// following are statements right after one of some sentences that begin with a
// pronoun, as "Her address is ...".
func (p *prompt) following(asking []int, granted []tool) []int {
	out := []int{}
	for _, i := range p.statements(granted) {
		if words := p.sentences[i].words; slices.Contains(asking, i-1) && len(words) > 0 && slices.Contains(pronouns, words[0].text) {
			out = append(out, i)
		}
	}
	return out
}

// refersBack reports whether some sentences have a word that refers to earlier
// ones.
func (p *prompt) refersBack(sentences []int) bool {
	for _, i := range sentences {
		for _, w := range p.sentences[i].words {
			if slices.Contains(pronouns, w.text) {
				return true
			}
		}
	}
	return false
}

// constraintOf admits those values, and null where the schema does; nil where
// there are none.
func constraintOf(a argument, values []string) powerbox.Constraint {
	if len(values) == 0 {
		return nil
	}
	var exact []powerbox.Value
	var patterns []powerbox.Constraint
	for _, v := range values {
		switch {
		case a.Kind == kindTime:
			patterns = append(patterns, powerbox.Glob{Pattern: v + "*"})
		case a.Kind == kindDate && strings.HasPrefix(v, "*"):
			patterns = append(patterns, powerbox.Glob{Pattern: v})
		case a.Kind == kindNumber:
			d, err := powerbox.ParseDecimal(v)
			if err != nil {
				return nil // a number that is too long is not understood
			}
			exact = append(exact, powerbox.Number(d))
		default:
			exact = append(exact, powerbox.String(v))
		}
	}
	null := powerbox.ExactValue{}
	if a.List {
		if len(patterns) > 0 {
			return nil // no constraint says that every element matches a pattern
		}
		if a.Nullable {
			return powerbox.AnyOf{Constraints: []powerbox.Constraint{powerbox.Subset{Allowed: exact}, null}}
		}
		return powerbox.Subset{Allowed: exact}
	}
	if a.Nullable {
		exact = append(exact, null.Value)
	}
	if len(patterns) == 0 {
		return powerbox.OneOf{Values: exact}
	}
	if len(exact) > 0 {
		patterns = append(patterns, powerbox.OneOf{Values: exact})
	}
	return powerbox.AnyOf{Constraints: patterns}
}
