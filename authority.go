package powerbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Clause is a pattern of operations with the shape that their arguments must
// have.
type Clause struct {
	Pattern Pattern
	Shape   Shape
}

// Authority is one element of the lattice: operations with argument shapes, a
// time window and the number of times it may still be passed on. It is
// immutable. The zero Authority admits nothing.
type Authority struct {
	clauses     []Clause // sorted by pattern, no two of which overlap
	from, until time.Time
	depth       int
}

// Window is a span of time. An authority is good from From, inclusive, until
// Until, exclusive. The zero From is the beginning of time; the zero Until has
// always passed. Both lie in the years 1 to 9999, which RFC 3339 can write.
type Window struct{ From, Until time.Time }

// NewAuthority returns the authority of those clauses. It refuses patterns
// that overlap with different shapes (within one authority at most one shape
// applies to an operation, ATK-3), a negative depth, more than [MaxOperations]
// clauses and times that RFC 3339 cannot write. Clauses that admit no call,
// and those that a wider pattern repeats, are dropped.
func NewAuthority(window Window, depth int, clauses ...Clause) (Authority, error) {
	if depth < 0 {
		return Authority{}, fmt.Errorf("delegation depth is %d; want 0 or more", depth)
	}
	if len(clauses) > MaxOperations {
		return Authority{}, fmt.Errorf("authority has %d operations; want at most %d", len(clauses), MaxOperations)
	}
	// Round strips the monotonic clock, which the object form does not have.
	a := Authority{from: window.From.Round(0).UTC(), until: window.Until.Round(0).UTC(), depth: depth}
	for _, t := range []time.Time{a.from, a.until} {
		if t.Year() < 1 || t.Year() > 9999 {
			return Authority{}, fmt.Errorf("window has a time in year %d; want one from 1 to 9999", t.Year())
		}
	}
	if err := checkOverlaps(clauses); err != nil {
		return Authority{}, err
	}
	a.clauses = tidy(clauses)
	return a, nil
}

// checkOverlaps writes the normal form of a shape out once, however many
// patterns overlap: shapes may be big and overlaps many (ATK-55).
func checkOverlaps(clauses []Clause) error {
	forms := make([]string, len(clauses))
	form := func(i int) string {
		if forms[i] == "" {
			forms[i] = clauses[i].Shape.JSON().String()
		}
		return forms[i]
	}
	for i, c := range clauses {
		if c.Pattern.kind == 0 {
			return fmt.Errorf("clause %d has no pattern", i+1)
		}
		for j, d := range clauses[:i] {
			if m, overlap := c.Pattern.Meet(d.Pattern); overlap && form(i) != form(j) {
				return fmt.Errorf("patterns %s and %s both match %s with different arguments; want one shape for an operation", d.Pattern, c.Pattern, m)
			}
		}
	}
	return nil
}

// tidy sorts clauses, and drops those that admit nothing or that another one
// with a wider pattern repeats.
func tidy(clauses []Clause) []Clause {
	out := make([]Clause, 0, len(clauses))
	for i, c := range clauses {
		repeated := false
		for j, d := range clauses {
			if j != i && d.Pattern.Covers(c.Pattern) && (d.Pattern != c.Pattern || j < i) {
				repeated = true
			}
		}
		if !repeated && !c.Shape.Empty() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Clause) int {
		if c := strings.Compare(a.Pattern.name, b.Pattern.name); c != 0 {
			return c
		}
		return int(a.Pattern.kind) - int(b.Pattern.kind)
	})
	return out
}

// Clauses returns the clauses in order of their patterns; the caller must not
// change them.
func (a Authority) Clauses() []Clause { return a.clauses }

// Window returns when a is good.
func (a Authority) Window() Window { return Window{a.from, a.until} }

// Depth returns how many times a may still be passed on to another holder.
func (a Authority) Depth() int { return a.depth }

// IsEmpty reports whether a has no operation.
func (a Authority) IsEmpty() bool { return len(a.clauses) == 0 }

// Shape returns the shape that applies to op, and false where a does not have
// the operation.
func (a Authority) Shape(op Operation) (Shape, bool) {
	for _, c := range a.clauses {
		if c.Pattern.Matches(op) {
			return c.Shape, true
		}
	}
	return Shape{}, false
}

