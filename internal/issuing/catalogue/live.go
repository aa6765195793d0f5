package catalogue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// Bounds of a page of a query.
const (
	// MaxPage is the largest number of resources that a query may ask for at once.
	MaxPage = 1000
	// maxCursorText is the length of the longest cursor that is read.
	maxCursorText = 8 << 10
)

// Question asks a source for one page of the resources of a collection that a
// principal may use.
type Question struct {
	Principal  string     // as sessions name it, such as user:alice
	Collection Collection // as the operator declares it
	Action     string     // what the source calls the operation
	Query      Query      // a source may ignore its conditions: they are checked again
	After      string     // Next of the page before, "" for the first page
}

// Page is one page of an answer.
type Page struct {
	Items []Item
	Next  string // where the next page begins, "" if this is the last one
}

// Condition is what one attribute must be. Every part that is there must hold.
type Condition struct {
	Attribute string
	Values    []powerbox.Value // one of these, if Member
	Member    bool
	Min, Max  *powerbox.Decimal
}

// Conditions returns the conditions of q, all of which must hold.
func (q Query) Conditions() []Condition {
	out := make([]Condition, len(q.conditions))
	for i, c := range q.conditions {
		out[i] = Condition{c.attribute, c.values, c.member, c.min, c.max}
	}
	return out
}

// Collection returns the name of the collection that q selects from.
func (q Query) Collection() string { return q.collection }

// Limit returns how many resources q asks for at once, 0 if it does not say.
func (q Query) Limit() int { return q.limit }

// After returns the cursor from which q continues, "" for the beginning.
func (q Query) After() string { return q.after }

// Selection returns the form of q without its page: equal for all pages of one query.
func (q Query) Selection() string {
	q.limit, q.after = 0, ""
	return q.String()
}

// Fits returns an error unless the conditions of q can be asked of a declared
// collection. Declarations are no secret: the error lists the attributes.
func (q Query) Fits(c Collection) error {
	for _, condition := range q.conditions {
		a, ok := c.Attributes[condition.attribute]
		if !ok {
			return &UnknownError{"attribute", condition.attribute, slices.Sorted(maps.Keys(c.Attributes))}
		}
		if err := condition.fits(a.Type); err != nil {
			return fmt.Errorf("resourceQuery: filter on %s: %w", quote(condition.attribute), err)
		}
	}
	return nil
}

// Matches reports whether an item is in the collection of q and meets its conditions.
func (q Query) Matches(item Item) bool { return item.Collection == q.collection && q.matches(item) }

// Admit returns an error unless the item is well-formed and has the declared
// attributes of c, each of its type, and no others. An item may have no name.
func (c Collection) Admit(item Item) error {
	if item.Collection != c.Name || item.Agent != c.Agent {
		return fmt.Errorf("a resource of another collection than %s", c.Name)
	}
	named := item
	if named.Name == "" {
		named.Name = c.Name
	}
	if err := named.check(); err != nil {
		return err
	}
	for name, v := range item.Attributes {
		a, ok := c.Attributes[name]
		if t, _ := TypeOf(v); !ok || t != a.Type {
			return fmt.Errorf("attribute %q is not as declared", name)
		}
	}
	for name, a := range c.Attributes {
		if _, ok := item.Attributes[name]; a.Required && !ok {
			return fmt.Errorf("attribute %q is missing", name)
		}
	}
	return nil
}

// ParseType returns the type of that name: text, integer, boolean or texts.
func ParseType(name string) (Type, bool) {
	t, ok := map[string]Type{"text": TypeText, "integer": TypeInteger, "boolean": TypeBoolean, "texts": TypeTexts}[name]
	return t, ok
}
