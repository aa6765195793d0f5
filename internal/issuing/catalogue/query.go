package catalogue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// queryVersion is the version of the grammar that [ParseQuery] reads. It is
// written down in docs/reference/tokens.md#resource-queries (SEP-21).
const queryVersion = 1

// The bounds of one query.
const (
	MaxQueryFilters = 16
	MaxQueryValues  = 64
)

// Query selects items of one collection: equality, membership and range on
// attributes, all of which have to hold. It is valid once parsed; the zero
// Query selects nothing.
type Query struct {
	collection string
	conditions []condition // in order of attribute
	limit      int         // resources at once; 0 for as many as the server gives
	after      string      // cursor of the page before, "" for the first page
}

// condition is what one attribute must be. Every part that is there must hold.
type condition struct {
	attribute string
	values    []powerbox.Value // equality is one value, membership several
	member    bool             // values are there
	min, max  *powerbox.Decimal
}

// operators are the members of a filter's object form.
const operators = "in, min, max"

// ParseQuery reads a resourceQuery, version 1:
//
//	{"collection": "reports",
//	 "filter": {"quarter": "2025-Q1", "year": {"min": 2024, "max": 2025}, "owner": {"in": ["a", "b"]}},
//	 "limit": 50, "after": "rc_..."}
//
// It looks at the grammar alone; whether collection and attributes exist is
// for [Query.Select] to say. Its errors tell the caller the error and the known
// names, and can be sent as they are.
func ParseQuery(v powerbox.Value) (Query, error) {
	m, err := queryMembers(v)
	if err != nil {
		return Query{}, err
	}
	if version, ok := m["version"]; ok && !version.Equal(powerbox.Number(powerbox.Int(queryVersion))) {
		return Query{}, fmt.Errorf("resourceQuery: version is %s; known is %d", clip(version.String()), queryVersion)
	}
	var q Query
	collection, ok := m["collection"].Text()
	if !ok || collection == "" || len(collection) > MaxNameBytes {
		return Query{}, fmt.Errorf("resourceQuery: collection is missing or no name; want a string of 1 to %d bytes", MaxNameBytes)
	}
	q.collection = collection
	if q.limit, q.after, err = parsePage(m); err != nil {
		return Query{}, err
	}
	filter, ok := m["filter"]
	if !ok {
		return q, nil
	}
	filters, ok := filter.Members()
	if !ok {
		return Query{}, fmt.Errorf("resourceQuery: filter is %s; want an object of attributes", filter.Kind())
	}
	if len(filters) > MaxQueryFilters {
		return Query{}, fmt.Errorf("resourceQuery: filter has %d attributes; want at most %d", len(filters), MaxQueryFilters)
	}
	for _, f := range filters {
		c, err := parseCondition(f.Name, f.Value)
		if err != nil {
			return Query{}, fmt.Errorf("resourceQuery: filter on %s: %w", quote(f.Name), err)
		}
		q.conditions = append(q.conditions, c)
	}
	return q, nil
}

// parsePage reads which page of the selected resources is wanted.
func parsePage(m map[string]powerbox.Value) (limit int, after string, err error) {
	if v, ok := m["limit"]; ok {
		d, _ := v.Decimal()
		n, whole := d.Int64()
		if v.Kind() != powerbox.KindNumber || !whole || n < 1 || n > MaxPage {
			return 0, "", fmt.Errorf("resourceQuery: limit is no whole number from 1 to %d", MaxPage)
		}
		limit = int(n)
	}
	if v, ok := m["after"]; ok {
		after, ok = v.Text()
		if !ok || after == "" || len(after) > maxCursorText {
			return 0, "", errors.New("resourceQuery: after is no cursor; want nextResources of the page before")
		}
	}
	return limit, after, nil
}

