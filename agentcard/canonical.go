package agentcard

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ErrOlder says that a card has the form of 0.3 alone, which has no canonical
// form to sign: leave it without a signature, or give it supportedInterfaces.
var ErrOlder = errors.New("the card has the form of A2A 0.3 alone, which has no canonical form; want a card with supportedInterfaces")

// Canonical returns what the signatures of a card of 1.0 are about (A2A 1.0,
// section 8.4.1): the card as the protocol defines it, without its signatures
// and without what has its default, in the form of RFC 8785. SDKs differ in
// whether empty objects, arrays and texts inside free-form members stay, so that
// there may be two forms; bare is that without.
//
// What the protocol does not define is in neither, the features that the contract
// adds to capabilities among it: signed declarations are in the
// extension's params.
func Canonical(raw []byte) (full, bare []byte, err error) {
	n, err := readCurrent(raw)
	if err != nil {
		return nil, nil, err
	}
	if n, err = normal("", n, cardForm, "signatures"); err != nil {
		return nil, nil, err
	}
	if full, err = canonicalJSON(n); err != nil {
		return nil, nil, fmt.Errorf("card: %w", err)
	}
	if n = n.withoutEmpty(); n == nil {
		n = &node{kind: '{'}
	}
	bare, err = canonicalJSON(n)
	return full, bare, err
}

func readCurrent(raw []byte) (*node, error) {
	n, err := readTree(raw)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	if !n.is('{') {
		return nil, fmt.Errorf("card: %s; want an object", kindName(n))
	}
	if n.get("supportedInterfaces", "supported_interfaces").absent() {
		return nil, ErrOlder
	}
	return n, nil
}

// normal is an object as the JSON form of protobuf has it: known members alone,
// in the names of JSON, without what has its default.
func normal(pointer string, n *node, f *form, but string) (*node, error) {
	if !n.is('{') {
		return nil, fmt.Errorf("card: %s is %s; want an object", pointer, kindName(n))
	}
	out := &node{kind: '{'}
	seen := map[string]bool{}
	for _, m := range n.members {
		c, ok := f.find(m.name)
		if !ok || c.known&in10 == 0 || c.name == but {
			continue
		}
		if seen[c.name] {
			return nil, fmt.Errorf("card: %s is there twice", at(pointer, c.name))
		}
		seen[c.name] = true
		if m.value.kind == 'n' {
			continue
		}
		v, err := normalValue(at(pointer, c.name), m.value, c)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out.members = append(out.members, member{c.name, v})
		}
	}
	if f.oneof && len(out.members) > 1 {
		return nil, fmt.Errorf("card: %s has %d kinds; want one", pointer, len(out.members))
	}
	return out, nil
}

// normalValue is nil for a default that the JSON form leaves out.
func normalValue(pointer string, v *node, c field) (*node, error) {
	wrong := fmt.Errorf("card: %s is %s, which it cannot be", pointer, kindName(v))
	switch c.shape {
	case text:
		if !v.is('"') {
			return nil, wrong
		}
		if v.text == "" && !c.presence {
			return nil, nil
		}
		return v, nil
	case flag:
		if !v.is('t') && !v.is('f') {
			return nil, wrong
		}
		if v.is('f') && !c.presence {
			return nil, nil
		}
		return v, nil
	case object:
		return normal(pointer, v, c.of, "")
	case free:
		if !v.is('{') {
			return nil, wrong
		}
		return v, doubles(pointer, v)
	case texts, objects:
		return normalList(pointer, v, c, wrong)
	case dictionary, textMap:
		return normalMap(pointer, v, c, wrong)
	case listMaps: // of 0.3
	}
	return nil, nil
}

func normalList(pointer string, v *node, c field, wrong error) (*node, error) {
	if !v.is('[') {
		return nil, wrong
	}
	out := &node{kind: '['}
	for i, e := range v.list {
		if c.shape == texts && !e.is('"') {
			return nil, wrong
		}
		if c.shape == objects {
			var err error
			if e, err = normal(atIndex(pointer, i), e, c.of, ""); err != nil {
				return nil, err
			}
		}
		out.list = append(out.list, e)
	}
	if len(out.list) == 0 {
		return nil, nil
	}
	return out, nil
}

func normalMap(pointer string, v *node, c field, wrong error) (*node, error) {
	if !v.is('{') {
		return nil, wrong
	}
	out := &node{kind: '{'}
	for _, m := range v.members {
		if c.shape == textMap && !m.value.is('"') {
			return nil, wrong
		}
		if c.shape == dictionary {
			var err error
			if m.value, err = normal(at(pointer, m.name), m.value, c.of, ""); err != nil {
				return nil, err
			}
		}
		out.members = append(out.members, m)
	}
	if len(out.members) == 0 {
		return nil, nil
	}
	return out, nil
}

// doubles refuses numbers that no 64-bit float is near, of which readers would
// make different things.
func doubles(pointer string, n *node) error {
	if n.kind == '0' {
		if f, err := strconv.ParseFloat(n.text, 64); err != nil || math.IsInf(f, 0) {
			return fmt.Errorf("card: %s is %s, more than a 64-bit float holds", pointer, n.text)
		}
	}
	for _, m := range n.members {
		if err := doubles(at(pointer, m.name), m.value); err != nil {
			return err
		}
	}
	for i, e := range n.list {
		if err := doubles(atIndex(pointer, i), e); err != nil {
			return err
		}
	}
	return nil
}

// withoutEmpty drops empty values, at every level; nil where nothing is left.
func (n *node) withoutEmpty() *node {
	switch n.kind {
	case 'n':
		return nil
	case '"':
		if n.text == "" {
			return nil
		}
	case '[':
		out := &node{kind: '['}
		for _, e := range n.list {
			if e = e.withoutEmpty(); e != nil {
				out.list = append(out.list, e)
			}
		}
		if len(out.list) == 0 {
			return nil
		}
		return out
	case '{':
		out := &node{kind: '{'}
		for _, m := range n.members {
			if m.value = m.value.withoutEmpty(); m.value != nil {
				out.members = append(out.members, m)
			}
		}
		if len(out.members) == 0 {
			return nil
		}
		return out
	default:
	}
	return n
}
