package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// kind is what sort of literal an argument takes, as its schema suggests.
type kind uint8

const (
	kindNone    kind = iota // truth values, objects, enumerations: never pinned
	kindText                // words of which only the prompt can say that they are meant
	kindEmail               // an address with @
	kindParty               // who gets something: an account, a user, a payee
	kindURL                 // an address on the web
	kindFile                // a file, by name or path
	kindDate                // YYYY-MM-DD
	kindTime                // YYYY-MM-DD and a time of day
	kindNumber              // an amount
	kindID                  // an id, of whatever
	kindPercent             // a share of something, which is never an amount

)

var kindNames = [...]string{"none", "text", "email address", "party", "URL", "file", "date", "date and time", "number", "id", "percentage"}

// String returns the word of the documentation.
func (k kind) String() string { return kindNames[k] }

// argument is one parameter of a tool.
type argument struct {
	Name     string
	Kind     kind
	List     bool // takes an array of such values
	Required bool
	Nullable bool
	words    []string // of its name
}

// property holds the members of a JSON Schema that are read.
type property struct {
	Type        any         `json:"type"`
	Format      string      `json:"format"`
	Description string      `json:"description"`
	Ref         string      `json:"$ref"`
	Enum        []any       `json:"enum"`
	AnyOf       []*property `json:"anyOf"`
	OneOf       []*property `json:"oneOf"`
	Items       *property   `json:"items"`
}

// maxReferences bounds how often a schema may refer on.
const maxReferences = 16

// readSchema returns the arguments that a schema has, in order of their names.
func readSchema(raw json.RawMessage) ([]argument, error) {
	var schema struct {
		Properties  map[string]*property `json:"properties"`
		Required    []string             `json:"required"`
		Definitions map[string]*property `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("parameters are no JSON Schema of an object: %w", err)
	}
	var out []argument
	for name, p := range schema.Properties {
		if p == nil {
			return nil, fmt.Errorf("parameter %q has no schema", name)
		}
		a := argument{Name: name, Required: slices.Contains(schema.Required, name), words: splitName(name)}
		said := p.Description
		for range maxReferences {
			next := a.into(p, schema.Definitions)
			if next == nil {
				break
			}
			p = next
		}
		if p.Description != "" && said == "" {
			said = p.Description
		}
		a.Kind = kindOf(p, a.words, said)
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// into goes one step towards the schema of the value itself: through a
// reference, the alternative to null, the elements of a list. It is nil where
// there is none to go.
func (a *argument) into(p *property, definitions map[string]*property) *property {
	if name, ok := strings.CutPrefix(p.Ref, "#/$defs/"); ok {
		return definitions[name]
	}
	var values []*property
	for _, q := range append(slices.Clone(p.AnyOf), p.OneOf...) {
		if q != nil && q.Type == "null" {
			a.Nullable = true
		} else {
			values = append(values, q)
		}
	}
	if len(values) == 1 {
		return values[0]
	}
	if p.typed("array") && !a.List {
		a.List = true
		return p.Items
	}
	a.Nullable = a.Nullable || p.typed("null")
	return nil
}

// typed reports whether the schema admits that type.
func (p *property) typed(name string) bool {
	if list, ok := p.Type.([]any); ok {
		return slices.ContainsFunc(list, func(t any) bool { return t == name })
	}
	return p.Type == name
}

var (
	saysEmail = regexp.MustCompile(`(?i)\be-?mails?( address(es)?)?\b.* of\b|\be-?mail address`)
	saysParty = regexp.MustCompile(`(?i)\b(iban|account number|recipient|payee|beneficiary|receiver)\b`)
	saysTime  = regexp.MustCompile(`YYYY-MM-DD[ T]HH:MM`)
	saysDate  = regexp.MustCompile(`YYYY-MM-DD|(?i:\bISO( 8601)?( date)? format\b)`)
	saysFile  = regexp.MustCompile(`(?i)\b(path|name) (to|of) the file\b`)
)

// kindOf returns the kind of a value. It decides by type first, then by format,
// the words of the argument's name, and the description.
func kindOf(p *property, words []string, said string) kind {
	has := func(some ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(some, w) })
	}
	isID := has("id", "ids", "identifier", "uuid")
	number := p.typed("number") || p.typed("integer")
	switch {
	case len(p.Enum) > 0 || !number && !p.typed("string"):
		return kindNone
	case isID:
		return kindID
	case number && has("percent", "percentage", "rate", "ratio"):
		return kindPercent
	case number:
		return kindNumber
	case p.Format == "email" || has("email", "emails", "cc", "bcc") || saysEmail.MatchString(said):
		return kindEmail
	case p.Format == "date-time" || saysTime.MatchString(said):
		return kindTime
	case p.Format == "date" || saysDate.MatchString(said):
		return kindDate
	case p.Format == "uri" || has("url", "uri", "link", "website", "webpage"):
		return kindURL
	case has("file", "filename", "filepath", "path") || saysFile.MatchString(said):
		return kindFile
	case has("recipient", "recipients", "payee", "beneficiary", "iban", "account") || saysParty.MatchString(said):
		return kindParty
	}
	return kindText
}

// splitName splits snake_case, kebab-case and camelCase into lower-case words, at
// least one.
func splitName(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if unicode.IsUpper(r) && small {
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	if words := strings.Fields(b.String()); len(words) > 0 {
		return words
	}
	return []string{strings.ToLower(name)}
}
