package powerbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

var one = powerbox.ExactValue{Value: powerbox.Number(powerbox.Int(1))}

func TestATK3_OverlapsAreRefused(t *testing.T) {
	strict, permissive := shape(powerbox.RestNone, required("x", one)), powerbox.AnyArguments()
	clause := func(p powerbox.Pattern, s powerbox.Shape) powerbox.Clause {
		return powerbox.Clause{Pattern: p, Shape: s}
	}
	for _, c := range []struct {
		a, b    powerbox.Pattern
		overlap bool
	}{
		{scope("files"), exactly("files.delete"), true},
		{scope("files.*"), scope("files.delete"), true},
		{exactly("files"), exactly("files"), true},
		{scope("files"), scope("files.*"), true},
		{scope("files"), exactly("files"), true},
		{scope("files.*"), exactly("files"), false},
		{scope("files"), exactly("files-delete"), false},
		{exactly("files"), exactly("file"), false},
	} {
		for range 2 {
			c.a, c.b = c.b, c.a
			_, err := powerbox.NewAuthority(always, 0, clause(c.a, permissive), clause(c.b, strict))
			if c.overlap {
				wantError(t, err, "want one shape for an operation")
			} else if err != nil {
				t.Errorf("ATK-3: %s and %s: %v", c.a, c.b, err)
			}
			if _, err := powerbox.NewAuthority(always, 0, clause(c.a, strict), clause(c.b, strict)); err != nil {
				t.Errorf("ATK-3: %s and %s with one shape: %v", c.a, c.b, err)
			}
		}
	}
}

func TestNewAuthorityKeepsWhatIsNeeded(t *testing.T) {
	open := powerbox.AnyArguments()
	never := shape(powerbox.RestAny, required("x", powerbox.OneOf{}))
	a := authority(
		powerbox.Clause{Pattern: exactly("t.a"), Shape: open}, powerbox.Clause{Pattern: scope("t"), Shape: open},
		powerbox.Clause{Pattern: scope("t.*"), Shape: open}, powerbox.Clause{Pattern: scope("t"), Shape: open},
		powerbox.Clause{Pattern: exactly("u"), Shape: never}, powerbox.Clause{Pattern: exactly("a"), Shape: open},
		powerbox.Clause{Pattern: scope("s.*"), Shape: open}, powerbox.Clause{Pattern: exactly("s"), Shape: open},
	)
	if diff := cmp.Diff([]string{"a", "s", "s.*", "t.**"}, a.Names()); diff != "" || len(a.Clauses()) != 4 {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
	if a.IsEmpty() || a.Depth() != 0 || a.Window() != always {
		t.Errorf("authority %s", a.JSON())
	}
}

func TestNewAuthorityRefuses(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 6, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name, text string
		window     powerbox.Window
		depth      int
		clauses    []powerbox.Clause
	}{
		{"negative depth", "delegation depth is -1; want 0 or more", always, -1, nil},
		{"ATK-5 no pattern", "clause 1 has no pattern", always, 0, make([]powerbox.Clause, 1)},
		{"too many", "has 257 operations; want at most 256", always, 0, make([]powerbox.Clause, 257)},
		{"before RFC 3339", "year -1", powerbox.Window{From: year(-1), Until: at(0)}, 0, nil},
		{"after RFC 3339", "year 10000", powerbox.Window{Until: year(10000)}, 0, nil},
	} {
		a, err := powerbox.NewAuthority(c.window, c.depth, c.clauses...)
		wantError(t, err, c.text)
		if !a.Equal(powerbox.Authority{}) {
			t.Errorf("%s gives %s beside the error", c.name, a.JSON())
		}
	}
}

// foreign borrows the methods of a constraint that this package knows.
type foreign struct{ powerbox.Constraint }

func (foreign) Admits(powerbox.Value) bool { return true }

