package powerbox

import (
	"slices"
	"strconv"
)

// RoundedArgument returns the first argument that holds a number which a reader with
// IEEE 754 double precision takes for another one, such as 9007199254740993. It returns
// false where every number survives.
//
// Anyone who forwards arguments to other software must refuse such a call: the decided value
// would differ from the value that the software reads (ATK-39).
func RoundedArgument(arguments Value) (name string, found bool) {
	members := arguments.fields()
	at := slices.IndexFunc(members, func(m Member) bool { return m.Value.isRounded() })
	if at < 0 {
		return "", false
	}
	return members[at].Name, true
}

// isRounded reports whether v holds, at any depth, a number that a double does not.
func (v *Value) isRounded() bool {
	if v.kind == KindNumber {
		return v.decimal().IsRounded()
	}
	elements, members := v.elements(), v.fields()
	return slices.ContainsFunc(elements, func(e Value) bool { return e.isRounded() }) ||
		slices.ContainsFunc(members, func(m Member) bool { return m.Value.isRounded() })
}

// IsRounded reports whether v holds, at any depth, a number that a reader with doubles
// takes for another one.
func (v Value) IsRounded() bool { return v.isRounded() }

// doubleDigits is how many significant digits every double keeps, well inside its range.
const doubleDigits = 15

// IsRounded reports whether a double nearest to d, written in its shortest form, is
// another number.
func (d Decimal) IsRounded() bool {
	if len(d.digits) <= doubleDigits && d.exponent > -300 && d.exponent < 300 {
		return false
	}
	f, _ := strconv.ParseFloat(d.String(), 64)                     // an overflow is infinite,
	read, err := ParseDecimal(strconv.FormatFloat(f, 'g', -1, 64)) // which is no decimal
	return err != nil || read != d
}
