package agentcard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxBytes is the length in bytes of the longest card, contract or other
// document that is read here.
const MaxBytes = 1 << 20

// maxDepth is how many arrays and objects may stand inside each other.
const maxDepth = 64

// node is one JSON value as it was written. Unlike a powerbox.Value it can have
// two members of one name, so that all of them can be reported.
type node struct {
	kind    jsontext.Kind // n, f, t, ", 0, { or [
	text    string        // a string's value, a number as it was written
	members []member      // of an object, in their order
	list    []*node       // of an array
}

type member struct {
	name  string
	value *node
}

// readTree reads one JSON value and nothing behind it.
func readTree(raw []byte) (*node, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("%d bytes; want at most %d", len(raw), MaxBytes)
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	root, err := readNode(d)
	if err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("data behind the value, at byte %d; want one JSON value", d.InputOffset())
	}
	return root, nil
}

func readNode(d *jsontext.Decoder) (*node, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &node{kind: t.Kind()}
	switch n.kind {
	case '"', '0':
		n.text = t.String()
		return n, nil
	case '{', '[':
	default:
		return n, nil
	}
	if d.StackDepth() > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels at byte %d", maxDepth, d.InputOffset())
	}
	for k := d.PeekKind(); k != '}' && k != ']'; k = d.PeekKind() {
		var m member
		if n.kind == '{' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			m.name = name.String()
		}
		if m.value, err = readNode(d); err != nil {
			return nil, err
		}
		if n.kind == '{' {
			n.members = append(n.members, m)
		} else {
			n.list = append(n.list, m.value)
		}
	}
	_, err = d.ReadToken()
	return n, err
}

// is reports whether n is there and of a kind.
func (n *node) is(kind jsontext.Kind) bool { return n != nil && n.kind == kind }

// absent reports whether n is not there, or null, which in the JSON form of
// protobuf is the same.
func (n *node) absent() bool { return n == nil || n.kind == 'n' }

// get returns the member of a name, nil where there is none. Of two of one name
// it is the first; that there are two is an error elsewhere.
func (n *node) get(names ...string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		for _, name := range names {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// str returns the string that n is, "" where it is none.
func (n *node) str() string {
	if n.is('"') {
		return n.text
	}
	return ""
}

// elements returns what an array holds.
func (n *node) elements() []*node {
	if n == nil {
		return nil
	}
	return n.list
}

// strings returns the strings of an array, and omits other values.
func (n *node) strings() []string {
	var out []string
	for _, e := range n.elements() {
		if e.is('"') {
			out = append(out, e.text)
		}
	}
	return out
}

// append writes n as JSON, numbers as they were written.
func (n *node) append(b []byte) []byte {
	switch n.kind {
	case '"':
		b, _ = jsontext.AppendQuote(b, n.text) // it was read from JSON and is UTF-8
		return b
	case '0':
		return append(b, n.text...)
	case '{':
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b, _ = jsontext.AppendQuote(b, m.name) // as above
			b = m.value.append(append(b, ':'))
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, e := range n.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.append(b)
		}
		return append(b, ']')
	case 't':
		return append(b, "true"...)
	case 'f':
		return append(b, "false"...)
	default:
		return append(b, "null"...)
	}
}

// canonicalJSON is a tree in the form of RFC 8785. It has no two members of one
// name.
func canonicalJSON(n *node) ([]byte, error) {
	v := jsontext.Value(n.append(nil))
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return v, nil
}

// kindName names a kind of JSON value in a message.
func kindName(n *node) string {
	switch {
	case n == nil:
		return "nothing"
	case n.kind == 't', n.kind == 'f':
		return "a boolean"
	case n.kind == 'n':
		return "null"
	}
	return map[jsontext.Kind]string{'"': "a string", '0': "a number", '{': "an object", '[': "an array"}[n.kind]
}

// at appends a name to a JSON pointer (RFC 6901).
func at(pointer, name string) string {
	return string(jsontext.Pointer(pointer).AppendToken(name))
}

func atIndex(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }
