package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// mutation changes a tree, or how it is written.
type mutation struct {
	family string
	change func(g *generator, n *node)
}

// mutations are the families of changes to JSON.
var mutations = []mutation{
	{"plain", func(*generator, *node) {}},
	{"duplicate", (*generator).duplicate},
	{"case", (*generator).otherCase},
	{"twin", (*generator).twin},
	{"value", (*generator).otherValue},
	{"stray", (*generator).stray},
	{"prototype", (*generator).prototype},
	{"number", (*generator).number},
	{"string", (*generator).oddString},
	{"nesting", (*generator).nest},
	{"compat", (*generator).compat},
	{"type", (*generator).otherType},
	{"target", (*generator).target},
	{"metadata", (*generator).metadata},
	{"splice", (*generator).splice},
	{"order", (*generator).order},
	{"spelling", func(g *generator, _ *node) { g.spell = spelling{g.rng, g.rng.IntN(2) == 0, g.rng.IntN(60)} }},
	{"escaped twin", (*generator).escapedTwin},
}

// generator makes the cases of one binding.
type generator struct {
	binding string
	corpus  []seedFile
	rng     *rand.Rand
	spell   spelling
	known   map[protoreflect.FullName][][]field // of messages
}

// one picks an element.
func one[T any](g *generator, from []T) T { return from[g.rng.IntN(len(from))] }

// folded is a name as the table of alternatives has it.
func folded(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '$' {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
}

// alternative is another value for a member.
func (g *generator) alternative(name string) *node {
	switch key := folded(name); {
	case key == "parts" || key == "content":
		n := &node{kind: '['}
		for range 1 + g.rng.IntN(2) {
			n.items = append(n.items, mustNode(one(g, partValues)))
		}
		return n
	case key == "part":
		return mustNode(one(g, partValues))
	case key == "params":
		return mustNode(`{"message":` + one(g, messageValues) + `,"metadata":` + wideMembers + `}`)
	case len(alternatives[key]) > 0:
		text := one(g, alternatives[key])
		if n, err := parseNode([]byte(text)); err == nil && !strings.Contains(text, `\u`) {
			return n
		}
		return &node{raw: text} // as it is written, which not every reader can read
	}
	return mustNode(one(g, []string{`"x"`, `1`, `true`, `null`, wideCall, `{}`, `[]`}))
}

// memberOf picks a member of a tree: the object and the place in it.
func (g *generator) memberOf(n *node) (*node, int) {
	all := n.objects()
	for range 8 {
		if o := one(g, all); len(o.members) > 0 {
			return o, g.rng.IntN(len(o.members))
		}
	}
	return nil, 0
}

// insert puts a member at some place of an object.
func (g *generator) insert(o *node, m member) {
	at := g.rng.IntN(len(o.members) + 1)
	o.members = append(o.members[:at], append([]member{m}, o.members[at:]...)...)
}

func (g *generator) duplicate(n *node) {
	if o, i := g.memberOf(n); o != nil {
		name := o.members[i].name
		value := g.alternative(unquoted(name))
		if g.rng.IntN(3) == 0 {
			value = o.members[i].value.clone()
		}
		g.insert(o, member{name, value})
	}
}

// recased is a name in other letter cases, among them letters that fold to ASCII.
func (g *generator) recased(name string) string {
	switch g.rng.IntN(5) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToLower(name)
	case 2:
		return strings.NewReplacer("s", "ſ", "k", "\u212a").Replace(name)
	default:
		at := g.rng.IntN(len(name))
		c := rune(name[at])
		if unicode.IsUpper(c) {
			return name[:at] + string(unicode.ToLower(c)) + name[at+1:]
		}
		return name[:at] + string(unicode.ToUpper(c)) + name[at+1:]
	}
}

func (g *generator) otherCase(n *node) {
	o, i := g.memberOf(n)
	if o == nil || len(unquoted(o.members[i].name)) == 0 {
		return
	}
	name := unquoted(o.members[i].name)
	if keeps(name) {
		return
	}
	if g.rng.IntN(2) == 0 {
		o.members[i].name = quote(g.recased(name))
		return
	}
	g.insert(o, member{quote(g.recased(name)), g.alternative(name)})
}

