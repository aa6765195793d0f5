package a2a

import (
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// objectReader reads the members of an object by type. It keeps the first
// error, so that a list of reads needs one check at its end. Null is absent.
type objectReader struct {
	where string
	value powerbox.Value
	err   *Error
}

// openStrict reads an object that has no other members than those known.
func openStrict(where string, v powerbox.Value, known ...string) *objectReader {
	r := open(where, v)
	members, _ := v.Members()
	for _, m := range members {
		if !slices.Contains(known, m.Name) {
			r.fail(ReasonMember, "%s has an unknown member %.64q; known are %s", where, m.Name, list(known))
			break
		}
	}
	return r
}

// open reads an object that may have members of which we know nothing.
func open(where string, v powerbox.Value) *objectReader {
	r := &objectReader{where: where, value: v}
	if v.Kind() != powerbox.KindObject {
		r.fail(ReasonParams, "%s is of type %s; want an object", where, v.Kind())
	}
	return r
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (r *objectReader) fail(reason, format string, args ...any) {
	if r.err == nil {
		r.err = invalidParams(reason, format, args...)
	}
}

func (r *objectReader) at(name string) string { return r.where + "." + name }

// get returns a member that is there and not null.
func (r *objectReader) get(name string) (powerbox.Value, bool) {
	v, ok := r.value.Get(name)
	return v, ok && v.Kind() != powerbox.KindNull
}

func (r *objectReader) text(name string) string {
	v, ok := r.get(name)
	if !ok {
		return ""
	}
	s, ok := v.Text()
	if !ok {
		r.fail(ReasonParams, "%s is of type %s; want a string", r.at(name), v.Kind())
	}
	return s
}

// required is text that must not be empty.
func (r *objectReader) required(name string) string {
	s := r.text(name)
	if s == "" {
		r.fail(ReasonParams, "%s is missing or empty; want a string", r.at(name))
	}
	return s
}

// maxWords bounds a text in a caller's own words that stays on record: it is recorded
// whole or refused, never cut (ATK-4).
const maxWords = 4096

// bounded refuses text that is too long for a record.
func (r *objectReader) bounded(s, name string) string {
	if len(s) > maxWords {
		r.fail(ReasonParams, "%s has %d bytes; want at most %d", r.at(name), len(s), maxWords)
	}
	return s
}

// maxList bounds the length of a list in a call. It is read before the caller is
// authenticated, so a long list must not cost more than a short one (ATK-55).
const maxList = 256

// short reports whether a list is within [maxList], and refuses it otherwise.
func (r *objectReader) short(name string, n int) bool {
	if n > maxList {
		r.fail(ReasonParams, "%s lists %d elements; want at most %d", r.at(name), n, maxList)
	}
	return n <= maxList
}

// texts reads a list of strings, each once and none empty. It is nil when
// absent; an empty array is refused, because a reader might take it for
// everything.
func (r *objectReader) texts(name string) []string {
	if v, ok := r.get(name); ok {
		if elements, _ := v.Elements(); !r.short(name, len(elements)) {
			return nil
		}
	}
	return r.chain(name)
}

// either returns which of two names of one member is there. Both are refused: readers
// would differ in which one counts.
func (r *objectReader) either(name, other string) string {
	_, first := r.value.Get(name)
	_, second := r.value.Get(other)
	switch {
	case first && second:
		r.fail(ReasonParams, "%s and %s are both there; send one of them", r.at(name), r.at(other))
	case second:
		return other
	}
	return name
}

// chain is texts of any length: a chain that is too long is refused by anyone who
// verifies it, before its signatures, and on record. Its cost is linear.
func (r *objectReader) chain(name string) []string {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	elements, ok := v.Elements()
	if !ok || len(elements) == 0 {
		r.fail(ReasonParams, "%s is not an array of at least one string; leave it out or name what is meant", r.at(name))
	}
	out, seen := make([]string, 0, len(elements)), make(map[string]bool, len(elements))
	for _, e := range elements {
		s, _ := e.Text()
		if s == "" || seen[s] {
			r.fail(ReasonParams, "%s holds an element that is empty, no string, or there twice", r.at(name))
			break
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

func (r *objectReader) flag(name string) bool {
	v, ok := r.get(name)
	if !ok {
		return false
	}
	b, ok := v.Truth()
	if !ok {
		r.fail(ReasonParams, "%s is of type %s; want true or false", r.at(name), v.Kind())
	}
	return b
}

func (r *objectReader) time(name string) time.Time {
	s := r.text(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.IsZero() { // the zero time would be no limit
		r.fail(ReasonParams, "%s is not a time of RFC 3339, such as 2026-01-09T13:00:00Z", r.at(name))
	}
	return t.UTC()
}

// object reads a member that is an object, null when absent.
func (r *objectReader) object(name string) powerbox.Value {
	v, ok := r.get(name)
	if ok && v.Kind() != powerbox.KindObject {
		r.fail(ReasonParams, "%s is of type %s; want an object", r.at(name), v.Kind())
	}
	return v
}

// elements reads an array.
func (r *objectReader) elements(name string) []powerbox.Value {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	elements, ok := v.Elements()
	if !ok {
		r.fail(ReasonParams, "%s is of type %s; want an array", r.at(name), v.Kind())
	}
	return elements
}

// join takes over the error of a reader of something nested.
func (r *objectReader) join(err *Error) {
	if r.err == nil {
		r.err = err
	}
}
