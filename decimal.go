package powerbox

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A JSON number has at most maxNumberBytes, so that comparing two of them
// costs a bounded amount of work, and at most maxDigits significant digits, so
// that what String writes is never longer than what ParseDecimal reads.
const (
	maxNumberBytes = 512
	maxDigits      = 500
)

// Decimal is an exact decimal number, never a float64: two numbers that
// differ anywhere in their digits are different (ATK-39). Equal numbers are
// equal Go values however they were written: 1, 1.0 and 10e-1 are one Decimal.
// The zero Decimal is 0.
type Decimal struct {
	negative bool
	digits   string // significant digits, no leading or trailing zero; "" is 0
	exponent int32  // the value is 0.digits times ten to the exponent
}

// Int returns the decimal of n.
func Int(n int64) Decimal {
	d, _ := ParseDecimal(strconv.FormatInt(n, 10)) // every int64 is one
	return d
}

// ParseDecimal parses a JSON number. It refuses what the grammar of RFC 8259
// does not have (NaN, Infinity, leading zeros), negative zero, and numbers
// that overflow or vanish in an IEEE 754 double: other readers of the same
// bytes would see another value.
func ParseDecimal(s string) (Decimal, error) {
	if len(s) > maxNumberBytes {
		return Decimal{}, fmt.Errorf("number has %d characters; want at most %d", len(s), maxNumberBytes)
	}
	p, ok := splitNumber(s)
	if !ok {
		return Decimal{}, fmt.Errorf("%q is not a JSON number such as 12, -0.5 or 1e9", s)
	}
	exponent := 0
	if p.exponent != "" {
		e, err := strconv.ParseInt(p.exponent, 10, 32)
		if err != nil || e > 9999 || e < -9999 {
			return Decimal{}, fmt.Errorf("number %s has an exponent out of range", s)
		}
		exponent = int(e)
	}
	digits := p.whole + p.fraction
	trimmed := strings.TrimLeft(digits, "0")
	point := len(p.whole) - (len(digits) - len(trimmed)) + exponent
	trimmed = strings.TrimRight(trimmed, "0")
	if len(trimmed) > maxDigits {
		return Decimal{}, fmt.Errorf("number has %d significant digits; want at most %d", len(trimmed), maxDigits)
	}
	if trimmed == "" {
		if p.negative {
			return Decimal{}, fmt.Errorf("number %s is negative zero; write 0", s)
		}
		return Decimal{}, nil
	}
	if point > 308 || point < -300 {
		if f, err := strconv.ParseFloat(s, 64); err != nil || f == 0 || math.IsInf(f, 0) {
			return Decimal{}, fmt.Errorf("number %s cannot be held by an IEEE 754 double", s)
		}
	}
	return Decimal{p.negative, trimmed, int32(point)}, nil
}

type numberParts struct {
	negative                  bool
	whole, fraction, exponent string
}

// splitNumber takes a number apart by the grammar of RFC 8259 section 6.
func splitNumber(s string) (p numberParts, ok bool) {
	rest, negative := strings.CutPrefix(s, "-")
	p.negative = negative
	p.whole, rest = cutDigits(rest)
	if p.whole == "" || len(p.whole) > 1 && p.whole[0] == '0' {
		return p, false
	}
	if after, found := strings.CutPrefix(rest, "."); found {
		if p.fraction, rest = cutDigits(after); p.fraction == "" {
			return p, false
		}
	}
	if rest == "" {
		return p, true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return p, false
	}
	rest = rest[1:]
	sign := ""
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		sign, rest = rest[:1], rest[1:]
	}
	digits, rest := cutDigits(rest)
	p.exponent = sign + digits
	return p, digits != "" && rest == ""
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// Compare returns -1, 0 or 1 as d is less than, equal to or greater than e.
func (d Decimal) Compare(e Decimal) int {
	if s, t := d.sign(), e.sign(); s != t || s == 0 {
		return cmp.Compare(s, t)
	}
	c := cmp.Compare(d.exponent, e.exponent)
	if c == 0 {
		c = strings.Compare(d.digits, e.digits)
	}
	if d.negative {
		return -c
	}
	return c
}

func (d Decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// Int64 returns d as an integer, and false where it is not one or does not
// fit.
func (d Decimal) Int64() (int64, bool) {
	if d.digits == "" {
		return 0, true
	}
	if int(d.exponent) < len(d.digits) || d.exponent > 19 {
		return 0, false
	}
	if d.exponent <= 18 && !d.negative { // any of them fits
		n := int64(0)
		for i := range int(d.exponent) {
			n *= 10
			if i < len(d.digits) {
				n += int64(d.digits[i] - '0')
			}
		}
		return n, true
	}
	n, err := strconv.ParseInt(d.String(), 10, 64)
	return n, err == nil
}

// String returns d as a JSON number, exactly: plain where that is short, with
// an exponent otherwise.
func (d Decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	n, point := len(d.digits), int(d.exponent)
	switch {
	case point >= n && point <= 21:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", point-n))
	case point > 0 && point < n:
		b.WriteString(d.digits[:point] + "." + d.digits[point:])
	case point <= 0 && point > -6:
		b.WriteString("0." + strings.Repeat("0", -point) + d.digits)
	default:
		b.WriteString(d.digits[:1])
		if n > 1 {
			b.WriteString("." + d.digits[1:])
		}
		b.WriteString("e" + strconv.Itoa(point-1))
	}
	return b.String()
}
