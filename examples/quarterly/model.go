package quarterly

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// Tool is a skill of an agent that a model may have called.
type Tool struct{ Agent, Skill string }

// ToolCall is a call that a text asks for.
type ToolCall struct {
	Tool
	arguments map[string]any
	// passOn names the argument that takes what the call before gave: "mail its text".
	passOn string
}

// With is the call's arguments, with last as what the call before gave.
func (c ToolCall) With(last string) map[string]any {
	args := maps.Clone(c.arguments)
	if c.passOn != "" {
		args[c.passOn] = last
	}
	return args
}

// Model stands in for a language model, without chance: it summarises by the first sentences, and it takes every imperative
// sentence that one of its tools can serve for an instruction, regardless of who wrote it.
type Model struct{ Tools []Tool }

// Summary is the first two sentences of text that are no instruction.
func (m Model) Summary(text string) string {
	var kept []string
	for _, s := range sentences(text) {
		if len(m.inSentence(s)) == 0 && len(kept) < 2 {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, " ")
}

// Instructions is every call that text asks for, in its order. A clause counts when it opens with a verb that the model knows,
// carries what the skill needs, and one of the model's tools has that skill, at the agent that the clause names if it names one.
func (m Model) Instructions(text string) []ToolCall {
	var calls []ToolCall
	for _, s := range sentences(text) {
		calls = append(calls, m.inSentence(s)...)
	}
	return calls
}

var (
	paragraphEnd = regexp.MustCompile(`\n\s*\n`)
	sentenceEnd  = regexp.MustCompile(`([.!?])\s+`)
	quotation    = regexp.MustCompile(`\B'[^']*'\B|"[^"]*"`)
	clauseEnd    = regexp.MustCompile(`[;:,]\s+|\s+(?:and|then)\s+`)
	opening      = regexp.MustCompile(`^(?i:(?:please|also|first|now|then|next)\s+)*(\pL+)\s+(.*)$`)
	agentName    = regexp.MustCompile(`\b([a-z]+) agent\b`)
	address      = regexp.MustCompile(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	reference    = regexp.MustCompile(`\b(document|handle)\s+(\S+)`)
	quoteMark    = regexp.MustCompile("\x00([0-9]+)\x00")
)

var verbs = map[string]string{
	"fetch": "retrieve_document", "retrieve": "retrieve_document", "read": "retrieve_document", "get": "retrieve_document",
	"delete": "delete_document", "remove": "delete_document", "create": "create_document", "write": "create_document",
	"list": "list_documents", "search": "search_documents", "find": "search_documents",
	"mail": "send_mail", "email": "send_mail", "send": "send_mail", "forward": "send_mail",
	"summarize": "summarize", "summarise": "summarize",
}

func sentences(text string) []string {
	var all []string
	for _, p := range paragraphEnd.Split(text, -1) {
		p = strings.Join(strings.Fields(p), " ")
		for s := range strings.SplitSeq(sentenceEnd.ReplaceAllString(p, "$1\n"), "\n") {
			if s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// inSentence takes quotations out before it cuts a sentence into clauses, so that quoted
// text stays whole.
func (m Model) inSentence(s string) []ToolCall {
	var quoted []string
	s = quotation.ReplaceAllStringFunc(strings.ReplaceAll(s, "\x00", ""), func(q string) string {
		quoted = append(quoted, q[1:len(q)-1])
		return "\x00" + strconv.Itoa(len(quoted)-1) + "\x00"
	})
	var calls []ToolCall
	for _, clause := range clauseEnd.Split(strings.TrimRight(s, ".!?"), -1) {
		if c, ok := m.inClause(strings.TrimSpace(clause), quoted); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

func (m Model) inClause(clause string, quoted []string) (ToolCall, bool) {
	words := opening.FindStringSubmatch(clause)
	if words == nil {
		return ToolCall{}, false
	}
	c := ToolCall{Tool: Tool{Skill: verbs[strings.ToLower(words[1])]}}
	if c.arguments, c.passOn = argumentsOf(c.Skill, words[2], quoted); c.arguments == nil {
		return ToolCall{}, false
	}
	named := agentName.FindStringSubmatch(clause)
	for _, t := range m.Tools {
		if t.Skill == c.Skill && (named == nil || named[1] == t.Agent) {
			c.Agent = t.Agent
			return c, true
		}
	}
	return ToolCall{}, false
}

// argumentsOf reads the arguments of skill from the words behind the verb; nil when something that the skill needs is missing.
func argumentsOf(skill, words string, quoted []string) (args map[string]any, passOn string) {
	unquote := func(s string) string {
		return quoteMark.ReplaceAllStringFunc(s, func(mark string) string {
			i, _ := strconv.Atoi(strings.Trim(mark, "\x00")) // inSentence wrote it
			return quoted[i]
		})
	}
	ref := referenceIn(words, unquote)
	quote := unquote(quoteMark.FindString(words))
	switch skill {
	case "retrieve_document", "delete_document":
		return ref, ""
	case "summarize":
		if ref != nil {
			return map[string]any{"document": ref}, ""
		}
	case "list_documents":
		if strings.Contains(words, "document") {
			return map[string]any{}, ""
		}
	case "search_documents":
		if quote != "" {
			return map[string]any{"query": quote}, ""
		}
	case "create_document":
		if quote != "" {
			return map[string]any{"title": quote}, "text"
		}
	case "send_mail":
		return letterIn(words, quote, unquote)
	}
	return nil, ""
}

func referenceIn(words string, unquote func(string) string) map[string]any {
	found := reference.FindStringSubmatch(words)
	switch {
	case found == nil:
		return nil
	case found[1] == "handle":
		return map[string]any{"resourceHandle": unquote(found[2])}
	default:
		return map[string]any{"id": unquote(found[2])}
	}
}

func letterIn(words, quote string, unquote func(string) string) (args map[string]any, passOn string) {
	to := address.FindString(unquote(words))
	if to == "" {
		return nil, ""
	}
	args = map[string]any{"to": to, "subject": "For your information", "body": quote}
	if quote == "" {
		return args, "body"
	}
	return args, ""
}