// otherStyle is a name in the other of protobuf's two styles.
func otherStyle(name string) string {
	var b strings.Builder
	up := false
	for i, c := range name {
		switch {
		case c == '_' && i > 0:
			up = true
		case up:
			b.WriteRune(unicode.ToUpper(c))
			up = false
		case unicode.IsUpper(c):
			b.WriteString("_" + string(unicode.ToLower(c)))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func (g *generator) twin(n *node) {
	o, i := g.memberOf(n)
	if o == nil {
		return
	}
	name := unquoted(o.members[i].name)
	other := otherStyle(name)
	if other == name {
		other = one(g, []string{name + "_", "_" + name, name + " ", "\ufeff" + name, name + "\u0000", name + "[]", "$" + name, "@" + name})
	}
	if g.rng.IntN(3) == 0 {
		o.members[i].name = quote(other)
		return
	}
	g.insert(o, member{quote(other), g.alternative(name)})
}

func (g *generator) otherValue(n *node) {
	if o, i := g.memberOf(n); o != nil {
		o.members[i].value = g.alternative(unquoted(o.members[i].name))
	}
}

func (g *generator) stray(n *node) {
	name := one(g, names)
	g.insert(one(g, n.objects()), member{quote(name), g.alternative(name)})
}

func (g *generator) prototype(n *node) {
	o := one(g, n.objects())
	name := one(g, []string{`"__proto__"`, `"__proto__"`, `"constructor"`, `"prototype"`, `"\u005f_proto__"`, `"__proto__\u0000"`, `"__defineGetter__"`, `"toJSON"`, `"length"`, `"then"`})
	value := g.alternative("__proto__")
	if g.rng.IntN(3) == 0 && len(o.members) > 0 { // what the object itself has, out of sight
		i := g.rng.IntN(len(o.members))
		value = &node{kind: '{', members: []member{{o.members[i].name, g.alternative(unquoted(o.members[i].name))}}}
		if g.rng.IntN(2) == 0 {
			o.members = append(o.members[:i], o.members[i+1:]...)
		}
	}
	g.insert(o, member{name, value})
}

func (g *generator) number(n *node) {
	if arguments := find(n, "arguments"); arguments != nil && arguments.kind == '{' && g.rng.IntN(3) > 0 {
		arguments.set(one(g, []string{"limit", "limit", "collection", "dry_run"}), &node{raw: one(g, numberValues)})
		return
	}
	if o, i := g.memberOf(n); o != nil {
		o.members[i].value = &node{raw: one(g, numberValues)}
	}
}

// find returns the first member of that name, however deep.
func find(n *node, name string) *node {
	for _, o := range n.objects() {
		if v := o.get(name); v != nil {
			return v
		}
	}
	return nil
}

func (g *generator) oddString(n *node) {
	odd := []string{
		`"\ud800"`, `"\udc00\ud800"`, `"\u0000"`, "\"\x00\"", "\"\xff\"", "\"\xc0\xae\"", "\"\xed\xa0\x80\"", "\"\ufeffpublic\"", `"public\u200b"`, `"pu\bblic"`, `"\/public"`, `"\x70ublic"`, "\"pub\nlic\"", "\"pub\tlic\"",
		`"` + strings.Repeat("a", 5000) + `"`, `"é"`, `"e\u0301"`, `"\u00e9"`, `"ﬁ"`, `"\ud83d\ude00"`, `"😀"`, `'public'`, `"public`, `"\u007f"`, `"\u2028"`, "\"\u2028\"", `"\\"`, `"public\"}"`,
	}
	o, i := g.memberOf(n)
	if o == nil {
		return
	}
	if g.rng.IntN(4) == 0 {
		o.members[i].name = one(g, odd)
		return
	}
	o.members[i].value = &node{raw: one(g, odd)}
}

func (g *generator) nest(n *node) {
	places := n.places()
	if len(places) == 0 {
		return
	}
	p := one(g, places)
	inner := *p
	switch g.rng.IntN(6) {
	case 0:
		*p = &node{kind: '[', items: []*node{inner}}
	case 1:
		for range 1 + g.rng.IntN(70) {
			inner = &node{kind: '[', items: []*node{inner}}
		}
		*p = inner
	case 2:
		*p = &node{raw: quote(string(inner.text(spelling{})))}
	default:
		name := one(g, []string{"value", "data", "data", "value", "text", "fields", "message", "params", "structValue", "kind"})
		*p = &node{kind: '{', members: []member{{quote(name), inner}}}
	}
}

// compat wraps data as one version or another has it, and says so or not.
func (g *generator) compat(n *node) {
	parts := find(n, "parts")
	if parts == nil || parts.kind != '[' || len(parts.items) == 0 || parts.items[0].kind != '{' {
		g.stray(n)
		return
	}
	part := one(g, parts.items)
	if part.kind != '{' {
		return
	}
	if data := part.get("data"); data != nil && g.rng.IntN(4) > 0 {
		for _, name := range []string{"value", "data"} {
			if g.rng.IntN(2) == 0 {
				wrapped := &node{kind: '{', members: []member{{quote(name), data}}}
				part.set("data", wrapped)
				if g.rng.IntN(4) == 0 { // a call beside the one that is wrapped
					wrapped.members = append(wrapped.members, mustNode(one(g, []string{wideCall, searchCall})).members...)
				}
			}
		}
	}
	if g.rng.IntN(8) == 0 { // a value that no reader takes for a call, and a call beside it
		wrapped := &node{kind: '{', members: []member{{quote("value"), mustNode(one(g, []string{`null`, `1`, `"x"`, `[]`, `[null]`, `[` + wideCall + `]`}))}}}
		wrapped.members = append(wrapped.members, mustNode(one(g, []string{wideCall, searchCall})).members...)
		part.set("data", wrapped)
	}
	switch g.rng.IntN(4) {
	case 0:
	case 1:
		part.set("metadata", mustNode(one(g, []string{compatFlag, compatFlag, `{"data_part_compat":"true"}`, `{"data_part_compat":1}`, `{"dataPartCompat":true}`, `{"data_part_compat":true,"data_part_compat":false}`})))
	default:
		part.set("metadata", mustNode(compatFlag))
	}
	if g.rng.IntN(3) == 0 {
		part.set("kind", g.alternative("kind"))
	}
	if g.rng.IntN(6) == 0 {
		parts.items = append(parts.items, mustNode(one(g, partValues)))
	}
}

func (g *generator) otherType(n *node) {
	if places := n.places(); len(places) > 0 {
		*one(g, places) = mustNode(one(g, []string{`null`, `true`, `false`, `""`, `[]`, `{}`, `0`, `"x"`, `[null]`, `{"x":null}`}))
	}
}

func (g *generator) target(n *node) {
	name := one(g, []string{"taskId", "task_id", "taskID", "contextId", "context_id", "tenant", "id", "name", "parent", "referenceTaskIds", "task", "context"})
	objects := n.objects()
	if message := find(n, "message"); message != nil && message.kind == '{' && g.rng.IntN(2) == 0 {
		g.insert(message, member{quote(name), g.alternative(name)})
		return
	}
	g.insert(one(g, objects[:min(len(objects), 3)]), member{quote(name), g.alternative(name)})
}

func (g *generator) metadata(n *node) {
	for _, name := range []string{"metadata", "_meta"} {
		if m := find(n, name); m != nil && m.kind == '{' && g.rng.IntN(3) > 0 {
			from := g.alternative(name)
			if from.kind == '{' && len(from.members) > 0 {
				g.insert(m, one(g, from.members))
				return
			}
		}
	}
	g.insert(one(g, n.objects()), member{`"metadata"`, g.alternative("metadata")})
}

// splice takes a value out of another file of the corpus.
func (g *generator) splice(n *node) {
	other := one(g, g.corpus).root.clone()
	from, to := other.places(), n.places()
	if len(from) > 0 && len(to) > 0 {
		*one(g, to) = *one(g, from)
	}
}

func (g *generator) order(n *node) {
	o := one(g, n.objects())
	switch g.rng.IntN(4) {
	case 0:
		if len(o.members) > 0 {
			i := g.rng.IntN(len(o.members))
			o.members = append(o.members[:i], o.members[i+1:]...)
		}
	case 1:
		if parts := find(n, "parts"); parts != nil && parts.kind == '[' {
			parts.items = append(parts.items, mustNode(one(g, partValues)))
			g.rng.Shuffle(len(parts.items), func(i, j int) { parts.items[i], parts.items[j] = parts.items[j], parts.items[i] })
		}
	default:
		g.rng.Shuffle(len(o.members), func(i, j int) { o.members[i], o.members[j] = o.members[j], o.members[i] })
	}
}

// escapedTwin adds a member whose name is the same once it is unescaped.
func (g *generator) escapedTwin(n *node) {
	o, i := g.memberOf(n)
	if o == nil {
		return
	}
	name := unquoted(o.members[i].name)
	if name == "" || keeps(name) {
		return
	}
	at := g.rng.IntN(len(name))
	raw := quote(name[:at])
	raw = raw[:len(raw)-1] + fmt.Sprintf(`\u%04x`, name[at]) + quote(name[at+1:])[1:]
	g.insert(o, member{raw, g.alternative(name)})
}