// Excess is one respect in which an authority goes beyond another. It names
// the operation, the argument and the type of the constraint, never a value.
type Excess struct {
	Code           Code
	Operation      string
	Argument       string
	ConstraintType string
}

// String returns the excess as a sentence without its full stop.
func (e Excess) String() string {
	switch e.Code {
	case CodeNotYetValid:
		return "it would begin earlier"
	case CodeExpired:
		return "it would end later"
	case CodeDepth:
		return "it could be delegated more often"
	case CodeOperation:
		return "operation " + strconv.Quote(e.Operation) + " is not in the wider authority"
	case CodeArgumentMissing:
		return e.where() + " is required (" + e.ConstraintType + ") and would not be"
	case CodeArgumentUnknown:
		return e.where() + " is not permitted"
	case CodeArgumentConstraint:
		return e.where() + " would go beyond its " + e.ConstraintType + " constraint"
	default:
		return string(e.Code)
	}
}

func (e Excess) where() string {
	return "operation " + strconv.Quote(e.Operation) + ": argument " + strconv.Quote(e.Argument)
}

// Covers reports whether every attempt that b admits at any time is admitted
// by a, and b, unless it admits nothing, can be passed on no further than a.
// It is sound, and complete for operations, times and depth, and for arguments
// where [Shape.Covers] is.
func (a Authority) Covers(b Authority) bool { return len(a.Excess(b)) == 0 }

// Excess returns every respect in which b goes beyond a, sorted by operation;
// none where a covers b.
func (a Authority) Excess(b Authority) []Excess {
	if b.IsEmpty() || !b.until.After(b.from) {
		return nil
	}
	var out []Excess
	if b.from.Before(a.from) {
		out = append(out, Excess{Code: CodeNotYetValid})
	}
	if b.until.After(a.until) {
		out = append(out, Excess{Code: CodeExpired})
	}
	if b.depth > a.depth {
		out = append(out, Excess{Code: CodeDepth})
	}
	for _, c := range b.clauses {
		out = append(out, a.excessOf(c)...)
	}
	return out
}

func (a Authority) excessOf(c Clause) []Excess {
	for _, p := range a.clauses {
		if p.Pattern.Covers(c.Pattern) {
			return p.Shape.excess(c.Pattern.String(), c.Shape)
		}
	}
	if c.Pattern.kind == Subtree {
		// A subtree is its root and what lies below: two clauses may share it.
		root := a.excessOf(Clause{Pattern{Exact, c.Pattern.name}, c.Shape})
		return append(root, a.excessOf(Clause{Pattern{Below, c.Pattern.name}, c.Shape})...)
	}
	return []Excess{{Code: CodeOperation, Operation: c.Pattern.String()}}
}

// Meet returns the authority that admits exactly the invocations that both
// admit, at exactly the times, with the smaller depth (GATE-1). An operation
// whose two shapes have no call in common is gone, and with it the admissions
// that require it. The meet of two authorities near the limits of
// [NewAuthority] can be beyond them: then nothing reads it back.
func (a Authority) Meet(b Authority) Authority {
	m := Authority{from: later(a.from, b.from), until: earlier(a.until, b.until), depth: min(a.depth, b.depth)}
	var clauses []Clause
	for _, c := range a.clauses {
		for _, d := range b.clauses {
			pattern, ok := c.Pattern.Meet(d.Pattern)
			if !ok {
				continue
			}
			if shape, ok := c.Shape.Meet(d.Shape); ok {
				clauses = append(clauses, Clause{pattern, shape})
			}
		}
	}
	m.clauses = tidy(clauses)
	return m
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Equal reports whether a and b are the same authority in normal form.
func (a Authority) Equal(b Authority) bool { return a.JSON().Equal(b.JSON()) }

// JSON returns the object form, which [ParseAuthority] reads back. Times are
// RFC 3339 in UTC; a zero time is left out.
func (a Authority) JSON() Value {
	operations := make([]Value, len(a.clauses))
	for i, c := range a.clauses {
		operations[i] = Object(
			Member{"match", String(c.Pattern.kind.String())},
			Member{"name", String(c.Pattern.name)},
			Member{"shape", c.Shape.JSON()},
		)
	}
	ms := []Member{{"operations", List(operations...)}, {"depth", Number(Int(int64(a.depth)))}}
	if !a.from.IsZero() {
		ms = append(ms, Member{"not_before", String(a.from.Format(time.RFC3339Nano))})
	}
	if !a.until.IsZero() {
		ms = append(ms, Member{"expires", String(a.until.Format(time.RFC3339Nano))})
	}
	return Object(ms...)
}

// AppendJSON appends the text of [Authority.JSON] to b, without making the object.
func (a Authority) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"depth":`...), int64(a.depth), 10)
	if !a.until.IsZero() {
		b = append(a.until.AppendFormat(append(b, `,"expires":"`...), time.RFC3339Nano), '"')
	}
	if !a.from.IsZero() {
		b = append(a.from.AppendFormat(append(b, `,"not_before":"`...), time.RFC3339Nano), '"')
	}
	b = append(b, `,"operations":[`...)
	for i, c := range a.clauses {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(append(b, `{"match":`...), c.Pattern.kind.String())
		b = appendQuoted(append(b, `,"name":`...), c.Pattern.name)
		b = append(c.Shape.appendJSON(append(b, `,"shape":`...)), '}')
	}
	return append(b, "]}"...)
}

