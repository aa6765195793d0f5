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
	Nodes int // most values, at all levels together; 0 means 65,536
}

// defaultNodes is how many values one input may hold where [Limits] says nothing
// else. Two bytes of JSON become a value of 32 bytes, and readers go over all
// values several times, so that a bound on bytes alone does not bound the work.
const defaultNodes = 1 << 16

// defaultLimits are those of [ParseValue]: 1 MiB, 64 levels and 65,536 values.
var defaultLimits = Limits{Bytes: 1 << 20, Depth: 64}

// nodes is the bound on values with the default in place of 0.
func (l Limits) nodes() int {
	if l.Nodes == 0 {
		return defaultNodes
	}
	return l.Nodes
}

// SyntaxError says where JSON was refused and what would have been right.
type SyntaxError struct {
	Offset  int // in bytes, from 0
	Message string
}

func (e *SyntaxError) Error() string {
	return "JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Message
}

// ParseValue decodes one JSON value of at most 1 MiB, 64 levels and 65,536
// values. See [DecodeValue].
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
	if at, ok := beginsValue(data); !ok {
		return Value{}, &SyntaxError{at, wantValue}
	}
	d := decoder{src: string(data), depth: limits.Depth, most: limits.nodes()}
	d.nodes = d.most
	var v Value
	var room [firstRoom]Member
	if err := d.value(&v, room[:0]); err != nil {
		return Value{}, err
	}
	if d.space(); d.pos != len(d.src) {
		return Value{}, d.fail("data after the value; want exactly one value")
	}
	return v, nil
}

const wantValue = "want a value"

