package a2a

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A gateway that enforces does not forward the bytes that it received: software
// kits read the same bytes differently. It writes each request again, from an
// allowlist of members, and decides on what it has written.

// Known is an allowlist of the members of an object, in the order in which they
// are written.
type Known struct {
	members []KnownMember
	places  map[string]int    // by exact name
	folded  map[string]string // what lenient readers take for one, to its exact name
	// Rest says that members which are not listed are kept, behind those that are.
	Rest bool
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

// KnownType is what a member has to be. Null is absent, whatever the type.
type KnownType uint8

// The types of members.
const (
	IsText   KnownType = iota // a string
	IsScalar                  // a string, a number or a boolean
	IsTexts                   // an array of strings
	IsObject                  // an object, by its own allowlist
	IsList                    // an array of objects, by their allowlist
	IsAny                     // any value, whole
)

// String names the type as a message does.
func (t KnownType) String() string {
	return [...]string{"a string", "a string, a number or a boolean", "an array of strings", "an object", "an array", "a value"}[t]
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

// Written is a value that was written again.
type Written struct {
	Bytes []byte
	// Dropped names the members that were left out and those that were renamed, such
	// as params.task_id; 16 at most.
	Dropped []string
}

// maxDropped is how many dropped members are named.
const maxDropped = 16

// Write writes one JSON object again: the members of the allowlist alone, each once,
// in its order; numbers as they were written, strings by one encoder. A lone member
// spelt with underscores counts as the one that ProtoJSON means by it. where names the
// object in messages.
func (k *Known) Write(where string, raw []byte) (Written, *Error) {
	d := decoderOf(raw)
	defer done(d)
	w := writer{decoder: d}
	out, wrong := w.object(nil, where, k)
	if wrong != nil {
		return Written{}, wrong
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Written{}, &Error{CodeParse, ReasonSyntax, "JSON: data after the value; want exactly one value"}
	}
	return Written{out, w.dropped}, nil
}

// Canonical writes one JSON value again, whole: numbers as they were written, strings
// by one encoder, members in the order of their names. Its depth was bounded before.
func Canonical(raw []byte) ([]byte, *Error) { return appendCanonical(nil, raw) }

func appendCanonical(to, raw []byte, more ...jsontext.Options) ([]byte, *Error) {
	out, err := jsontext.AppendFormat(to, raw, append(more, jsontext.ReorderRawObjects(true))...)
	if err != nil {
		return nil, syntax(err)
	}
	return out, nil
}

func syntax(err error) *Error { return &Error{CodeParse, ReasonSyntax, "JSON: " + err.Error()} }

// writer reads an object and writes it by its allowlist, in one pass.
type writer struct {
	decoder *jsontext.Decoder
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

// slot is a member that was read, ready to be written.
type slot struct {
	key, value []byte
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

// object writes the object that comes next.
func (w *writer) object(to []byte, where string, k *Known) ([]byte, *Error) {
	if kind := w.decoder.PeekKind(); kind != '{' {
		return nil, w.mistyped(where, "an object")
	}
	if _, err := w.decoder.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	slots := make([]slot, len(k.members))
	spelt := make([]string, len(k.members))
	var rest []slot
	for {
		kind := w.decoder.PeekKind()
		if kind == '}' {
			break
		}
		token, err := w.decoder.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		name := token.String()
		at, wrong := k.place(where, name)
		if wrong != nil {
			return nil, wrong
		}
		switch {
		case at >= 0:
			if spelt[at] != "" {
				return nil, invalidRequest(ReasonVariant, "%s has both %q and %q, which are one member to some readers; send %q alone", called(where), spelt[at], name, k.members[at].Name)
			}
			spelt[at] = name
			if name != k.members[at].Name {
				w.drop(where, name)
			}
			if slots[at].value, wrong = w.member(below(where, k.members[at].Name), k.members[at]); wrong != nil {
				return nil, wrong
			}
		case k.Rest:
			value, wrong := w.value()
			if wrong != nil {
				return nil, wrong
			}
			rest = append(rest, slot{quote(name), value})
		default:
			w.drop(where, name)
			if err := w.decoder.SkipValue(); err != nil {
				return nil, syntax(err)
			}
		}
	}
	if _, err := w.decoder.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	slices.SortFunc(rest, func(a, b slot) int { return bytes.Compare(a.key, b.key) })
	for i, m := range k.members {
		slots[i].key = quote(m.Name)
	}
	return appendSlots(to, append(slots, rest...)), nil
}

func appendSlots(to []byte, slots []slot) []byte {
	to = append(to, '{')
	first := true
	for _, s := range slots {
		if s.value == nil {
			continue
		}
		if !first {
			to = append(to, ',')
		}
		first = false
		to = append(append(append(to, s.key...), ':'), s.value...)
	}
	return append(to, '}')
}

// place returns the place of a name in the allowlist, -1 for one that is not in it. A
// name that only lenient readers take for a listed one is refused, but for the name
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

// member writes the value that comes next, nil for null.
func (w *writer) member(where string, m KnownMember) ([]byte, *Error) {
	kind := w.decoder.PeekKind()
	if kind == 'n' {
		_, err := w.decoder.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		return nil, nil
	}
	switch m.Is {
	case IsObject:
		return w.object(nil, where, m.Of)
	case IsList:
		return w.list(where, m.Of)
	case IsTexts:
		return w.texts(where)
	case IsText:
		if kind != '"' {
			return nil, w.mistyped(where, m.Is.String())
		}
	case IsScalar:
		if kind == '{' || kind == '[' {
			return nil, w.mistyped(where, m.Is.String())
		}
	case IsAny:
	}
	return w.value()
}

// value writes the value that comes next, whole.
func (w *writer) value() ([]byte, *Error) {
	raw, err := w.decoder.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	// The decoder has just refused names that occur twice, and to look for them again
	// costs as much as all the rest.
	return appendCanonical(make([]byte, 0, len(raw)), raw, jsontext.AllowDuplicateNames(true))
}

// list writes an array of objects.
func (w *writer) list(where string, of *Known) ([]byte, *Error) {
	return w.array(where, "an array", func(to []byte, n int) ([]byte, *Error) {
		return w.object(to, where+"["+itoa(n)+"]", of)
	})
}

// texts writes an array of strings.
func (w *writer) texts(where string) ([]byte, *Error) {
	return w.array(where, "an array of strings", func(to []byte, n int) ([]byte, *Error) {
		if w.decoder.PeekKind() != '"' {
			return nil, w.mistyped(where+"["+itoa(n)+"]", "a string")
		}
		value, wrong := w.value()
		return append(to, value...), wrong
	})
}

// maxElements is how many elements a list of the protocol can have: parts of a
// message, URIs of extensions, tasks that are referred to.
const maxElements = 256

func (w *writer) array(where, want string, element func(to []byte, n int) ([]byte, *Error)) ([]byte, *Error) {
	if w.decoder.PeekKind() != '[' {
		return nil, w.mistyped(where, want)
	}
	if _, err := w.decoder.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	to := []byte{'['}
	for n := 0; w.decoder.PeekKind() != ']'; n++ {
		if n == maxElements {
			return nil, invalidRequest(ReasonTooLarge, "%s has more than %d elements", where, maxElements)
		}
		if n > 0 {
			to = append(to, ',')
		}
		var wrong *Error
		if to, wrong = element(to, n); wrong != nil {
			return nil, wrong
		}
	}
	if _, err := w.decoder.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	return append(to, ']'), nil
}

// mistyped is a value of another type than its member has.
func (w *writer) mistyped(where, want string) *Error {
	is := map[jsontext.Kind]string{'n': "null", 't': "boolean", 'f': "boolean", '0': "number", '"': "string", '{': "object", '[': "array"}[w.decoder.PeekKind()]
	if is == "" {
		_, err := w.decoder.ReadToken()
		return syntax(errors.Join(err, errors.New("want a value")))
	}
	return invalidParams(ReasonParams, "%s is of type %s; want %s", called(where), is, want)
}

// Glance looks for the id and the method of a request of JSON-RPC that is refused before
// it is decoded. What it returns is good for an answer and for nothing else: id is nil
// where there is none that could be given back.
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
	if id, wrong := Canonical(raw); wrong == nil {
		return id, method
	}
	return nil, method
}
