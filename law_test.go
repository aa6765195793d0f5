package powerbox_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func TestConstraintLaws(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		a := drawConstraint(t, 2)
		b := drawNear(t, a)
		c := drawNear(t, b)
		meet := powerbox.MeetConstraints
		ab := meet(a, b)
		for _, v := range drawProbes(t, a, b, c) {
			inA, inB := r.note("value admitted by a", a.Admits(v)), b.Admits(v)
			both := r.note("value admitted by both", inA && inB)
			r.note("value admitted by one", inA != inB)
			if ab.Admits(v) != both {
				t.Fatalf("meet of %s and %s is %s: on %s it is wrong", a.JSON(), b.JSON(), ab.JSON(), v)
			}
			checkCovers(t, a, b, v)
			checkCovers(t, b, a, v)
			checkCovers(t, c, b, v)
		}
		r.note("a covers b", powerbox.ConstraintCovers(a, b))
		sameConstraint(t, "commutative", ab, meet(b, a))
		sameConstraint(t, "associative", meet(ab, c), meet(a, meet(b, c)))
		sameConstraint(t, "idempotent", meet(ab, ab), ab)
		sameConstraint(t, "idempotent", meet(a, a), meet(a, powerbox.Wildcard{}))
		holds(t, "reflexive", powerbox.ConstraintCovers(a, a), a, a)
		holds(t, "meet below", powerbox.ConstraintCovers(a, ab) && powerbox.ConstraintCovers(b, ab), a, b)
		if powerbox.ConstraintCovers(a, b) {
			holds(t, "covered is the meet", powerbox.ConstraintCovers(ab, b), ab, b)
			if r.note("chain a covers b covers c", powerbox.ConstraintCovers(b, c)) {
				holds(t, "transitive", powerbox.ConstraintCovers(a, c), a, c)
			}
		}
		r.note("meet is not empty", !isNothing(ab))
		again := must(powerbox.ParseConstraint(a.JSON()))
		sameConstraint(t, "round trip", a, again)
		sameConstraint(t, "normal form", meet(again, again), meet(a, a))
		r.note("nests", strings.Count(a.JSON().String(), `"constraint_type"`) > 1)
	})
	r.atLeast(t, 5)
}

func isNothing(c powerbox.Constraint) bool {
	one, ok := c.(powerbox.OneOf)
	return ok && len(one.Values) == 0
}

func checkCovers(t *rapid.T, parent, child powerbox.Constraint, v powerbox.Value) {
	if child.Admits(v) && !parent.Admits(v) && powerbox.ConstraintCovers(parent, child) {
		t.Fatalf("%s covers %s, but %s is admitted by the latter only", parent.JSON(), child.JSON(), v)
	}
}

func sameConstraint(t *rapid.T, law string, a, b powerbox.Constraint) {
	if !a.JSON().Equal(b.JSON()) {
		t.Fatalf("%s: %s is not %s", law, a.JSON(), b.JSON())
	}
}

func holds(t *rapid.T, law string, ok bool, a, b powerbox.Constraint) {
	if !ok {
		t.Fatalf("%s: %s and %s", law, a.JSON(), b.JSON())
	}
}

func TestShapeLaws(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawShape(t), drawShape(t), drawShape(t)
		ab, ok := a.Meet(b)
		r.note("meet is not empty", ok)
		if rapid.IntRange(0, 2).Draw(t, "narrow") > 0 && ok {
			b = ab
			if m, ok := ab.Meet(c); ok {
				c = m
			}
		}
		for range 8 {
			args := drawCall(t, a, b)
			inA, inB := r.note("call admitted by a", admits(a, args)), admits(b, args)
			both := r.note("call admitted by both", inA && inB)
			if m, ok := a.Meet(b); both != (ok && admits(m, args)) {
				t.Fatalf("meet of %s and %s: on %s it is wrong", a.JSON(), b.JSON(), args)
			}
			if a.Covers(b) && inB && !inA {
				t.Fatalf("%s covers %s, but %s is admitted by the latter only", a.JSON(), b.JSON(), args)
			}
		}
		r.note("a covers b", a.Covers(b))
		checkShapeMeets(t, a, b, c)
		if !a.Covers(a) {
			t.Fatalf("%s does not cover itself", a.JSON())
		}
		if r.note("chain a covers b covers c", a.Covers(b) && b.Covers(c)) && !a.Covers(c) {
			t.Fatalf("%s covers %s covers %s, but not transitively", a.JSON(), b.JSON(), c.JSON())
		}
		if again := must(powerbox.ParseShape(a.JSON())); !again.Equal(a) {
			t.Fatalf("%s comes back as %s", a.JSON(), again.JSON())
		}
	})
	r.atLeast(t, 5)
}

// checkShapeMeets compares meets structurally; a meet that is empty in its
// form is empty whichever way it is reached, or admits nothing.
func checkShapeMeets(t *rapid.T, a, b, c powerbox.Shape) {
	ab, ok := a.Meet(b)
	ba, ok2 := b.Meet(a)
	if ok != ok2 || ok && !ab.Equal(ba) {
		t.Fatalf("%s meet %s is %s, the other way %s", a.JSON(), b.JSON(), ab.JSON(), ba.JSON())
	}
	if aa, ok := a.Meet(a); ok == a.Empty() || ok && !aa.Equal(a) {
		t.Fatalf("%s meet itself is %s", a.JSON(), aa.JSON())
	}
	if !ok {
		if bc, ok := b.Meet(c); ok {
			if abc, ok := a.Meet(bc); ok {
				t.Fatalf("%s meets %s in nothing, but %s is left with %s", a.JSON(), b.JSON(), abc.JSON(), c.JSON())
			}
		}
		return
	}
	if !a.Covers(ab) || !b.Covers(ab) {
		t.Fatalf("%s is the meet of %s and %s, which do not both cover it", ab.JSON(), a.JSON(), b.JSON())
	}
	if a.Covers(b) && !ab.Covers(b) {
		t.Fatalf("%s covers %s, but their meet %s is less", a.JSON(), b.JSON(), ab.JSON())
	}
	left, okLeft := ab.Meet(c)
	var right powerbox.Shape
	bc, okRight := b.Meet(c)
	if okRight {
		right, okRight = a.Meet(bc)
	}
	if okLeft != okRight || okLeft && !left.Equal(right) {
		t.Fatalf("not associative on %s, %s, %s", a.JSON(), b.JSON(), c.JSON())
	}
}