// beginsValue reports whether data begins like a value, and where: what does not
// is refused before any of it is copied.
func beginsValue(data []byte) (at int, ok bool) {
	for at < len(data) && isSpace(data[at]) {
		at++
	}
	return at, at < len(data) && (data[at] == '-' || data[at] >= '0' && data[at] <= '9' || strings.IndexByte(`{["tfn`, data[at]) >= 0)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// decoder collects the parts of arrays and objects on one stack, from which each
// copies its own, in one piece of the right size. The stack is handed down with
// what the callers have on it and is theirs again when the call returns: what
// was put on top of it may be overwritten. It is no part of the decoder because
// then Go would have to allocate it. Parts for which it has no room continue a second
// stack, which grows and which all levels share.
type decoder struct {
	src   string
	pos   int
	depth int // levels left
	nodes int // values left
	most  int // values at most
	more  []Member
	// room is for the members of objects, and shells for what holds them: small objects
	// share a piece of memory.
	room   []Member
	shells []parts
}

// sharedRoom is how many members a piece of memory that objects share has room for at
// most, and sharedShells for how many objects. A value that outlives the others keeps
// one such piece alive.
const (
	sharedRoom   = 16
	sharedShells = 8
)

// kept returns an object of a copy of the members ms, which are in order.
func (d *decoder) kept(ms []Member) Value {
	if len(ms) == 0 {
		return Value{kind: KindObject}
	}
	// A member takes six bytes of the input at least, and usually sixteen.
	left := (len(d.src)-d.pos)/16 + len(ms)
	if cap(d.room)-len(d.room) < len(ms) {
		d.room = make([]Member, 0, max(len(ms), min(sharedRoom, left)))
	}
	if len(d.shells) == cap(d.shells) {
		d.shells = make([]parts, 0, min(sharedShells, left/2+1))
	}
	from := len(d.room)
	d.room = append(d.room, ms...)
	d.shells = append(d.shells, parts{members: d.room[from:len(d.room):len(d.room)]})
	return Value{kind: KindObject, parts: &d.shells[len(d.shells)-1]}
}

// firstRoom is how many parts the stack has room for at first, which is enough
// for most inputs.
const firstRoom = 16

func (d *decoder) fail(message string) error { return &SyntaxError{d.pos, message} }

func (d *decoder) failf(format string, args ...any) error {
	return d.fail(fmt.Sprintf(format, args...))
}

func (d *decoder) space() {
	for d.pos < len(d.src) && isSpace(d.src[d.pos]) {
		d.pos++
	}
}

func (d *decoder) peek() byte {
	if d.pos < len(d.src) {
		return d.src[d.pos]
	}
	return 0
}

// value reads one value. It writes into what the caller has, like all that
// follow, since values are big enough for copying them to cost.
func (d *decoder) value(into *Value, stack []Member) error {
	d.space()
	if d.nodes == 0 {
		return d.failf("more than %d values; want at most as many", d.most)
	}
	d.nodes--
	switch c := d.peek(); {
	case c == '{':
		return d.object(into, stack)
	case c == '[':
		return d.array(into, stack)
	case c == '"':
		s, err := d.string()
		*into = Value{kind: KindString, text: s}
		return err
	case c == '-' || c >= '0' && c <= '9':
		return d.number(into)
	}
	return d.word(into)
}

func (d *decoder) word(into *Value) error {
	rest := d.src[d.pos:]
	switch {
	case strings.HasPrefix(rest, "null"):
		d.pos += 4
		*into = Value{}
	case strings.HasPrefix(rest, "true"):
		d.pos += 4
		*into = Bool(true)
	case strings.HasPrefix(rest, "false"):
		d.pos += 5
		*into = Bool(false)
	default:
		return d.fail(wantValue)
	}
	return nil
}

// open consumes an opening bracket and reports whether anything follows before
// the closing one, which it consumes too where nothing does.
func (d *decoder) open(closing byte) (bool, error) {
	if d.depth == 0 {
		return false, d.fail("nested too deep")
	}
	d.depth--
	d.pos++
	if d.space(); d.peek() == closing {
		d.pos++
		return false, nil
	}
	return true, nil
}

// inRoom is the place on the second stack of an array or object whose parts are on
// the first one.
const inRoom = -1

// push puts a part on the stack. Where that has no room, all parts from start on
// move to the second one, and at is their place there from then on.
func (d *decoder) push(stack []Member, start int, at *int, part *Member) []Member {
	if *at == inRoom {
		if len(stack) < cap(stack) {
			return append(stack, *part)
		}
		*at = len(d.more)
		for i := start; i < len(stack); i++ {
			d.keep(&stack[i])
		}
	}
	d.keep(part)
	return stack[:start]
}

// keep puts a part on the second stack. When that is full it grows eightfold, but
// never beyond what the rest of the input can fill, since a value and its comma
// take two bytes: memory stays in proportion to the input.
func (d *decoder) keep(part *Member) {
	if n := len(d.more); n == cap(d.more) {
		grown := make([]Member, n, n+firstRoom+1+min(7*n, (len(d.src)-d.pos)/2, d.nodes))
		copy(grown, d.more)
		d.more = grown
	}
	d.more = append(d.more, *part)
}

// collected are the parts that push has kept.
func (d *decoder) collected(stack []Member, start, at int) []Member {
	if at == inRoom {
		return stack[start:]
	}
	parts := d.more[at:]
	d.more = d.more[:at]
	return parts
}

func (d *decoder) array(into *Value, stack []Member) error {
	more, err := d.open(']')
	start, at := len(stack), inRoom
	var e Member
	for more && err == nil {
		if err = d.value(&e.Value, stack); err != nil {
			return err
		}
		stack = d.push(stack, start, &at, &e)
		more, err = d.separator(']')
	}
	if err != nil {
		return err
	}
	*into = copyList(d.collected(stack, start, at))
	d.depth++
	return nil
}

func (d *decoder) object(into *Value, stack []Member) error {
	more, err := d.open('}')
	start, at := len(stack), inRoom
	var m Member
	for more && err == nil {
		if err = d.member(&m, stack); err != nil {
			return err
		}
		stack = d.push(stack, start, &at, &m)
		more, err = d.separator('}')
	}
	if err != nil {
		return err
	}
	parts := d.collected(stack, start, at)
	if err := d.sortMembers(parts); err != nil {
		return err
	}
	*into = d.kept(parts)
	d.depth++
	return nil
}

func (d *decoder) member(into *Member, stack []Member) (err error) {
	if d.space(); d.peek() != '"' {
		return d.fail("want a member name in double quotes")
	}
	if into.Name, err = d.string(); err != nil {
		return err
	}
	if d.space(); d.peek() != ':' {
		return d.failf("want ':' after member name %.64q", into.Name)
	}
	d.pos++
	return d.value(&into.Value, stack)
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

func (d *decoder) number(into *Value) error {
	end := d.pos
	for end < len(d.src) && inNumber(d.src[end]) {
		end++
	}
	source := d.src[d.pos:end]
	n, err := ParseDecimal(source)
	if err != nil {
		return d.failf("%v", err)
	}
	d.pos = end
	*into = Number(n)
	if !isPlainInteger(source) && n.String() != source {
		into.parts = &parts{source: source}
	}
	return nil
}

// isPlainInteger reports whether a number is one that [Decimal.String] writes as it is,
// without writing it.
func isPlainInteger(number string) bool {
	return len(number) <= 21 && !strings.ContainsAny(number, ".eE")
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
