package a2a

import (
	"cmp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// A gateway that enforces does not forward the bytes that it received: software
// kits read the same bytes differently. It writes each request again, from an
// allowlist of members, and decides on what it has written.

// Known is an allowlist of the members of an object.
type Known struct {
	members []KnownMember
	places  map[string]int    // by exact name
	folded  map[string]string // spellings that lenient readers take for one, to its exact name
	// Strict says that members which are not listed are refused; otherwise they are
	// dropped, as A2A 1.0 section 3.7 has receivers ignore what they do not know.
	Strict bool
}

// KnownMember is one member of a [Known] object.
type KnownMember struct {
	Name string
	Is   KnownType
	Of   *Known // for Objects and Lists of objects
}

// KnownType is the type that a member must have. Null is absent, whatever the type.
type KnownType uint8

// The types of members.
const (
	IsText    KnownType = iota // a string
	IsScalar                   // a string, a number or a boolean
	IsTexts                    // an array of strings
	IsObject                   // an object, by its own allowlist
	IsMap                      // an object, whole
	IsTextMap                  // an object of strings, whole
	IsList                     // an array of objects, by their allowlist
	IsAny                      // any value, whole
)

// String names the type as a message does.
func (t KnownType) String() string {
	return [...]string{"a string", "a string, a number or a boolean", "an array of strings", "an object", "an object", "an object of strings", "an array", "a value"}[t]
}

// NewKnown returns an allowlist.
func NewKnown(members ...KnownMember) *Known {
	k := &Known{members: members, places: map[string]int{}, folded: map[string]string{}}
	for i, m := range members {
		k.places[m.Name] = i
		k.folded[foldName(m.Name)] = m.Name
	}
	return k
}

// texts returns members that are strings.
func texts(names ...string) []KnownMember {
	out := make([]KnownMember, len(names))
	for i, name := range names {
		out[i] = KnownMember{Name: name, Is: IsText}
	}
	return out
}

// Written is an object as it continues.
type Written struct {
	Value powerbox.Value
	// Dropped names the members that were left out and those that were renamed, such
	// as params.task_id; 16 at most.
	Dropped []string
}

// maxDropped is how many dropped members are named.
const maxDropped = 16

// Write returns an object as it continues: with the members of the allowlist alone. Null is
// absent. A lone member spelt with underscores counts as the one that ProtoJSON means by
// it. where names the object in messages. Names that occur twice, the depth and the number
// of values were looked at when v was decoded.
func (k *Known) Write(where string, v powerbox.Value) (Written, *Error) {
	var w writer
	out, _, wrong := w.object(where, k, v)
	return Written{out, w.dropped}, wrong
}

// writer brings an object to its allowlist, in one pass.
type writer struct {
	dropped []string
}

func (w *writer) drop(where, name string) {
	if len(w.dropped) < maxDropped {
		w.dropped = append(w.dropped, below(where, short(name)))
	}
}

// maxShort is how much of a stranger's text stands in a message, in bytes.
const maxShort = 64

// short cuts a text of a stranger for a message.
func short(text string) string {
	if len(text) <= maxShort {
		return text
	}
	return strings.ToValidUTF8(text[:maxShort], "") + "..."
}

// below names a member of an object in messages; the outermost object has no name.
func below(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

// called is an object in messages.
func called(where string) string { return cmp.Or(where, "the request") }

// object returns an object as it continues, and whether that differs from v: most requests
// hold nothing that must be changed, and nothing is copied for them.
func (w *writer) object(where string, k *Known, v powerbox.Value) (powerbox.Value, bool, *Error) {
	members, ok := v.Members()
	if !ok {
		return v, false, mistyped(where, v, "an object")
	}
	var out []powerbox.Member
	differs := false
	for i, m := range members {
		at, wrong := k.place(where, m.Name)
		if wrong != nil {
			return v, false, wrong
		}
		kept, changed := powerbox.Member{}, true
		if at >= 0 {
			if kept, changed, wrong = w.listed(where, k, at, members[:i], m); wrong != nil {
				return v, false, wrong
			}
		} else {
			w.drop(where, m.Name)
		}
		if changed && !differs {
			differs = true
			out = append(make([]powerbox.Member, 0, len(members)), members[:i]...)
		}
		if differs && kept.Value.Kind() != powerbox.KindNull {
			out = append(out, kept)
		}
	}
	if !differs {
		return v, false, nil
	}
	return powerbox.Object(out...), true, nil
}

// listed returns a member of the allowlist as it continues, and whether that differs. A
// null member is dropped.
func (w *writer) listed(where string, k *Known, at int, before []powerbox.Member, m powerbox.Member) (powerbox.Member, bool, *Error) {
	is := k.members[at]
	for _, other := range before {
		if there, _ := k.place(where, other.Name); there == at {
			return m, false, invalidRequest(ReasonVariant, "%s has both %q and %q, which are one member to some readers; send %q alone", called(where), other.Name, m.Name, is.Name)
		}
	}
	renamed := is.Name != m.Name
	if renamed {
		w.drop(where, m.Name)
	}
	if m.Value.Kind() == powerbox.KindNull {
		return powerbox.Member{}, true, nil
	}
	value, changed, wrong := w.member(below(where, is.Name), is, m.Value)
	return powerbox.Member{Name: is.Name, Value: value}, changed || renamed, wrong
}

// place returns the place of a name in the allowlist, -1 for one that is not in it. A
// name that only lenient readers take for a listed one is refused, except for the name
// that the field has in protobuf.
func (k *Known) place(where, name string) (int, *Error) {
	if at, ok := k.places[name]; ok {
		return at, nil
	}
	exact, ok := k.folded[foldName(name)]
	switch {
	case ok && name == snake(exact):
		return k.places[exact], nil
	case ok:
		return 0, invalidRequest(ReasonVariant, "%s has a member %q, which some readers take for %q; write %q", called(where), short(name), exact, exact)
	case k.Strict:
		names := make([]string, len(k.members))
		for i, m := range k.members {
			names[i] = m.Name
		}
		return 0, invalidRequest(ReasonEnvelope, "%s has a member %q; want %s", called(where), short(name), strings.Join(names, ", "))
	}
	return -1, nil
}

// snake is the name that protobuf has for a member of its JSON form.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// member returns the value of a member as it continues, and whether that differs from v.
func (w *writer) member(where string, m KnownMember, v powerbox.Value) (powerbox.Value, bool, *Error) {
	kind := v.Kind()
	isNested := kind == powerbox.KindObject || kind == powerbox.KindList
	switch m.Is {
	case IsObject:
		return w.object(where, m.Of, v)
	case IsList:
		return w.list(where, m.Of, v)
	case IsTexts:
		return v, false, checkTexts(where, v)
	case IsMap:
		if kind != powerbox.KindObject {
			return v, false, mistyped(where, v, m.Is.String())
		}
	case IsTextMap:
		return v, false, checkTextMap(where, v)
	case IsText:
		if kind != powerbox.KindString {
			return v, false, mistyped(where, v, m.Is.String())
		}
	case IsScalar:
		if isNested {
			return v, false, mistyped(where, v, m.Is.String())
		}
	case IsAny:
	}
	return v, false, nil
}

// list returns an array of objects as it continues, and whether that differs from v.
func (w *writer) list(where string, of *Known, v powerbox.Value) (powerbox.Value, bool, *Error) {
	elements, wrong := elementsOf(where, v, "an array")
	if wrong != nil {
		return v, false, wrong
	}
	out := elements
	differs := false
	for i, e := range elements {
		value, changed, wrong := w.object(where+"["+itoa(i)+"]", of, e)
		if wrong != nil {
			return v, false, wrong
		}
		if changed && !differs {
			differs, out = true, slices.Clone(elements)
		}
		if changed {
			out[i] = value
		}
	}
	if !differs {
		return v, false, nil
	}
	return powerbox.List(out...), true, nil
}

// checkTextMap refuses a value that is no object of strings. Readers in Go take null for
// the empty string, and others take it for nothing.
func checkTextMap(where string, v powerbox.Value) *Error {
	members, ok := v.Members()
	if !ok {
		return mistyped(where, v, IsTextMap.String())
	}
	for _, m := range members {
		if m.Value.Kind() != powerbox.KindString {
			return mistyped(where+"."+m.Name, m.Value, IsText.String())
		}
	}
	return nil
}

// checkTexts refuses a value that is no array of strings.
func checkTexts(where string, v powerbox.Value) *Error {
	elements, wrong := elementsOf(where, v, "an array of strings")
	if wrong != nil {
		return wrong
	}
	for i, e := range elements {
		if e.Kind() != powerbox.KindString {
			return mistyped(where+"["+itoa(i)+"]", e, "a string")
		}
	}
	return nil
}

// maxElements is how many elements a list of the protocol can have: parts of a
// message, URIs of extensions, tasks that are referred to.
const maxElements = 256

func elementsOf(where string, v powerbox.Value, want string) ([]powerbox.Value, *Error) {
	elements, ok := v.Elements()
	switch {
	case !ok:
		return nil, mistyped(where, v, want)
	case len(elements) > maxElements:
		return nil, invalidRequest(ReasonTooLarge, "%s has more than %d elements", where, maxElements)
	}
	return elements, nil
}

// mistyped is a value of another type than its member has.
func mistyped(where string, v powerbox.Value, want string) *Error {
	return invalidParams(ReasonParams, "%s is of type %s; want %s", called(where), v.Kind(), want)
}

// Glance looks for the id and the method of a request of JSON-RPC that is refused before
// it is decoded. Its results serve an answer and nothing else: id is nil where there is
// none that could be given back.
func Glance(body []byte) (id []byte, method Method) {
	o, err := apart(body)
	if err != nil {
		return nil, Unknown
	}
	method, _ = ParseMethod(o.text("method"))
	raw := o.get("id")
	if len(raw) == 0 || len(raw) > maxID || raw[0] == '{' || raw[0] == '[' {
		return nil, method
	}
	if v, err := powerbox.ParseValue(raw); err == nil {
		return v.AppendSource(nil), method
	}
	return nil, method
}