func queryMembers(v powerbox.Value) (map[string]powerbox.Value, error) {
	members, ok := v.Members()
	if !ok {
		return nil, fmt.Errorf("resourceQuery is %s; want an object with collection and filter", v.Kind())
	}
	m := make(map[string]powerbox.Value, len(members))
	for _, member := range members {
		switch member.Name {
		case "collection", "filter", "version", "limit", "after":
			m[member.Name] = member.Value
		default:
			return nil, fmt.Errorf("resourceQuery: member %s is unknown; known are collection, filter, limit, after, version", quote(member.Name))
		}
	}
	return m, nil
}

func parseCondition(attribute string, v powerbox.Value) (condition, error) {
	c := condition{attribute: attribute}
	if !attributeName(attribute) {
		return c, fmt.Errorf("no attribute is called that; want 1 to %d letters, digits and '_'", MaxNameBytes)
	}
	members, ok := v.Members()
	if !ok {
		if !scalar(v) {
			return c, fmt.Errorf("%s; want a string, a whole number, true or false, or an object with %s", v.Kind(), operators)
		}
		c.values, c.member = []powerbox.Value{v}, true
		return c, nil
	}
	if len(members) == 0 {
		return c, fmt.Errorf("the object is empty; known operators are %s", operators)
	}
	for _, m := range members {
		if err := c.operator(m.Name, m.Value); err != nil {
			return c, err
		}
	}
	if c.min != nil && c.max != nil && c.min.Compare(*c.max) > 0 {
		return c, fmt.Errorf("min %s is above max %s", c.min, c.max)
	}
	return c, nil
}

func (c *condition) operator(name string, v powerbox.Value) error {
	switch name {
	case "in":
		return c.in(v)
	case "min", "max":
		d, ok := v.Decimal()
		if !ok {
			return fmt.Errorf("%s is %s; want a number", name, v.Kind())
		}
		if name == "min" {
			c.min = &d
		} else {
			c.max = &d
		}
		return nil
	default:
		return fmt.Errorf("operator %s is unknown; known are %s", quote(name), operators)
	}
}

func (c *condition) in(v powerbox.Value) error {
	values, _ := v.Elements()
	if len(values) == 0 || len(values) > MaxQueryValues {
		return fmt.Errorf("in is no array of 1 to %d values", MaxQueryValues)
	}
	first, _ := TypeOf(values[0])
	for i, e := range values {
		if t, _ := TypeOf(e); !scalar(e) || t != first {
			return fmt.Errorf("in, element %d is %s; want strings, whole numbers or booleans, all of one type", i+1, e.Kind())
		}
	}
	c.values, c.member = values, true
	return nil
}

// scalar reports whether v can be what an attribute is compared with: a
// value of an attribute that is not a set.
func scalar(v powerbox.Value) bool {
	t, ok := TypeOf(v)
	s, _ := v.Text()
	return ok && t != TypeTexts && len(s) <= MaxTextBytes
}

// UnknownError says that a query names a collection or an attribute that the
// principal cannot see, whether or not it exists, and what it can see.
type UnknownError struct {
	Subject string   // "collection" or "attribute"
	Name    string   // the requested name
	Known   []string // sorted; the visible names
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("resourceQuery: %s %s is unknown; you can see none", e.Subject, quote(e.Name))
	}
	return fmt.Sprintf("resourceQuery: %s %s is unknown; known to you are %s", e.Subject, quote(e.Name), strings.Join(e.Known, ", "))
}

// Select returns the items that q selects, in their order. items must be what
// policy lets the principal see of one agent and nothing else: what select
// knows, it may tell (SEP-5). A collection or attribute that none of them has
// is an [*UnknownError] that lists what they have; a value of another type than
// the attribute's is an error too (SEP-21).
//
// An attribute that is a set meets equality when the set contains the value,
// and membership when it contains one of the values. An item without the
// attribute is not selected. min and max are inclusive.
func (q Query) Select(items []Item) ([]Item, error) {
	in, err := q.within(items)
	if err != nil {
		return nil, err
	}
	if err := q.check(in); err != nil {
		return nil, err
	}
	var selected []Item
	for _, item := range in {
		if q.matches(item) {
			selected = append(selected, item)
		}
	}
	return selected, nil
}

