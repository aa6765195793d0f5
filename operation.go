package powerbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxOperationBytes is the length of the longest operation name, in bytes.
const MaxOperationBytes = 256

// maxScopeBytes is the length of the longest scope without its wildcard, in
// bytes: an operation below it must still have room for a name.
const maxScopeBytes = MaxOperationBytes - len(".x")

// Operation is the exact name of one thing that can be done. Names are
// compared bytewise: no case folding, no normalisation, no aliases. The zero
// Operation is not valid and is matched by no pattern.
type Operation struct{ name string }

// ParseOperation returns the operation called name. It refuses names that are
// empty, longer than [MaxOperationBytes] or not UTF-8.
func ParseOperation(name string) (Operation, error) {
	switch {
	case name == "":
		return Operation{}, fmt.Errorf("operation name is empty; want 1 to %d bytes", MaxOperationBytes)
	case len(name) > MaxOperationBytes:
		return Operation{}, fmt.Errorf("operation name has %d bytes; want 1 to %d", len(name), MaxOperationBytes)
	case !utf8.ValidString(name):
		return Operation{}, fmt.Errorf("operation name %q is not UTF-8", name)
	}
	return Operation{name}, nil
}

// String returns the name.
func (o Operation) String() string { return o.name }

// IsZero reports whether o is the zero Operation, which names nothing.
func (o Operation) IsZero() bool { return o.name == "" }

// PatternKind says how a pattern matches.
type PatternKind uint8

// The kinds of pattern. Only scope files and the scope codec make the last two.
const (
	// Exact matches the one operation of that name.
	Exact PatternKind = iota + 1
	// Subtree matches the name itself and everything below it, by segment.
	Subtree
	// Below matches everything below the name and not the name itself.
	Below
)

// String returns the kind's name as it stands in the JSON form of an authority.
func (k PatternKind) String() string {
	switch k {
	case Exact:
		return "exact"
	case Subtree:
		return "subtree"
	case Below:
		return "below"
	}
	return "none"
}

// Pattern matches operations. It is comparable; the zero Pattern matches
// nothing.
type Pattern struct {
	kind PatternKind
	name string
}

// ExactPattern returns the pattern that matches op alone.
func ExactPattern(op Operation) Pattern { return Pattern{Exact, op.name} }

// NewPattern returns the pattern of that kind and name. The name of a Subtree
// or Below pattern is a dotted scope (EXT-3).
func NewPattern(kind PatternKind, name string) (Pattern, error) {
	switch kind {
	case Exact:
		op, err := ParseOperation(name)
		if err != nil {
			return Pattern{}, err
		}
		return ExactPattern(op), nil
	case Subtree, Below:
		if err := checkScope(name); err != nil {
			return Pattern{}, err
		}
		return Pattern{kind, name}, nil
	}
	return Pattern{}, fmt.Errorf("pattern kind %d is unknown; want exact, subtree or below", kind)
}

// ParseScope parses a scope of the authorization extension: segments of
// letters, digits, '-' and '_' joined by '.', optionally ending in ".*"
// (EXT-3). A scope s covers itself and everything below; s.* covers everything
// below and not s (EXT-4).
func ParseScope(scope string) (Pattern, error) {
	if parent, ok := strings.CutSuffix(scope, ".*"); ok {
		return NewPattern(Below, parent)
	}
	return NewPattern(Subtree, scope)
}

func checkScope(s string) error {
	if s == "" || len(s) > maxScopeBytes {
		return fmt.Errorf("scope has %d bytes; want 1 to %d", len(s), maxScopeBytes)
	}
	for i, segment := range strings.Split(s, ".") {
		if segment == "" {
			return fmt.Errorf("scope %q: segment %d is empty", s, i+1)
		}
		if j := strings.IndexFunc(segment, func(r rune) bool { return !scopeRune(r) }); j >= 0 {
			return fmt.Errorf("scope %q: %.1q in segment %d; want letters, digits, '-' and '_', joined by '.', with an optional final \".*\"", s, segment[j:], i+1)
		}
	}
	return nil
}

func scopeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// Kind returns how p matches.
func (p Pattern) Kind() PatternKind { return p.kind }

// Name returns the name that p is about, without any wildcard.
func (p Pattern) Name() string { return p.name }

// String returns p for people: the name, with ".*" for Below and ".**" for
// Subtree, so that the three kinds cannot be mistaken for each other.
func (p Pattern) String() string {
	switch p.kind {
	case Exact:
		return p.name
	case Subtree:
		return p.name + ".**"
	case Below:
		return p.name + ".*"
	}
	return "(none)"
}

// Matches reports whether p matches op. It is the only matcher of operation
// names in the product (ATK-2).
func (p Pattern) Matches(op Operation) bool {
	if op.name == "" {
		return false
	}
	switch p.kind {
	case Exact:
		return op.name == p.name
	case Subtree:
		return op.name == p.name || below(op.name, p.name)
	case Below:
		return below(op.name, p.name)
	}
	return false
}

// below reports whether name lies strictly under parent, by segment. What
// lies under it is any operation name: only the prefix is a dotted scope.
func below(name, parent string) bool {
	return len(name) > len(parent)+1 && name[len(parent)] == '.' && name[:len(parent)] == parent
}

// Covers reports whether every operation that q matches is matched by p. It
// is complete: a false answer means that such an operation exists.
func (p Pattern) Covers(q Pattern) bool {
	m, ok := p.Meet(q)
	return ok && m == q
}

// Meet returns the pattern that matches exactly what both match, and false
// where they have no operation in common.
func (p Pattern) Meet(q Pattern) (Pattern, bool) {
	if p.kind == 0 || q.kind == 0 {
		return Pattern{}, false
	}
	if p.kind == Exact {
		return p, q.Matches(Operation{p.name})
	}
	if q.kind == Exact {
		return q, p.Matches(Operation{q.name})
	}
	switch {
	case p.name == q.name:
		return Pattern{max(p.kind, q.kind), p.name}, true
	case below(q.name, p.name):
		return q, true
	case below(p.name, q.name):
		return p, true
	}
	return Pattern{}, false
}