func TestNewShapeRefuses(t *testing.T) {
	many := make([]powerbox.Field, 65)
	for i := range many {
		many[i] = required(fmt.Sprint(i), one)
	}
	for _, c := range []struct {
		text   string
		fields []powerbox.Field
	}{
		{"has 65 arguments; want at most 64", many},
		{`argument "x" occurs twice`, []powerbox.Field{required("x", one), optional("y", one), optional("x", one)}},
		{`argument "x" has no constraint`, []powerbox.Field{{Name: "x"}}},
		{`argument "x" has no constraint`, []powerbox.Field{required("x", foreign{one})}},
		{`argument "x" has no constraint`, []powerbox.Field{required("x", &one)}},
		{`argument "x" has no constraint`, []powerbox.Field{required("x", powerbox.All{Constraints: []powerbox.Constraint{nil}})}},
		{`argument "x" has no constraint`, []powerbox.Field{required("x", powerbox.AnyOf{Constraints: []powerbox.Constraint{one, foreign{one}}})}},
	} {
		_, err := powerbox.NewShape(powerbox.RestAny, c.fields...)
		wantError(t, err, c.text)
	}
	s, err := powerbox.NewShape(powerbox.RestAny, many[:64]...)
	if err != nil || len(s.Fields()) != 64 || s.Rest() != powerbox.RestAny {
		t.Errorf("64 arguments: %v", err)
	}
}

func TestATK5_ZeroAuthorityAndShape(t *testing.T) {
	var zero powerbox.Authority
	some := authority(powerbox.Clause{Pattern: exactly("o"), Shape: powerbox.AnyArguments()})
	for _, now := range []time.Time{{}, at(0), time.Unix(-1<<40, 0)} {
		for _, attempt := range []powerbox.Attempt{call("o", `{}`), powerbox.Admission(op("o")), powerbox.Admission(), {}} {
			if powerbox.Decide(attempt, zero, now).Allowed {
				t.Errorf("ATK-5: the zero authority admits %v", attempt)
			}
		}
	}
	if !zero.IsEmpty() || zero.Covers(some) || !some.Covers(zero) || !some.Meet(zero).IsEmpty() || !zero.Meet(zero).Equal(zero) {
		t.Error("ATK-5: the zero authority is not the bottom of the lattice")
	}
	if forever := must(powerbox.NewAuthority(powerbox.Window{From: at(0)}, 0, some.Clauses()...)); powerbox.Decide(call("o", `{}`), forever, at(1)).Allowed {
		t.Error("ATK-5: an authority without an end admits something")
	}
	if !admits(powerbox.Shape{}, value(`{}`)) || admits(powerbox.Shape{}, value(`{"x":1}`)) {
		t.Error("ATK-5: the zero shape admits other calls than that without arguments")
	}
	for _, attempt := range []powerbox.Attempt{{}, powerbox.Admission(), powerbox.Admission(powerbox.Operation{}), powerbox.Admission(op("o"), powerbox.Operation{})} {
		d := powerbox.Decide(attempt, some, at(0))
		if want := []powerbox.Reason{{Code: powerbox.CodeRequirementUnknown}}; d.Allowed || !cmp.Equal(want, d.Reasons) || len(d.Missing()) != 0 {
			t.Errorf("ATK-5: %v gives %v", attempt, d)
		}
	}
}

