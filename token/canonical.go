package token

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/powerbox-project/powerbox"
)

// appendCanonical appends v in the canonical form of RFC 8785. It refuses a
// number that the form would round, since two calls must never share one proof
// (ATK-39, ATK-40).
func appendCanonical(b []byte, v powerbox.Value) ([]byte, error) {
	switch v.Kind() {
	case powerbox.KindNumber:
		return appendNumber(b, v)
	case powerbox.KindList:
		return appendList(b, v)
	case powerbox.KindObject:
		return appendObject(b, v)
	default:
		return v.AppendJSON(b), nil
	}
}

// appendNumber relies on Decimal's form being that of ECMAScript except for the
// sign of a positive exponent.
func appendNumber(b []byte, v powerbox.Value) ([]byte, error) {
	d, _ := v.Decimal()
	text := d.String()
	f, _ := strconv.ParseFloat(text, 64) // in range: a Decimal fits a double
	if shortest, err := powerbox.ParseDecimal(strconv.FormatFloat(f, 'e', -1, 64)); err != nil || shortest != d {
		return nil, refuse(CodeNotExpressible, "number %s has more digits than a 64-bit float keeps; write it as a string", text)
	}
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok && exponent[0] != '-' {
		text = mantissa + "e+" + exponent
	}
	return append(b, text...), nil
}

func appendList(b []byte, v powerbox.Value) ([]byte, error) {
	elements, _ := v.Elements()
	b = append(b, '[')
	var err error
	for i, e := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCanonical(b, e); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, v powerbox.Value) ([]byte, error) {
	members, _ := v.Members()
	// RFC 8785 section 3.2.3 sorts by UTF-16, which differs from UTF-8 beyond
	// the basic plane.
	members = slices.SortedFunc(slices.Values(members), func(m, n powerbox.Member) int {
		return slices.Compare(utf16.Encode([]rune(m.Name)), utf16.Encode([]rune(n.Name)))
	})
	b = append(b, '{')
	var err error
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(powerbox.String(m.Name).AppendJSON(b), ':')
		if b, err = appendCanonical(b, m.Value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
