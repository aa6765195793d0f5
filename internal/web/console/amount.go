package console

import (
	"regexp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// currencyKeyword of a number in a capability's schema says that it is money: it has the
// currency's code, or the name of the property with the code.
const currencyKeyword = "x-currency"

var (
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
	plainNumber  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

// signs are the currencies that one sign names without doubt.
var signs = map[string]string{"EUR": "\u20ac", "GBP": "\u00a3", "USD": "US$"}

// money finds the currency of each amount, as the operator's schema says it. One that
// another argument names is known if that argument is held to one value.
func money(fs []field, properties powerbox.Value) {
	for i := range fs {
		property, _ := properties.Get(fs[i].Name)
		code := text(property, currencyKeyword)
		other := slices.IndexFunc(fs, func(f field) bool { return f.Name == code })
		if other >= 0 {
			code = fs[other].single()
		}
		if kind := text(property, "type"); kind != "number" && kind != "integer" {
			continue
		}
		if !currencyCode.MatchString(code) {
			continue
		}
		fs[i].currency = code
		if sign, ok := signs[code]; ok {
			fs[i].currency = sign
		}
		if other >= 0 && fs[i].held.Kind() != powerbox.KindNull {
			fs[other].said = true
		}
	}
}

// amount writes a number of money as the reader's language does. Any other number stays as
// it is.
func (f field) amount(number string) string {
	if f.currency == "" || !plainNumber.MatchString(number) {
		return number
	}
	return f.language.Money(number, f.currency)
}

// Money is how the page's script writes an amount of the field: one of nothing, and "" for
// a number that is no money.
func (f field) Money() string {
	if f.currency == "" {
		return ""
	}
	return f.language.Money("0", f.currency)
}

// named is the name of an argument, as people read it.
func named(name string) string { return strings.ReplaceAll(visible(name), "_", " ") }

// readable is a value in JSON as people read it: a text between quotation marks, which it
// cannot end, and anything else as it is.
func readable(l *lang.Language, value string, longest int) string {
	v, err := powerbox.ParseValue([]byte(value))
	if s, ok := v.Text(); ok && err == nil {
		return l.Quote(clippedRunes(words(s), longest))
	}
	return clippedRunes(words(value), longest)
}

// firstNames are the names of arguments that decide most: they come first, the recipient
// before the amount. The order is all that they change: nothing is left out or claimed.
var firstNames = [][]string{
	{"to", "recipient", "recipients", "receiver", "payee", "beneficiary", "destination", "iban", "address"},
	{"amount", "total", "sum", "price", "value", "currency"},
}

// importance of an argument by a word of its name, smallest first. Short values come
// before long ones, so that no text pushes another argument down.
func importance(a issuer.Argument) int {
	const short = 80
	split := strings.FieldsFunc(strings.ToLower(a.Name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	for i, names := range firstNames {
		if slices.ContainsFunc(split, func(w string) bool { return slices.Contains(names, w) }) {
			return i
		}
	}
	if len(a.Value) <= short {
		return len(firstNames)
	}
	return len(firstNames) + 1
}

// ordered are the arguments of a call, those that decide first.
func ordered(all []issuer.Argument) []issuer.Argument {
	out := slices.Clone(all)
	sorting.Stable(out, func(a, b issuer.Argument) int { return importance(a) - importance(b) })
	return out
}

// shownArgument is an argument of a call as people read it.
type shownArgument struct {
	Name, Value string
	Text, First bool // Text: it is a text, and quoted
}

func shownArguments(all []issuer.Argument) (out []shownArgument) {
	for _, a := range ordered(all) {
		one := shownArgument{Name: visible(a.Name), Value: visible(a.Value), First: importance(a) < len(firstNames)}
		v, err := powerbox.ParseValue([]byte(a.Value))
		if s, ok := v.Text(); ok && err == nil {
			one.Value, one.Text = visible(s), true
		}
		out = append(out, one)
	}
	return out
}

// wrapped is a foreign text that is too long to be read at a glance.
func wrapped(s string) bool {
	const glance = 160
	return len([]rune(agentauth.Plain(s, 4*glance))) > glance
}