// ParseAuthority reads the object form.
func ParseAuthority(v Value) (Authority, error) {
	o, err := readObject(reading{kind: "authority"}, v)
	if err != nil {
		return Authority{}, err
	}
	depth, ok := o.takeInt("depth")
	if !ok {
		return Authority{}, o.missing("depth, an integer")
	}
	from, err := o.time("not_before")
	if err != nil {
		return Authority{}, err
	}
	until, err := o.time("expires")
	if err != nil {
		return Authority{}, err
	}
	list, _ := o.take("operations")
	operations, ok := list.Elements()
	if !ok {
		return Authority{}, o.missing("operations, an array")
	}
	if err := o.finish(); err != nil {
		return Authority{}, err
	}
	if len(operations) > MaxOperations {
		return Authority{}, fmt.Errorf("authority has %d operations; want at most %d", len(operations), MaxOperations)
	}
	clauses := make([]Clause, 0, len(operations))
	for i, v := range operations {
		c, err := parseClause(v)
		if err != nil {
			return Authority{}, fmt.Errorf("authority, operation %d: %w", i+1, err)
		}
		clauses = append(clauses, c)
	}
	return NewAuthority(Window{from, until}, depth, clauses...)
}

func parseClause(v Value) (Clause, error) {
	o, err := readObject(reading{kind: "operation"}, v)
	if err != nil {
		return Clause{}, err
	}
	kind, err := o.choice("match", "exact", "subtree", "below")
	if err != nil {
		return Clause{}, err
	}
	name, err := o.text("name")
	if err != nil {
		return Clause{}, err
	}
	pattern, err := NewPattern(PatternKind(kind+1), name)
	if err != nil {
		return Clause{}, err
	}
	s, _ := o.take("shape")
	shape, err := ParseShape(s)
	if err != nil {
		return Clause{}, err
	}
	return Clause{pattern, shape}, o.finish()
}

func (o *objectReader) takeInt(name string) (int, bool) {
	v, _ := o.take(name)
	d, ok := v.Decimal()
	if !ok {
		return 0, false
	}
	n, ok := d.Int64()
	return int(n), ok && int64(int(n)) == n
}

func (o *objectReader) time(name string) (time.Time, error) {
	v, ok := o.take(name)
	if !ok {
		return time.Time{}, nil
	}
	s, _ := v.Text()
	t, err := time.Parse(time.RFC3339Nano, s)
	// Parse also takes ',' before the fraction and hours of one digit. The zero time would be no limit.
	if err != nil || t.IsZero() || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") {
		return time.Time{}, fmt.Errorf("%s: %s is %.64q; want a time such as 2026-01-02T15:04:05Z", o.of, name, s)
	}
	return t, nil
}

// Names returns the patterns of a in order, for people and for records.
func (a Authority) Names() []string {
	names := make([]string, len(a.clauses))
	for i, c := range a.clauses {
		names[i] = c.Pattern.String()
	}
	return names
}
