package powerbox

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds of JSON value. The zero Value is null.
const (
	KindNull Kind = iota
	KindBool
	KindNumber
	KindString
	KindList
	KindObject
)

// String returns the kind's name.
func (k Kind) String() string {
	names := [...]string{"null", "boolean", "number", "string", "array", "object"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Value is a JSON value with exact numbers. It is immutable. The zero Value is
// null.
type Value struct {
	kind Kind
	// A number's sign, exponent and digits lie where a boolean and a string do,
	// so that values are small: see Decimal for what they mean.
	truth    bool
	exponent int32
	text     string
	parts    *parts // nil for what has none
}

// parts are what an array or an object is made of, or how a number was written that
// [Decimal.String] writes in another way.
type parts struct {
	list    []Value
	members []Member // sorted by name, names unique
	source  string
}

// Member is one member of an object.
type Member struct {
	Name  string
	Value Value
}

// Bool returns a boolean value.
func Bool(b bool) Value { return Value{kind: KindBool, truth: b} }

// Number returns a number value.
func Number(d Decimal) Value {
	return Value{kind: KindNumber, truth: d.negative, exponent: d.exponent, text: d.digits}
}

// String returns a string value; s must be UTF-8.
func String(s string) Value { return Value{kind: KindString, text: s} }

// List returns an array value.
func List(vs ...Value) Value { return listOf(slices.Clone(vs)) }

// listOf returns an array that keeps vs itself.
func listOf(vs []Value) Value {
	if len(vs) == 0 {
		return Value{kind: KindList}
	}
	return Value{kind: KindList, parts: &parts{list: vs}}
}

// Object returns an object value. Where a name occurs twice the later member
// is kept, so that callers can override.
func Object(members ...Member) Value {
	if ascending(members) {
		return copyObject(members)
	}
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, compareMembers)
	out := sorted[:0]
	for _, m := range sorted {
		if n := len(out); n > 0 && out[n-1].Name == m.Name {
			out[n-1] = m
			continue
		}
		out = append(out, m)
	}
	return objectOf(out)
}

// objectOf returns an object that keeps ms itself; they are in order.
func objectOf(ms []Member) Value {
	if len(ms) == 0 {
		return Value{kind: KindObject}
	}
	return Value{kind: KindObject, parts: &parts{members: ms}}
}

// Most arrays and objects in signed bytes have few parts. Theirs lie behind
// them, in one piece of memory.
type (
	oneElement struct {
		parts
		room [1]Value
	}
	oneMember struct {
		parts
		room [1]Member
	}
	twoMembers struct {
		parts
		room [2]Member
	}
	threeMembers struct {
		parts
		room [3]Member
	}
)

// copyList returns an array of the values of ms.
func copyList(ms []Member) Value {
	if len(ms) == 1 {
		p := &oneElement{room: [1]Value{ms[0].Value}}
		p.list = p.room[:]
		return Value{kind: KindList, parts: &p.parts}
	}
	list := make([]Value, len(ms))
	for i := range ms {
		list[i] = ms[i].Value
	}
	return listOf(list)
}

// copyObject returns an object of the members ms, which are in order.
func copyObject(ms []Member) Value {
	switch len(ms) {
	case 1:
		p := &oneMember{room: [1]Member(ms)}
		p.members = p.room[:]
		return Value{kind: KindObject, parts: &p.parts}
	case 2:
		p := &twoMembers{room: [2]Member(ms)}
		p.members = p.room[:]
		return Value{kind: KindObject, parts: &p.parts}
	case 3:
		p := &threeMembers{room: [3]Member(ms)}
		p.members = p.room[:]
		return Value{kind: KindObject, parts: &p.parts}
	default:
		return objectOf(slices.Clone(ms))
	}
}

func compareMembers(a, b Member) int { return strings.Compare(a.Name, b.Name) }

// ascending reports whether ms are in order of their names, none of which
// occurs twice.
func ascending(ms []Member) bool {
	for i := 1; i < len(ms); i++ {
		if ms[i-1].Name >= ms[i].Name {
			return false
		}
	}
	return true
}

// Kind returns what v is.
func (v Value) Kind() Kind { return v.kind }

// Text returns the string that v is, and false where it is none.
func (v Value) Text() (string, bool) {
	if v.kind != KindString {
		return "", false
	}
	return v.text, true
}

// Decimal returns the number that v is, and false where it is none.
func (v Value) Decimal() (Decimal, bool) {
	if v.kind != KindNumber {
		return Decimal{}, false
	}
	return v.decimal(), true
}

// decimal returns the number that v is known to be.
func (v *Value) decimal() Decimal { return Decimal{v.truth, v.text, v.exponent} }

// IsPlainInteger reports whether v is a number that is written without fraction and
// exponent: 1, not 1.0 or 1e0.
func (v Value) IsPlainInteger() bool {
	if v.kind != KindNumber {
		return false
	}
	if v.parts != nil {
		return isPlainInteger(v.parts.source)
	}
	return len(v.text) <= int(v.exponent) && v.exponent <= 21 || v.text == ""
}

// Truth returns the boolean that v is, and false as its second result where
// it is none.
func (v Value) Truth() (value, ok bool) {
	isBool := v.kind == KindBool
	return isBool && v.truth, isBool
}

// Elements returns the elements of an array, which the caller must not change,
// and false where v is none.
func (v Value) Elements() ([]Value, bool) { return v.elements(), v.kind == KindList }

// Members returns the members of an object in order of their names, which the
// caller must not change, and false where v is none.
func (v Value) Members() ([]Member, bool) { return v.fields(), v.kind == KindObject }

func (v *Value) elements() []Value {
	if v.parts == nil {
		return nil
	}
	return v.parts.list
}

func (v *Value) fields() []Member {
	if v.parts == nil {
		return nil
	}
	return v.parts.members
}

// Get returns the member of an object by its exact name.
func (v Value) Get(name string) (Value, bool) {
	members := v.fields()
	from, to := 0, len(members)
	for from < to {
		i := (from + to) / 2
		switch c := strings.Compare(members[i].Name, name); {
		case c == 0:
			return members[i].Value, true
		case c < 0:
			from = i + 1
		default:
			to = i
		}
	}
	return Value{}, false
}

// Equal reports whether v and w are the same JSON value: numbers by value,
// objects without regard to order, arrays with it.
func (v Value) Equal(w Value) bool { return v.Compare(w) == 0 }

// Compare orders values: by kind, then by content. The order has no meaning
// but to be the same everywhere.
func (v Value) Compare(w Value) int {
	if c := cmp.Compare(v.kind, w.kind); c != 0 {
		return c
	}
	switch v.kind {
	case KindBool:
		return cmp.Compare(truthRank(v.truth), truthRank(w.truth))
	case KindNumber:
		return v.decimal().Compare(w.decimal())
	case KindString:
		return strings.Compare(v.text, w.text)
	case KindList:
		return slices.CompareFunc(v.elements(), w.elements(), Value.Compare)
	case KindObject:
		return slices.CompareFunc(v.fields(), w.fields(), func(a, b Member) int {
			if c := strings.Compare(a.Name, b.Name); c != 0 {
				return c
			}
			return a.Value.Compare(b.Value)
		})
	default: // there is one null
		return 0
	}
}

func truthRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String returns v as JSON: compact, members in order of their names. It is
// one form for one value, though not that of RFC 8785, which rounds numbers.
func (v Value) String() string { return string(v.AppendJSON(nil)) }

// MarshalJSON returns the same form as [Value.String].
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// AppendJSON appends the form of [Value.String] to b.
func (v Value) AppendJSON(b []byte) []byte { return v.append(b, false) }

// AppendSource appends v as JSON like [Value.AppendJSON], with each number as it was
// written in what v was decoded from: 1.0 stays 1.0. It is for handing a value on to
// readers who tell the two apart.
func (v Value) AppendSource(b []byte) []byte { return v.append(b, true) }

func (v *Value) append(b []byte, asWritten bool) []byte {
	switch v.kind {
	case KindBool:
		if v.truth {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case KindNumber:
		if asWritten && v.parts != nil {
			return append(b, v.parts.source...)
		}
		return append(b, v.decimal().String()...)
	case KindString:
		return appendQuoted(b, v.text)
	case KindList:
		b = append(b, '[')
		list := v.elements()
		for i := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = list[i].append(b, asWritten)
		}
		return append(b, ']')
	case KindObject:
		b = append(b, '{')
		members := v.fields()
		for i := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendQuoted(b, members[i].Name), ':')
			b = members[i].Value.append(b, asWritten)
		}
		return append(b, '}')
	default:
		return append(b, "null"...)
	}
}

// plain reports whether eight bytes go into a JSON text as they are: none of them is a
// control character, a quotation mark or a backslash. It may say no of eight that do.
func plain(s string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*' ')&^w|(quote-ones)&^quote|(backslash-ones)&^backslash)&highs == 0
}

// appendQuoted writes a JSON string with the escapes of RFC 8785 and no
// others.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	written := 0
	for i := 0; i < len(s); i++ {
		if i+8 <= len(s) && plain(s[i:i+8]) {
			i += 7
			continue
		}
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[written:i]...)
		written = i + 1
		switch {
		case c >= 0x20:
			b = append(b, '\\', c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[written:]...), '"')
}