func TestAuthorityLaws(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawAuthority(t), drawAuthority(t), drawAuthority(t)
		switch rapid.IntRange(0, 3).Draw(t, "narrow") {
		case 0:
			b = a.Meet(b)
		case 1:
			b, c = a.Meet(b), a.Meet(b).Meet(c)
		}
		ab := a.Meet(b)
		for range 8 {
			attempt := drawAttempt(t, a, b)
			for second := range 5 {
				inA, inB := powerbox.Decide(attempt, a, at(second)), powerbox.Decide(attempt, b, at(second))
				r.note("attempt admitted by a", inA.Allowed)
				both := r.note("attempt admitted by both", inA.Allowed && inB.Allowed)
				// An admission is refused where the meet leaves its operation no call.
				inMeet := powerbox.Decide(attempt, ab, at(second)).Allowed
				if inMeet != both && (inMeet || !attempt.IsAdmission()) {
					t.Fatalf("meet of %s and %s: on %v it is wrong", a.JSON(), b.JSON(), attempt)
				}
				if a.Covers(b) && inB.Allowed && !inA.Allowed {
					t.Fatalf("%s covers %s, but %v is admitted by the latter only", a.JSON(), b.JSON(), attempt)
				}
			}
		}
		r.note("meet is not empty", !ab.IsEmpty())
		r.note("a covers b", a.Covers(b))
		checkAuthorityLaws(t, &r, a, b, c)
	})
	r.atLeast(t, 5)
}

func checkAuthorityLaws(t *rapid.T, r *rates, a, b, c powerbox.Authority) {
	ab := a.Meet(b)
	for law, ok := range map[string]bool{
		"commutative":         ab.Equal(b.Meet(a)),
		"associative":         ab.Meet(c).Equal(a.Meet(b.Meet(c))),
		"idempotent":          a.Meet(a).Equal(a),
		"reflexive":           a.Covers(a),
		"meet below":          a.Covers(ab) && b.Covers(ab),
		"covered is the meet": !a.Covers(b) || ab.Covers(b) && b.Covers(ab),
		"transitive":          !a.Covers(b) || !b.Covers(c) || a.Covers(c),
		"round trip":          must(powerbox.ParseAuthority(a.JSON())).Equal(a),
		"excess says why":     a.Covers(b) == (len(a.Excess(b)) == 0),
		"one shape each":      oneShapeEach(ab),
		"nothing is covered":  a.Covers(powerbox.Authority{}),
	} {
		if !ok {
			t.Fatalf("%s: a = %s, b = %s, c = %s", law, a.JSON(), b.JSON(), c.JSON())
		}
	}
	r.note("chain a covers b covers c", a.Covers(b) && b.Covers(c))
}

// oneShapeEach reports whether at most one clause applies to any operation.
func oneShapeEach(a powerbox.Authority) bool {
	for _, name := range operationNames {
		n := 0
		for _, c := range a.Clauses() {
			if c.Pattern.Matches(op(name)) {
				n++
			}
		}
		if n > 1 {
			return false
		}
	}
	return true
}

func TestPatternLaws(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		p, q, s := drawPattern(t), drawPattern(t), drawPattern(t)
		if rapid.IntRange(0, 2).Draw(t, "near") == 0 {
			s = must(powerbox.NewPattern(s.Kind(), q.Name()))
		}
		m, ok := p.Meet(q)
		r.note("patterns overlap", ok)
		n, ok2 := q.Meet(p)
		if ok != ok2 || ok && m != n {
			t.Fatalf("%s meet %s is %s, the other way %s", p, q, m, n)
		}
		for _, name := range operationNames {
			if both := p.Matches(op(name)) && q.Matches(op(name)); both != (ok && m.Matches(op(name))) {
				t.Fatalf("%s meet %s is %s: on %s it is wrong", p, q, m, name)
			}
		}
		if !p.Covers(p) || p.Covers(q) && q.Covers(s) && !p.Covers(s) {
			t.Fatalf("%s, %s, %s: not reflexive or not transitive", p, q, s)
		}
		r.note("pattern covers", p.Covers(q))
		r.note("three overlap", overlap3(p, q, s))
		if overlap3(p, q, s) != overlap3(q, s, p) {
			t.Fatalf("%s, %s, %s: not associative", p, q, s)
		}
	})
	r.atLeast(t, 5)
}

func overlap3(p, q, s powerbox.Pattern) bool {
	m, ok := p.Meet(q)
	if !ok {
		return false
	}
	_, ok = m.Meet(s)
	return ok
}

// The text of an authority is that of its object form.
func TestAuthorityIsWrittenAsItsObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthority(t).Meet(drawAuthority(t))
		if got, want := string(a.AppendJSON(nil)), a.JSON().String(); got != want {
			t.Fatalf("%s; want %s", got, want)
		}
	})
}
