package powerbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bound what [DecodeValue] reads.
type Limits struct {
	Bytes int // longest input, in bytes
	Depth int // deepest nesting of arrays and objects
}

// defaultLimits are those of [ParseValue]: 1 MiB and 64 levels.
var defaultLimits = Limits{Bytes: 1 << 20, Depth: 64}

// SyntaxError says where JSON was refused and what would have been right.
type SyntaxError struct {
	Offset  int // in bytes, from 0
	Message string
}

func (e *SyntaxError) Error() string {
	return "JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Message
}

// ParseValue decodes one JSON value of at most 1 MiB and 64 levels. See
// [DecodeValue].
func ParseValue(data []byte) (Value, error) { return DecodeValue(data, defaultLimits) }

// DecodeValue decodes one JSON value. It is the strict decoder for everything
// that is decided on or signed (ATK-27): duplicate member names, invalid
// UTF-8, lone surrogates, negative zero, numbers that a double cannot hold,
// trailing data, and inputs beyond the limits are errors of type
// [*SyntaxError]. Names are kept exactly; readers compare them bytewise.
func DecodeValue(data []byte, limits Limits) (Value, error) {
	if len(data) > limits.Bytes {
		return Value{}, &SyntaxError{limits.Bytes, fmt.Sprintf("input has %d bytes; want at most %d", len(data), limits.Bytes)}
	}
	d := decoder{src: string(data), depth: limits.Depth}
	v, err := d.value()
	if err != nil {
		return Value{}, err
	}
	if d.space(); d.pos != len(d.src) {
		return Value{}, d.fail("data after the value; want exactly one value")
	}
	return v, nil
}

// decoder collects the parts of whatever is being read on one stack, from which
// each array and each object takes its own, in one piece of the right size.
type decoder struct {
	src   string
	pos   int
	depth int      // levels left
	stack []Member // without names where they are elements
}

// firstRoom is how many parts the stack has room for at first.
const firstRoom = 16

func (d *decoder) push(m Member) {
	if d.stack == nil {
		d.stack = make([]Member, 0, min(firstRoom, 1+strings.Count(d.src, ",")))
	}
	d.stack = append(d.stack, m)
}

// pop takes what was pushed from start on. It is to be copied before the next
// push.
func (d *decoder) pop(start int) []Member {
	top := d.stack[start:]
	d.stack = d.stack[:start]
	return top
}

func (d *decoder) fail(message string) error { return &SyntaxError{d.pos, message} }

func (d *decoder) failf(format string, args ...any) error {
	return d.fail(fmt.Sprintf(format, args...))
}

func (d *decoder) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) peek() byte {
	if d.pos < len(d.src) {
		return d.src[d.pos]
	}
	return 0
}

