package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// node is a JSON value as it is written: members in their order, names that occur
// twice twice, and scalars as their text.
type node struct {
	kind    byte     // '{', '[' or 0
	raw     string   // the text of a scalar
	members []member // of an object
	items   []*node  // of an array
}

type member struct {
	name  string // raw, with its quotation marks
	value *node
}

// parseNode reads a JSON text into a tree.
func parseNode(text []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := readNode(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return n, nil
}

func readNode(d *json.Decoder) (*node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		n := &node{kind: byte(t)}
		for d.More() {
			name := ""
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				text, _ := key.(string)
				name = quote(text)
			}
			value, err := readNode(d)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				n.members = append(n.members, member{name, value})
			} else {
				n.items = append(n.items, value)
			}
		}
		_, err = d.Token()
		return n, err
	case string:
		return &node{raw: quote(t)}, nil
	case nil:
		return &node{raw: "null"}, nil
	default:
		return &node{raw: fmt.Sprint(t)}, nil
	}
}

// mustNode is the tree of a text of the harness's own.
func mustNode(text string) *node {
	n, err := parseNode([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return n
}

// quote is a JSON string without the escapes that encoding/json adds for HTML.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSuffix(b.String(), "\n")
}

// unquoted is the name of a member, as far as it can be read.
func unquoted(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return strings.Trim(raw, `"`)
	}
	return text
}

func (n *node) clone() *node {
	c := &node{kind: n.kind, raw: n.raw}
	for _, m := range n.members {
		c.members = append(c.members, member{m.name, m.value.clone()})
	}
	for _, i := range n.items {
		c.items = append(c.items, i.clone())
	}
	return c
}

// get returns the first member of that name.
func (n *node) get(name string) *node {
	for _, m := range n.members {
		if unquoted(m.name) == name {
			return m.value
		}
	}
	return nil
}

func (n *node) set(name string, value *node) {
	for i := range n.members {
		if unquoted(n.members[i].name) == name {
			n.members[i].value = value
			return
		}
	}
	n.members = append(n.members, member{quote(name), value})
}

// objects are the objects of a tree, from the outside in.
func (n *node) objects() []*node {
	var out []*node
	if n.kind == '{' {
		out = append(out, n)
	}
	for _, m := range n.members {
		out = append(out, m.value.objects()...)
	}
	for _, i := range n.items {
		out = append(out, i.objects()...)
	}
	return out
}

// places are pointers to every value of a tree but the outermost.
func (n *node) places() []**node {
	var out []**node
	for i := range n.members {
		out = append(out, &n.members[i].value)
		out = append(out, n.members[i].value.places()...)
	}
	for i := range n.items {
		out = append(out, &n.items[i])
		out = append(out, n.items[i].places()...)
	}
	return out
}

// spelling is how a tree is written.
type spelling struct {
	rng    *rand.Rand
	spaces bool // white space wherever JSON has it
	escape int  // share of characters that are escaped, in percent
}

func (n *node) text(s spelling) []byte { return n.append(nil, s) }

func (n *node) append(b []byte, s spelling) []byte {
	gap := func() {
		if s.spaces {
			b = append(b, strings.Repeat([]string{" ", "\t", "\n", "\r"}[s.rng.IntN(4)], s.rng.IntN(3))...)
		}
	}
	switch n.kind {
	case '{':
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			gap()
			b = append(b, s.escaped(m.name)...)
			gap()
			b = append(b, ':')
			gap()
			b = m.value.append(b, s)
			gap()
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, v := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			gap()
			b = v.append(b, s)
			gap()
		}
		return append(b, ']')
	default:
		return append(b, s.escaped(n.raw)...)
	}
}

// escaped writes a string with some of its characters as \u escapes.
func (s spelling) escaped(raw string) string {
	if s.escape == 0 || !strings.HasPrefix(raw, `"`) || strings.Contains(raw, `\`) || !utf8.ValidString(raw) || len(raw) < 2 || keeps(raw) {
		return raw
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range raw[1 : len(raw)-1] {
		if c < 0x10000 && s.rng.IntN(100) < s.escape {
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[s.rng.IntN(2)], c)
		} else {
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// keeps reports whether a string holds a placeholder, which must stay as it is.
func keeps(raw string) bool {
	for _, p := range []string{narrowCapability, wideCapability, ownTask, ownContext, foreignTask, foreignContext, caseNumber} {
		if strings.Contains(raw, p) {
			return true
		}
	}
	return false
}