func (q Query) within(items []Item) ([]Item, error) {
	var in []Item
	known := map[string]bool{}
	for _, item := range items {
		known[item.Collection] = true
		if item.Collection == q.collection {
			in = append(in, item)
		}
	}
	if len(in) == 0 {
		return nil, &UnknownError{"collection", q.collection, slices.Sorted(maps.Keys(known))}
	}
	return in, nil
}

// check compares the conditions with the attributes that items have.
func (q Query) check(items []Item) error {
	types := map[string]Type{}
	for _, item := range items {
		for name, v := range item.Attributes {
			if _, ok := types[name]; !ok {
				types[name], _ = TypeOf(v)
			}
		}
	}
	for _, c := range q.conditions {
		t, ok := types[c.attribute]
		if !ok {
			return &UnknownError{"attribute", c.attribute, slices.Sorted(maps.Keys(types))}
		}
		if err := c.fits(t); err != nil {
			return fmt.Errorf("resourceQuery: filter on %s: %w", quote(c.attribute), err)
		}
	}
	return nil
}

func (c condition) fits(t Type) error {
	if (c.min != nil || c.max != nil) && t != TypeInteger {
		return fmt.Errorf("min and max are for whole numbers; the attribute is %s", t)
	}
	for _, v := range c.values {
		given, _ := TypeOf(v)
		if element := given == TypeText && t == TypeTexts; given != t && !element {
			return fmt.Errorf("%s is %s; the attribute is %s", clip(v.String()), given, t)
		}
	}
	return nil
}

func (q Query) matches(item Item) bool {
	for _, c := range q.conditions {
		v, ok := item.Attributes[c.attribute]
		if !ok || !c.holds(v) {
			return false
		}
	}
	return true
}

func (c condition) holds(v powerbox.Value) bool {
	if c.member && !c.contains(v) {
		return false
	}
	if c.min == nil && c.max == nil {
		return true
	}
	d, ok := v.Decimal()
	return ok && (c.min == nil || d.Compare(*c.min) >= 0) && (c.max == nil || d.Compare(*c.max) <= 0)
}

func (c condition) contains(v powerbox.Value) bool {
	candidates, set := v.Elements()
	if !set {
		candidates = []powerbox.Value{v}
	}
	return slices.ContainsFunc(candidates, func(e powerbox.Value) bool {
		return slices.ContainsFunc(c.values, e.Equal)
	})
}

// String returns q in the form that [ParseQuery] reads.
func (q Query) String() string {
	filter := make([]powerbox.Member, len(q.conditions))
	for i, c := range q.conditions {
		filter[i] = powerbox.Member{Name: c.attribute, Value: c.value()}
	}
	members := []powerbox.Member{
		{Name: "collection", Value: powerbox.String(q.collection)},
		{Name: "filter", Value: powerbox.Object(filter...)},
	}
	if q.limit > 0 {
		members = append(members, powerbox.Member{Name: "limit", Value: powerbox.Number(powerbox.Int(int64(q.limit)))})
	}
	if q.after != "" {
		members = append(members, powerbox.Member{Name: "after", Value: powerbox.String(q.after)})
	}
	return powerbox.Object(members...).String()
}

func (c condition) value() powerbox.Value {
	var ms []powerbox.Member
	if c.member {
		ms = append(ms, powerbox.Member{Name: "in", Value: powerbox.List(c.values...)})
	}
	if c.min != nil {
		ms = append(ms, powerbox.Member{Name: "min", Value: powerbox.Number(*c.min)})
	}
	if c.max != nil {
		ms = append(ms, powerbox.Member{Name: "max", Value: powerbox.Number(*c.max)})
	}
	return powerbox.Object(ms...)
}

// quote shows what a caller sent, shortened and without control characters.
func quote(s string) string { return fmt.Sprintf("%q", clip(s)) }

func clip(s string) string {
	if len(s) > MaxNameBytes {
		return strings.ToValidUTF8(s[:MaxNameBytes], "") + "..."
	}
	return s
}