func (d *decoder) value() (Value, error) {
	d.space()
	switch c := d.peek(); {
	case c == '{':
		return d.object()
	case c == '[':
		return d.array()
	case c == '"':
		s, err := d.string()
		return Value{kind: KindString, text: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	return d.word()
}

func (d *decoder) word() (Value, error) {
	rest := d.src[d.pos:]
	switch {
	case strings.HasPrefix(rest, "null"):
		d.pos += 4
		return Value{}, nil
	case strings.HasPrefix(rest, "true"):
		d.pos += 4
		return Bool(true), nil
	case strings.HasPrefix(rest, "false"):
		d.pos += 5
		return Bool(false), nil
	}
	return Value{}, d.fail("want a value")
}

// open consumes an opening bracket and reports whether anything follows before
// the closing one, which it consumes too where nothing does.
func (d *decoder) open(closing byte) (bool, error) {
	if d.depth == 0 {
		return false, d.fail("nested too deep")
	}
	d.pos++
	if d.space(); d.peek() == closing {
		d.pos++
		return false, nil
	}
	d.depth--
	return true, nil
}

func (d *decoder) array() (Value, error) {
	more, err := d.open(']')
	if err != nil || !more {
		return Value{kind: KindList}, err
	}
	start := len(d.stack)
	for more {
		e, err := d.value()
		if err != nil {
			return Value{}, err
		}
		d.push(Member{Value: e})
		if more, err = d.separator(']'); err != nil {
			return Value{}, err
		}
	}
	d.depth++
	top := d.pop(start)
	list := make([]Value, len(top))
	for i := range top {
		list[i] = top[i].Value
	}
	return listOf(list), nil
}

func (d *decoder) object() (Value, error) {
	more, err := d.open('}')
	if err != nil || !more {
		return Value{kind: KindObject}, err
	}
	start := len(d.stack)
	for more {
		m, err := d.member()
		if err != nil {
			return Value{}, err
		}
		d.push(m)
		if more, err = d.separator('}'); err != nil {
			return Value{}, err
		}
	}
	d.depth++
	members := slices.Clone(d.pop(start))
	return objectOf(members), d.sortMembers(members)
}

func (d *decoder) member() (Member, error) {
	if d.space(); d.peek() != '"' {
		return Member{}, d.fail("want a member name in double quotes")
	}
	name, err := d.string()
	if err != nil {
		return Member{}, err
	}
	if d.space(); d.peek() != ':' {
		return Member{}, d.failf("want ':' after member name %.64q", name)
	}
	d.pos++
	v, err := d.value()
	return Member{name, v}, err
}

// separator consumes a comma or the closing bracket and reports whether an
// element follows.
func (d *decoder) separator(closing byte) (bool, error) {
	d.space()
	switch d.peek() {
	case ',':
		d.pos++
		return true, nil
	case closing:
		d.pos++
		return false, nil
	}
	return false, d.failf("want ',' or '%c'", closing)
}

func (d *decoder) sortMembers(ms []Member) error {
	if ascending(ms) {
		return nil
	}
	slices.SortFunc(ms, compareMembers)
	for i := 1; i < len(ms); i++ {
		if ms[i].Name == ms[i-1].Name {
			return d.failf("member %q occurs twice in one object", ms[i].Name)
		}
	}
	return nil
}

func (d *decoder) number() (Value, error) {
	end := d.pos
	for end < len(d.src) && inNumber(d.src[end]) {
		end++
	}
	n, err := ParseDecimal(d.src[d.pos:end])
	if err != nil {
		return Value{}, d.failf("%v", err)
	}
	d.pos = end
	return Number(n), nil
}

func inNumber(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// string reads a string literal. Without escapes, which is the common case,
// the result shares the input's memory.
func (d *decoder) string() (string, error) {
	start := d.pos + 1
	bits := byte(0) // of all bytes; the highest tells whether it is all ASCII
	for i := start; i < len(d.src); i++ {
		c := d.src[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			bits |= c
			continue
		}
		switch c {
		case '"':
			s := d.src[start:i]
			if bits >= utf8.RuneSelf && !utf8.ValidString(s) {
				return "", d.fail("string is not UTF-8")
			}
			d.pos = i + 1
			return s, nil
		case '\\':
			return d.escaped(start, i)
		default:
			d.pos = i
			return "", d.failf("control character 0x%02x in a string; escape it", c)
		}
	}
	return "", d.fail("string has no end")
}

func (d *decoder) escaped(start, at int) (string, error) {
	b := []byte(d.src[start:at])
	d.pos = at
	for d.pos < len(d.src) {
		switch c := d.src[d.pos]; {
		case c == '"':
			d.pos++
			if !utf8.Valid(b) {
				return "", d.fail("string is not UTF-8")
			}
			return string(b), nil
		case c < 0x20:
			return "", d.failf("control character 0x%02x in a string; escape it", c)
		case c != '\\':
			b = append(b, c)
			d.pos++
		default:
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		}
	}
	return "", d.fail("string has no end")
}

func (d *decoder) escape() (rune, error) {
	if d.pos+1 >= len(d.src) {
		return 0, d.fail("string has no end")
	}
	c := d.src[d.pos+1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		d.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, d.failf("unknown escape \\%c", c)
	}
	r, ok := d.hex4(d.pos + 2)
	if !ok {
		return 0, d.fail("want four hexadecimal digits after \\u")
	}
	if !utf16.IsSurrogate(r) {
		d.pos += 6
		return r, nil
	}
	if strings.HasPrefix(d.src[min(d.pos+6, len(d.src)):], `\u`) {
		if low, ok := d.hex4(d.pos + 8); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				d.pos += 12
				return pair, nil
			}
		}
	}
	return 0, d.fail("lone surrogate in a string")
}

func (d *decoder) hex4(at int) (rune, bool) {
	if at+4 > len(d.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(d.src[at:at+4], 16, 16)
	return rune(n), err == nil
}
