package catalogue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// MaxFileBytes is the size of the largest catalogue file.
const MaxFileBytes = 16 << 20

// Parse reads the catalogue of one agent from a YAML or JSON file:
//
//	items:
//	  - collection: reports
//	    id: q1-sales
//	    name: Q1 Sales Report
//	    attributes: {quarter: 2025-Q1, year: 2025, tags: [sales, final]}
//
// attributes is optional, the rest is required. Unknown and repeated keys,
// repeated ids, values of other types, an attribute with two types in one
// collection, YAML anchors, dates and numbers that JSON does not have are
// errors. Every error begins with "name:line:", name being what the caller
// calls the file. Errors name ids: they are for the operator.
func Parse(name string, data []byte, agent string) ([]Item, error) {
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes; want at most %d", name, len(data), MaxFileBytes)
	}
	items, err := parse(data, agent)
	if err == nil {
		return items, nil
	}
	var place *lineError
	if errors.As(err, &place) {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

func parse(data []byte, agent string) ([]Item, error) {
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	m, err := root.members("the catalogue", "items")
	if err != nil {
		return nil, err
	}
	list, ok := m["items"]
	if !ok {
		return nil, at(root.line, "the catalogue has no items")
	}
	if list.kind != powerbox.KindList {
		return nil, at(list.line, "items is %s; want an array", list.kind)
	}
	c := newCollector()
	items := make([]Item, 0, len(list.elements))
	for _, e := range list.elements {
		item, err := e.item(agent)
		if err != nil {
			return nil, err
		}
		if err := c.add(item); err != nil {
			return nil, at(e.line, "%w", err)
		}
		items = append(items, item)
	}
	return items, nil
}

func (n node) item(agent string) (Item, error) {
	m, err := n.members("an item", "collection", "id", "name", "attributes")
	if err != nil {
		return Item{}, err
	}
	item := Item{Agent: agent}
	for _, f := range []struct {
		name string
		into *string
	}{{"collection", &item.Collection}, {"id", &item.ID}, {"name", &item.Name}} {
		v, ok := m[f.name]
		if !ok {
			return item, at(n.line, "an item has no %s", f.name)
		}
		if *f.into, ok = v.scalar.Text(); !ok {
			return item, at(v.line, "%s is %s; want a string (quote it)", f.name, v.kind)
		}
	}
	attributes, ok := m["attributes"]
	if !ok {
		return item, nil
	}
	if attributes.kind != powerbox.KindObject {
		return item, at(attributes.line, "attributes is %s; want a mapping of names to values", attributes.kind)
	}
	item.Attributes = make(map[string]powerbox.Value, len(attributes.fields))
	for _, f := range attributes.fields {
		if item.Attributes[f.name], err = f.value.attribute(f.name); err != nil {
			return item, err
		}
	}
	return item, nil
}

func (n node) attribute(name string) (powerbox.Value, error) {
	v := n.scalar
	if n.kind == powerbox.KindList {
		vs := make([]powerbox.Value, len(n.elements))
		for i, e := range n.elements {
			if e.kind != powerbox.KindString {
				return v, at(e.line, "attribute %q, element %d is %s; want a string", name, i+1, e.kind)
			}
			vs[i] = e.scalar
		}
		v = powerbox.List(vs...)
	}
	if n.kind == powerbox.KindObject {
		v = powerbox.Object()
	}
	if err := checkValue(v); err != nil {
		return v, at(n.line, "attribute %q %w", name, err)
	}
	return v, nil
}

// members returns the members of a mapping by name and refuses every name that
// is not among the known ones.
func (n node) members(what string, known ...string) (map[string]node, error) {
	if n.kind != powerbox.KindObject {
		return nil, at(n.line, "%s is %s; want a mapping with %s", what, n.kind, strings.Join(known, ", "))
	}
	m := make(map[string]node, len(n.fields))
fields:
	for _, f := range n.fields {
		for _, k := range known {
			if f.name == k {
				m[k] = f.value
				continue fields
			}
		}
		return nil, at(f.line, "%s has the unknown key %q; known are %s", what, f.name, strings.Join(known, ", "))
	}
	return m, nil
}
