package a2a

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// rawMember is one member of an object as it was written.
type rawMember struct {
	name       string
	key        []byte // the name with its quotes
	value      []byte
	start, end int // of the value, in the bytes that were read
}

// rawObject is an object whose members keep their bytes. Changing it and
// writing it again leaves every member that was not touched as it was, numbers
// beyond 2^53 and explicit defaults among them.
type rawObject []rawMember

var errWantObject = errors.New("want an object")

// readObject splits an object into its members. Duplicate names and texts outside I-JSON
// are refused at every level.
func readObject(raw []byte) (rawObject, error) {
	d := decoderOf(raw)
	defer done(d)
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err != nil {
			return nil, fmt.Errorf("JSON: %w", err)
		}
		return nil, errWantObject
	}
	var o rawObject
	err := readNested(d, func() error {
		key, err := d.ReadValue()
		if err != nil {
			return err
		}
		name, isPlain := plainText(key)
		if !isPlain {
			unquoted, err := jsontext.AppendUnquote(nil, key)
			if err != nil {
				return err
			}
			name = string(unquoted)
		}
		m := rawMember{name: name, key: slices.Clone(key)}
		value, err := d.ReadValue()
		m.end = int(d.InputOffset())
		m.start = m.end - len(value)
		m.value = raw[m.start:m.end:m.end]
		o = append(o, m)
		return err
	})
	return o, err
}

// decoders are kept for their allocated buffers.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// decoderOf returns a decoder of bytes, for [done].
func decoderOf(raw []byte) *jsontext.Decoder {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(raw))
	return d
}

// done gives a decoder back, which keeps no bytes that it has read.
func done(d *jsontext.Decoder) {
	d.Reset(new(bytes.Buffer))
	decoders.Put(d)
}

// apart is readObject for bytes that are known to be JSON without duplicate names, since
// a strict decoder has read them. It looks for the ends of members and checks nothing.
// Its result for any other bytes means nothing.
func apart(raw []byte) (rawObject, error) {
	at := skipSpace(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return nil, errWantObject
	}
	o := make(rawObject, 0, 8)
	for at = skipSpace(raw, at+1); at < len(raw) && raw[at] == '"'; at = skipSpace(raw, at+1) {
		key := raw[at:endOfValue(raw, at)]
		m := rawMember{name: rawText(key), key: key}
		m.start = skipSpace(raw, skipSpace(raw, at+len(key))+1) // behind the colon
		m.end = endOfValue(raw, m.start)
		m.value = raw[m.start:m.end:m.end]
		o = append(o, m)
		at = skipSpace(raw, m.end) // a comma or the end
	}
	return o, nil
}

// Member returns the value of a member of an object as it was written, for bytes that
// a strict decoder has read; nil where there is none.
func Member(raw []byte, name string) []byte {
	o, err := apart(raw)
	if err != nil {
		return nil
	}
	return o.get(name)
}

// Elements returns the elements of an array as they were written, for bytes that a
// strict decoder has read; nil where it is none.
func Elements(raw []byte) [][]byte {
	elements, err := readArray(raw)
	if err != nil {
		return nil
	}
	return elements
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return min(at, len(raw))
}

// endOfValue returns the place behind the value that begins at a place.
func endOfValue(raw []byte, at int) int {
	for depth := 0; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			at = endOfText(raw, at+1)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 || at+1 < len(raw) && !endsScalar(raw[at+1]) {
				continue
			}
		}
		if depth <= 0 {
			return min(at+1, len(raw))
		}
	}
	return len(raw)
}

// endOfText returns the place of the quotation mark that ends the text whose first
// byte is at a place, and a place behind raw where there is none.
func endOfText(raw []byte, at int) int {
	end := indexFrom(raw, at, '"')
	for at < end {
		escape := bytes.IndexByte(raw[at:end], '\\')
		if escape < 0 {
			return end
		}
		if at += escape + 2; at > end { // an escaped character ends nothing
			end = indexFrom(raw, at, '"')
		}
	}
	return end
}

// indexFrom returns the first place of c from a place on, and that behind raw where
// there is none.
func indexFrom(raw []byte, at int, c byte) int {
	if at < len(raw) {
		if i := bytes.IndexByte(raw[at:], c); i >= 0 {
			return at + i
		}
	}
	return len(raw)
}

// endsScalar reports whether a number or a word ends before c.
func endsScalar(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ':', '}', ']':
		return true
	}
	return false
}

// readArray splits an array into its elements.
func readArray(raw []byte) ([][]byte, error) {
	d := decoderOf(raw)
	defer done(d)
	if d.PeekKind() != '[' {
		return nil, errors.New("want an array")
	}
	var elements [][]byte
	err := readNested(d, func() error {
		value, err := d.ReadValue()
		end := int(d.InputOffset())
		elements = append(elements, raw[end-len(value):end:end])
		return err
	})
	return elements, err
}

// readNested reads one array or object and nothing after it.
func readNested(d *jsontext.Decoder, element func() error) error {
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	for kind := d.PeekKind(); kind != '}' && kind != ']'; kind = d.PeekKind() {
		if err := element(); err != nil {
			return fmt.Errorf("JSON: %w", err)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("JSON: data after the value")
	}
	return nil
}

// index returns the place of a member and -1 where there is none.
func (o rawObject) index(name string) int {
	return slices.IndexFunc(o, func(m rawMember) bool { return m.name == name })
}

// get returns the value of a member and nil where there is none.
func (o rawObject) get(name string) []byte {
	if i := o.index(name); i >= 0 {
		return o[i].value
	}
	return nil
}

// text returns the string that a member is, and "" where it is none.
func (o rawObject) text(name string) string { return rawText(o.get(name)) }

func rawText(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	if text, isPlain := plainText(value); isPlain {
		return text
	}
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(s)
}

// plainText returns the text of a JSON string in which nothing is escaped, of ASCII
// alone, and false for any other.
func plainText(value []byte) (string, bool) {
	last := len(value) - 1
	if last < 1 || value[0] != '"' || value[last] != '"' {
		return "", false
	}
	for _, c := range value[1:last] {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(value[1:last]), true
}

// set replaces the value of a member, or adds the member at the end.
func (o *rawObject) set(name string, value []byte) {
	if i := o.index(name); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, rawMember{name: name, key: quote(name), value: value})
}

// drop removes a member.
func (o *rawObject) drop(name string) {
	*o = slices.DeleteFunc(*o, func(m rawMember) bool { return m.name == name })
}

// bytes writes the object.
func (o rawObject) bytes() []byte {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, m.key...), ':'), m.value...)
	}
	return append(b, '}')
}

// writeArray writes an array of elements as they are.
func writeArray(elements [][]byte) []byte {
	b := append([]byte{'['}, bytes.Join(elements, []byte{','})...)
	return append(b, ']')
}

// quote writes a JSON string. Anything that is not UTF-8 is replaced.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s) // its only error is about UTF-8, which it has replaced
	return b
}

// quoteAll writes an array of strings, [] for none.
func quoteAll(texts []string) []byte {
	elements := make([][]byte, len(texts))
	for i, s := range texts {
		elements[i] = quote(s)
	}
	return writeArray(elements)
}
