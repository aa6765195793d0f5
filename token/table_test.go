package token

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func constraint(t testing.TB, text string) powerbox.Constraint {
	t.Helper()
	c, err := powerbox.ParseConstraint(value(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// smallDomain is every value that the constraints of smallConstraints can tell
// apart.
func smallDomain(t testing.TB) []powerbox.Value {
	texts := []string{
		`0`, `1`, `1.5`, `2`, `3`, `"a"`, `"b"`, `"c"`, `null`, `true`, `[]`, `["a"]`, `["b"]`, `["a","b"]`, `["a",1]`, `{}`,
		`"/d"`, `"/d/e"`, `"/d/../e"`, `"/de"`, `"10.0.0.1"`, `"10.1.0.1"`, `"11.0.0.1"`,
		`"https://x.example/"`, `"https://y.example/v"`, `"http://x.example/"`, `"ab"`, `"abc"`,
	}
	out := make([]powerbox.Value, len(texts))
	for i, s := range texts {
		out[i] = value(t, s)
	}
	return out
}

// smallConstraints is every constraint over a small domain: all simple ones,
// and all and any of up to two of a choice of them.
func smallConstraints(t testing.TB) []powerbox.Constraint {
	texts := []string{`{"constraint_type":"wildcard"}`}
	for _, set := range []string{``, `1`, `"a"`, `"a","b"`, `1,"a"`, `1,2`} {
		texts = append(texts,
			`{"constraint_type":"one_of","values":[`+set+`]}`, `{"constraint_type":"not_one_of","excluded":[`+set+`]}`,
			`{"constraint_type":"contains","required":[`+set+`]}`, `{"constraint_type":"subset","allowed":[`+set+`]}`)
	}
	for _, v := range []string{`1`, `2`, `"a"`, `null`, `"/d/e"`, `"10.1.0.1"`, `"https://x.example/"`, `"ab"`} {
		texts = append(texts, exact(v))
	}
	for _, low := range []string{``, `,"min":1`, `,"min":1,"min_inclusive":false`, `,"min":3`} {
		for _, high := range []string{``, `,"max":2`, `,"max":2,"max_inclusive":false`, `,"max":1`} {
			texts = append(texts, `{"constraint_type":"range"`+low+high+`}`)
		}
	}
	for _, e := range []string{
		`"path","root":"/d"`, `"path","root":"/d/e"`, `"cidr","prefix":"10.0.0.0/8"`, `"cidr","prefix":"10.1.0.0/16"`,
		`"glob","pattern":"a*"`, `"glob","pattern":"ab*"`, `"glob","pattern":"*"`,
		`"url","schemes":["https"],"hosts":["*.example"]`, `"url","schemes":["https"],"hosts":["y.example"],"path_prefix":"/v"`,
	} {
		texts = append(texts, `{"constraint_type":`+e+`}`)
	}
	inner := slices.Concat(texts[:7], texts[25:29], texts[len(texts)-9:len(texts)-6])
	for _, kind := range []string{"all", "any"} {
		texts = append(texts, `{"constraint_type":"`+kind+`","constraints":[]}`)
		for i, a := range inner {
			texts = append(texts, `{"constraint_type":"`+kind+`","constraints":[`+a+`]}`)
			for _, b := range inner[i:] {
				texts = append(texts, `{"constraint_type":"`+kind+`","constraints":[`+a+`,`+b+`]}`)
			}
		}
	}
	out := make([]powerbox.Constraint, len(texts))
	for i, s := range texts {
		out[i] = constraint(t, s)
	}
	return out
}

// TestATK41_TableIsSoundAndImpliesCovers looks at every pair over the small
// domain: where the table accepts, no value passes the child and fails the
// parent, and the algebra agrees.
func TestATK41_TableIsSoundAndImpliesCovers(t *testing.T) {
	constraints, domain := smallConstraints(t), smallDomain(t)
	accepted := 0
	for _, parent := range constraints {
		for _, child := range constraints {
			steps := table{steps: maxSteps}
			if !steps.covers(parent, child) {
				continue
			}
			accepted++
			for _, v := range domain {
				if child.Admits(v) && !parent.Admits(v) {
					t.Fatalf("unsound: %s passes %s and fails %s", v, child.JSON(), parent.JSON())
				}
			}
			if !powerbox.ConstraintCovers(parent, child) {
				t.Errorf("the table accepts %s under %s; Covers does not", child.JSON(), parent.JSON())
			}
		}
	}
	t.Logf("%d constraints, %d pairs, %d accepted", len(constraints), len(constraints)*len(constraints), accepted)
	if accepted < len(constraints) {
		t.Errorf("only %d pairs accepted: the test sees nothing", accepted)
	}
}

// TestTableIsTransitive: what a grandchild may do, the parent may.
func TestTableIsTransitive(t *testing.T) {
	constraints := smallConstraints(t)
	related := make([][]int, len(constraints))
	covers := func(i, j int) bool {
		steps := table{steps: maxSteps}
		return steps.covers(constraints[i], constraints[j])
	}
	for i := range constraints {
		for j := range constraints {
			if covers(i, j) {
				related[i] = append(related[i], j)
			}
		}
	}
	for i := range constraints {
		for _, j := range related[i] {
			for _, k := range related[j] {
				if !slices.Contains(related[i], k) {
					t.Fatalf("%s covers %s covers %s, but not the first the last", constraints[i].JSON(), constraints[j].JSON(), constraints[k].JSON())
				}
			}
		}
	}
}

// TestAllWidensNothing takes clauses in every number: an accepted one never admits a
// value that the parent does not, and each parent clause needs one clause that it covers,
// which may serve another one too (draft, section 4.5).
func TestAllWidensNothing(t *testing.T) {
	clauses, domain := smallConstraints(t)[:60], smallDomain(t)
	hits, reused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		parent := rapid.SliceOfN(rapid.SampledFrom(clauses[:6]), 1, 4).Draw(t, "parent")
		child := rapid.SliceOfN(rapid.SampledFrom(slices.Concat(parent, clauses[:20])), 1, 4).Draw(t, "child")
		want := true
		for _, p := range parent {
			found := false
			for _, c := range child {
				found = found || (&table{steps: maxSteps}).covers(p, c)
			}
			want = want && found
		}
		if got := (&table{steps: maxSteps}).all(parent, child); got != want {
			t.Fatalf("got %t, want %t", got, want)
		}
		if !want {
			return
		}
		hits++
		if len(child) < len(parent) {
			reused++
		}
		for _, v := range domain {
			if (powerbox.All{Constraints: child}).Admits(v) && !(powerbox.All{Constraints: parent}).Admits(v) {
				t.Fatalf("%s is admitted by the child alone", v)
			}
		}
	})
	if hits == 0 || reused == 0 {
		t.Errorf("%d accepted, %d with fewer clauses than the parent; want some of both", hits, reused)
	}
}

func TestLargeSetsCompareLikeSmallOnes(t *testing.T) {
	set := func(from, to int) []powerbox.Value {
		var vs []powerbox.Value
		for i := from; i < to; i++ {
			vs = append(vs, powerbox.Number(powerbox.Int(int64(i))))
		}
		return vs
	}
	for _, n := range []int{3, 300} {
		steps := table{steps: maxSteps}
		if !steps.subset(set(0, n), set(0, n+1)) || steps.subset(set(0, n+1), set(0, n)) {
			t.Errorf("sets of %d are compared wrongly", n)
		}
	}
}

// TestATK55_ComparisonHasABudget offers pairs on which a plain comparison would
// take minutes: they are refused as too large, after a bounded number of steps.
func TestATK55_ComparisonHasABudget(t *testing.T) {
	all := func(most, last string) []powerbox.Clause {
		clauses := strings.Repeat(exact(most)+",", 250)
		var arguments []string
		for i := range 6 {
			arguments = append(arguments, fmt.Sprintf(`"v%d":{"constraint_type":"all","constraints":[%s%s]}`, i, clauses, last))
		}
		return tools(t, `{"use":{`+strings.Join(arguments, ",")+`}}`)
	}
	if _, ok := excess(all("1", exact("1")), all("2", exact("1"))); ok {
		t.Error("a comparison beyond the budget was answered")
	}
	// Sets and clauses draw on the same budget.
	for _, steps := range []int{0, 3, 9} {
		spent := table{steps: steps}
		one := powerbox.AnyOf{Constraints: []powerbox.Constraint{powerbox.OneOf{}, powerbox.OneOf{Values: smallDomain(t)}}}
		many := powerbox.All{Constraints: slices.Repeat([]powerbox.Constraint{powerbox.Wildcard{}}, 3)}
		spent.covers(powerbox.All{Constraints: []powerbox.Constraint{one, many}}, powerbox.All{Constraints: []powerbox.Constraint{one, many}})
		if spent.steps >= 0 {
			t.Errorf("%d steps were enough", steps)
		}
	}
	wild := slices.Repeat([]powerbox.Constraint{powerbox.Wildcard{}}, 200)
	if (&table{steps: 10}).all(wild, wild) {
		t.Error("clauses beyond the budget were compared")
	}
	if !(&table{steps: maxSteps}).all(wild, wild) {
		t.Error("an honest comparison was refused")
	}
}

// TestATK41_EveryPairOfTypesHasAVector keeps the vectors complete.
func TestATK41_EveryPairOfTypesHasAVector(t *testing.T) {
	var names []string
	for _, v := range tableVectors() {
		names = append(names, v.name)
	}
	for _, p := range constraintTypes {
		for _, c := range constraintTypes {
			if name := fmt.Sprintf("table-%s-%s", p, c); !slices.Contains(names, name) {
				t.Error("no vector", name)
			}
		}
	}
}