// The table of design.md: the result for a field that only one side has.
func TestShapeMeetTable(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{
			"on one side, other rest any: stays", `{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":false}},"rest":"none"}`, `{"fields":{},"rest":"any"}`,
			`{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":false}},"rest":"none"}`,
		},
		{"on one side, other rest none, optional: dropped", `{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":false}},"rest":"any"}`, `{"fields":{},"rest":"none"}`, `{"fields":{},"rest":"none"}`},
		{"on one side, other rest none, required: nothing", `{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":true}},"rest":"any"}`, `{"fields":{},"rest":"none"}`, ``},
		{
			"required if either is", `{"fields":{"x":{"constraint":{"constraint_type":"one_of","values":[1,2]},"required":true}},"rest":"any"}`, `{"fields":{"x":{"constraint":{"constraint_type":"one_of","values":[2,3]},"required":false}},"rest":"any"}`,
			`{"fields":{"x":{"constraint":{"constraint_type":"exact","value":2},"required":true}},"rest":"any"}`,
		},
		{
			"both optional, apart, rest any: must stay away", `{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":false}},"rest":"any"}`, `{"fields":{"x":{"constraint":{"constraint_type":"exact","value":2},"required":false}},"rest":"any"}`,
			`{"fields":{"x":{"constraint":{"constraint_type":"one_of","values":[]},"required":false}},"rest":"any"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := must(powerbox.ParseShape(value(c.a))), must(powerbox.ParseShape(value(c.b)))
			m, ok := a.Meet(b)
			if ok != (c.want != "") || ok && m.JSON().String() != c.want {
				t.Errorf("%s; want %s", m.JSON(), c.want)
			}
		})
	}
	if s := shape(powerbox.RestNone, optional("x", powerbox.OneOf{})); len(s.Fields()) != 0 {
		t.Errorf("an argument that must stay away is kept beside rest none: %s", s.JSON())
	}
}

func TestExcessSaysWhatAndWhere(t *testing.T) {
	wide := must(powerbox.NewAuthority(powerbox.Window{From: at(0), Until: at(10)}, 1,
		powerbox.Clause{Pattern: exactly("attempt.read"), Shape: shape(powerbox.RestNone, required("x", powerbox.OneOf{Values: values(`"secret-1", "secret-2"`)}), optional("y", powerbox.Wildcard{}))},
		powerbox.Clause{Pattern: scope("t.*"), Shape: powerbox.AnyArguments()}, powerbox.Clause{Pattern: exactly("t"), Shape: shape(powerbox.RestAny, required("x", powerbox.Wildcard{}))},
	))
	narrow := must(powerbox.NewAuthority(powerbox.Window{From: at(-1), Until: at(11)}, 2,
		powerbox.Clause{Pattern: exactly("attempt.read"), Shape: shape(powerbox.RestAny, optional("x", powerbox.Wildcard{}), optional("z", one))},
		powerbox.Clause{Pattern: exactly("other"), Shape: powerbox.Shape{}}, powerbox.Clause{Pattern: scope("t"), Shape: powerbox.AnyArguments()},
	))
	want := []string{
		"not_yet_valid: it would begin earlier", "expired: it would end later", "delegation_depth: it could be delegated more often",
		`argument_missing: operation "attempt.read": argument "x" is required (one_of) and would not be`,
		`argument_constraint: operation "attempt.read": argument "x" would go beyond its one_of constraint`,
		`argument_unknown: operation "attempt.read": argument "*" is not permitted`,
		`argument_unknown: operation "attempt.read": argument "z" is not permitted`,
		`operation_not_granted: operation "other" is not in the wider authority`,
		`argument_missing: operation "t": argument "x" is required (wildcard) and would not be`,
	}
	var got []string
	for _, e := range wide.Excess(narrow) {
		got = append(got, string(e.Code)+": "+e.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("excess (-want +got):\n%s", diff)
	}
	if s := (powerbox.Excess{Code: "other"}).String(); s != "other" {
		t.Errorf("an unknown code reads %q", s)
	}
	past := must(powerbox.NewAuthority(powerbox.Window{From: at(5), Until: at(5)}, 9, narrow.Clauses()...))
	if !wide.Covers(past) {
		t.Error("an authority that is never good goes beyond another")
	}
}

func TestParseAuthorityRefuses(t *testing.T) {
	clause := func(members string) string { return `{"depth":0,"operations":[{` + members + `}]}` }
	field := func(members string) string {
		return clause(`"match":"exact","name":"o","shape":{"rest":"any","fields":{"x":` + members + `}}`)
	}
	for _, c := range []struct{ in, text string }{
		{`[]`, "authority is an array; want an object"},
		{`{"operations":[]}`, "authority has no depth, an integer"},
		{`{"operations":[],"depth":"1"}`, "has no depth, an integer"},
		{`{"operations":[],"depth":1.5}`, "has no depth, an integer"},
		{`{"operations":[],"depth":1e30}`, "has no depth, an integer"},
		{`{"operations":[],"depth":-1}`, "delegation depth is -1"},
		{`{"depth":0}`, "authority has no operations, an array"},
		{`{"depth":0,"operations":[],"scope":"*"}`, `member "scope" is unknown`},
		{`{"depth":0,"operations":[],"expires":1}`, "want a time such as"},
		{`{"depth":0,"operations":[],"not_before":"2026-01-02"}`, `not_before is "2026-01-02"; want a time such as`},
		{`{"depth":0,"operations":[],"expires":"2026-01-02T3:04:05Z"}`, "want a time such as"},
		{`{"depth":0,"operations":[],"expires":"2026-01-02T03:04:05,5Z"}`, "want a time such as"},
		{`{"depth":0,"operations":[],"expires":"2026-01-02T03:04:05"}`, "want a time such as"},
		{`{"depth":0,"operations":[],"expires":"2026-02-30T03:04:05Z"}`, "want a time such as"},
		{`{"depth":0,"operations":[],"expires":"0001-01-01T00:00:00Z"}`, "want a time such as"},
		{`{"depth":0,"operations":[1]}`, "authority, operation 1: operation is a number; want an object"},
		{clause(`"name":"o","shape":{}`), "has no match; want one of exact, subtree, below"},
		{clause(`"match":"prefix","name":"o","shape":{}`), `match is "prefix"; want one of exact, subtree, below`},
		{clause(`"match":"exact","shape":{}`), "operation has no name"},
		{clause(`"match":"below","name":"o.*","shape":{}`), "want letters, digits"},
		{clause(`"match":"exact","name":"o"`), "shape is null; want an object"},
		{clause(`"match":"exact","name":"o","shape":{"rest":"any","fields":{}},"extra":1`), `member "extra" is unknown`},
		{clause(`"match":"exact","name":"o","shape":{"fields":{}}`), "shape has no rest; want one of none, any"},
		{clause(`"match":"exact","name":"o","shape":{"rest":"any"}`), "shape has no fields, an object"},
		{clause(`"match":"exact","name":"o","shape":{"rest":"any","fields":{},"extra":1}`), `member "extra" is unknown`},
		{field(`1`), `argument "x" is a number; want an object`},
		{field(`{"required":true}`), `argument "x" has no constraint`},
		{field(`{"constraint":{"constraint_type":"wildcard"}}`), `argument "x" has no required, true or false`},
		{field(`{"constraint":{"constraint_type":"any"},"required":true}`), `argument "x": constraint "any" has no constraints`},
		{field(`{"constraint":{"constraint_type":"wildcard"},"required":true,"default":1}`), `member "default" is unknown`},
	} {
		_, err := powerbox.ParseAuthority(value(c.in))
		wantError(t, err, c.text)
	}
}

func TestATK55_LimitsOfAuthority(t *testing.T) {
	quick(t, func() {
		_, err := powerbox.ParseAuthority(value(`{"depth":0,"operations":[` + strings.Repeat(`0,`, 256) + `0]}`))
		wantError(t, err, "has 257 operations; want at most 256")
	})
	quick(t, func() {
		fields := make([]powerbox.Member, 65)
		for i := range fields {
			fields[i] = powerbox.Member{Name: fmt.Sprint(i)}
		}
		_, err := powerbox.ParseShape(powerbox.Object(powerbox.Member{Name: "rest", Value: powerbox.String("any")}, powerbox.Member{Name: "fields", Value: powerbox.Object(fields...)}))
		wantError(t, err, "has 65 arguments; want at most 64")
	})
	// Patterns that all overlap, each with a big shape.
	big := make([]powerbox.Value, 4000)
	for i := range big {
		big[i] = powerbox.Number(powerbox.Int(int64(i)))
	}
	s := shape(powerbox.RestAny, required("x", powerbox.OneOf{Values: big}))
	clauses := make([]powerbox.Clause, 125)
	for i := range clauses {
		clauses[i] = powerbox.Clause{Pattern: scope("a" + strings.Repeat(".a", i)), Shape: s}
	}
	quick(t, func() {
		if a := authority(clauses...); len(a.Clauses()) != 1 || !a.Meet(a).Equal(a) {
			t.Error("ATK-55: overlapping clauses are not one")
		}
	})
}

// Times keep their nanoseconds and lose zone and monotonic clock.
func TestAuthorityTimes(t *testing.T) {
	w := powerbox.Window{From: time.Unix(1, 5).In(time.FixedZone("east", 3600)), Until: at(0)}
	a := must(powerbox.NewAuthority(w, 3))
	if got := a.JSON().String(); got != `{"depth":3,"expires":"2023-11-14T22:13:20Z","not_before":"1970-01-01T00:00:01.000000005Z","operations":[]}` {
		t.Errorf("authority is written as %s", got)
	}
	if b := must(powerbox.ParseAuthority(a.JSON())); b.Window() != a.Window() {
		t.Errorf("window %v comes back as %v", a.Window(), b.Window())
	}
}
