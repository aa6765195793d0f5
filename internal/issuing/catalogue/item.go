package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// The longest names, in bytes.
const (
	MaxIDBytes        = 256 // of an item's id and of its name
	MaxNameBytes      = 64  // of an agent, a collection and an attribute
	MaxTextBytes      = 256 // of a string in an attribute
	MaxSetElements    = 64  // of a set in an attribute
	MaxItemAttributes = 32  // of one item
)

// Item is one resource of an agent. Collection, Name and Attributes are what
// policies and queries can speak about and what a caller may be told. ID is how
// the agent's own storage calls it: it goes to the agent behind the gateway and
// to no one else (SEP-5).
type Item struct {
	Agent      string
	Collection string
	ID         string // unique within the agent
	Name       string // for people
	Attributes map[string]powerbox.Value
}

// Type is the type of an attribute.
type Type uint8

// The types of attribute. The zero Type is none.
const (
	TypeText    Type = iota + 1 // a string
	TypeInteger                 // a number without fraction that fits 64 bits
	TypeBoolean                 // true or false
	TypeTexts                   // an array of strings, taken as a set
)

// String returns the type as error messages name it.
func (t Type) String() string {
	switch t {
	case TypeText:
		return "a string"
	case TypeInteger:
		return "a whole number"
	case TypeBoolean:
		return "true or false"
	case TypeTexts:
		return "a set of strings"
	}
	return "no type"
}

// TypeOf returns the type of an attribute's value, and false where no attribute
// can have that value.
func TypeOf(v powerbox.Value) (Type, bool) {
	switch v.Kind() {
	case powerbox.KindString:
		return TypeText, true
	case powerbox.KindBool:
		return TypeBoolean, true
	case powerbox.KindNumber:
		d, _ := v.Decimal()
		_, whole := d.Int64()
		return TypeInteger, whole
	case powerbox.KindList:
		elements, _ := v.Elements()
		return TypeTexts, !slices.ContainsFunc(elements, func(e powerbox.Value) bool {
			return e.Kind() != powerbox.KindString
		})
	default:
		return 0, false
	}
}

// Attribute describes one attribute of a collection.
type Attribute struct {
	Type     Type
	Required bool // every item of the collection has it
}

// Collection describes one collection: the declaration that
// policies are checked against.
type Collection struct {
	Agent      string
	Name       string
	Attributes map[string]Attribute
}

// Collections returns the collections of items in order of agent and name, with
// the attributes that their items have. It fails where an item is not
// well-formed, where two items of an agent have one id, and where an attribute
// has two types within one collection. Errors name ids: they are for the
// operator.
func Collections(items []Item) ([]Collection, error) {
	c := newCollector()
	for _, item := range items {
		if err := c.add(item); err != nil {
			return nil, fmt.Errorf("item %q of agent %q: %w", item.ID, item.Agent, err)
		}
	}
	return c.collections(), nil
}

// collector gathers declarations from items.
type collector struct {
	ids   map[[2]string]bool
	known map[[2]string]*gathered
}

type gathered struct {
	items int
	types map[string]Type
	count map[string]int
}

func newCollector() *collector {
	return &collector{ids: map[[2]string]bool{}, known: map[[2]string]*gathered{}}
}

func (c *collector) add(item Item) error {
	if err := item.check(); err != nil {
		return err
	}
	id := [2]string{item.Agent, item.ID}
	if c.ids[id] {
		return fmt.Errorf("id %q is there twice; an id is unique within its agent", item.ID)
	}
	c.ids[id] = true
	key := [2]string{item.Agent, item.Collection}
	g := c.known[key]
	if g == nil {
		g = &gathered{types: map[string]Type{}, count: map[string]int{}}
		c.known[key] = g
	}
	g.items++
	for _, name := range slices.Sorted(maps.Keys(item.Attributes)) {
		t, _ := TypeOf(item.Attributes[name])
		if was, ok := g.types[name]; ok && was != t {
			return fmt.Errorf("attribute %q is %s here and %s in other items of collection %q; want one type", name, t, was, item.Collection)
		}
		g.types[name] = t
		g.count[name]++
	}
	return nil
}

func (c *collector) collections() []Collection {
	out := make([]Collection, 0, len(c.known))
	for key, g := range c.known {
		attributes := make(map[string]Attribute, len(g.types))
		for name, t := range g.types {
			attributes[name] = Attribute{Type: t, Required: g.count[name] == g.items}
		}
		out = append(out, Collection{Agent: key[0], Name: key[1], Attributes: attributes})
	}
	sorting.Sort(out, func(a, b Collection) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name))
	})
	return out
}

func (i Item) check() error {
	for _, n := range []struct{ what, name string }{{"agent", i.Agent}, {"collection", i.Collection}} {
		if err := CheckName(n.name); err != nil {
			return fmt.Errorf("%s %w", n.what, err)
		}
	}
	for _, t := range []struct{ what, text string }{{"id", i.ID}, {"name", i.Name}} {
		if t.text == "" || len(t.text) > MaxIDBytes || !printable(t.text) {
			return fmt.Errorf("%s is %q; want 1 to %d bytes of printable text", t.what, t.text, MaxIDBytes)
		}
	}
	if len(i.Attributes) > MaxItemAttributes {
		return fmt.Errorf("%d attributes; want at most %d", len(i.Attributes), MaxItemAttributes)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Attributes)) {
		if !attributeName(name) {
			return fmt.Errorf("attribute %q; want a name of 1 to %d letters, digits and '_' that does not begin with a digit", name, MaxNameBytes)
		}
		if err := checkValue(i.Attributes[name]); err != nil {
			return fmt.Errorf("attribute %q %w", name, err)
		}
	}
	return nil
}

// CheckName returns an error unless name can be the name of an agent or a
// collection: 1 to 64 letters, digits, '.', '_', '-' and ':'. Without '/' the
// joined names of design section 1 have one reading.
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes || strings.ContainsFunc(name, func(r rune) bool {
		return !identRune(r) && r != '.' && r != '-' && r != ':'
	}) {
		return fmt.Errorf("is %q; want 1 to %d letters, digits, '.', '_', '-' and ':'", name, MaxNameBytes)
	}
	return nil
}

func attributeName(s string) bool {
	return s != "" && len(s) <= MaxNameBytes && (s[0] < '0' || s[0] > '9') &&
		!strings.ContainsFunc(s, func(r rune) bool { return !identRune(r) })
}

func identRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// printable refuses control characters and, with them, the invisible ones that
// make one text look like another.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func checkValue(v powerbox.Value) error {
	if _, ok := TypeOf(v); !ok {
		return fmt.Errorf("is %s; want a string, a whole number of 64 bits, true or false, or an array of strings", v.Kind())
	}
	texts, list := v.Elements()
	if !list {
		texts = []powerbox.Value{v}
	}
	if len(texts) > MaxSetElements {
		return fmt.Errorf("has %d elements; want at most %d", len(texts), MaxSetElements)
	}
	for _, t := range texts {
		if s, ok := t.Text(); ok && (len(s) > MaxTextBytes || !utf8.ValidString(s)) {
			return fmt.Errorf("has a string of %d bytes; want at most %d bytes of UTF-8", len(s), MaxTextBytes)
		}
	}
	return nil
}
