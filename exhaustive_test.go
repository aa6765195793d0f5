package powerbox_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// The small domain: every value that the small constraints can tell apart,
// with one that none of them names for each kind.
var (
	smallValues = values(`null, true, 0, 1, 1.5, 2, 3, "a", "b", "z",
		[], [1], [2], [3], [1,2], [2,1], [1,3], [2,3], [1,2,3], ["a"], {}, {"a":1}`)

	smallLeaves = func() (out []powerbox.Constraint) {
		for _, s := range []string{
			`{"constraint_type":"wildcard"}`,
			`{"constraint_type":"exact","value":null}`, `{"constraint_type":"exact","value":1}`, `{"constraint_type":"exact","value":"a"}`,
			`{"constraint_type":"one_of","values":[]}`, `{"constraint_type":"one_of","values":[1,2]}`, `{"constraint_type":"one_of","values":[1,"a",[1]]}`,
			`{"constraint_type":"not_one_of","excluded":[]}`, `{"constraint_type":"not_one_of","excluded":[1]}`, `{"constraint_type":"not_one_of","excluded":["a",[],2]}`,
			`{"constraint_type":"contains","required":[]}`, `{"constraint_type":"contains","required":[1]}`, `{"constraint_type":"contains","required":[2]}`, `{"constraint_type":"contains","required":[1,2]}`,
			`{"constraint_type":"subset","allowed":[]}`, `{"constraint_type":"subset","allowed":[1]}`, `{"constraint_type":"subset","allowed":[2]}`, `{"constraint_type":"subset","allowed":[1,2]}`,
			`{"constraint_type":"range","min":1}`, `{"constraint_type":"range","max":2,"max_inclusive":false}`, `{"constraint_type":"range","min":1,"max":2}`,
			`{"constraint_type":"range","min":1,"max":2,"min_inclusive":false}`, `{"constraint_type":"range","min":2,"max":2}`, `{"constraint_type":"range"}`,
		} {
			out = append(out, constraint(s))
		}
		return out
	}()
)

// smallConstraints are the leaves and every all and any of two of them.
func smallConstraints() []powerbox.Constraint {
	out := append([]powerbox.Constraint{}, smallLeaves...)
	for i, a := range smallLeaves {
		for _, b := range smallLeaves[:i] {
			out = append(out, powerbox.All{Constraints: []powerbox.Constraint{a, b}}, powerbox.AnyOf{Constraints: []powerbox.Constraint{a, b}})
		}
	}
	return out
}

// truth is the set of values of the domain that c admits, one bit each.
func truth(c powerbox.Constraint, domain []powerbox.Value) (bits uint64) {
	for i, v := range domain {
		if c.Admits(v) {
			bits |= 1 << i
		}
	}
	return bits
}

func truths(cs []powerbox.Constraint, domain []powerbox.Value) []uint64 {
	out := make([]uint64, len(cs))
	for i, c := range cs {
		out[i] = truth(c, domain)
	}
	return out
}

func TestATK41_NoPairOfSmallConstraintsIsUnsound(t *testing.T) {
	cs := smallConstraints()
	truth := truths(cs, smallValues)
	covered, missed := 0, 0
	for i, parent := range cs {
		for j, child := range cs {
			covers := powerbox.ConstraintCovers(parent, child)
			if covers && truth[j]&^truth[i] != 0 {
				t.Fatalf("%s covers %s, which admits more", parent.JSON(), child.JSON())
			}
			switch {
			case covers:
				covered++
			case truth[j]&^truth[i] == 0:
				missed++
			}
		}
	}
	t.Logf("%d constraints, %d pairs: %d covered, %d that hold in the domain are not", len(cs), len(cs)*len(cs), covered, missed)
	if covered < 20_000 {
		t.Errorf("%d pairs are covered; the search has gone blind", covered)
	}
}

func TestATK41_MeetOfSmallConstraintsIsExact(t *testing.T) {
	cs := smallConstraints()
	known := truths(cs, smallValues)
	for i, a := range cs {
		for j, b := range cs[:i+1] { // commutative by TestConstraintLaws
			m := powerbox.MeetConstraints(a, b)
			if truth(m, smallValues) != known[i]&known[j] {
				t.Fatalf("%s meets %s in %s", a.JSON(), b.JSON(), m.JSON())
			}
		}
	}
}

func TestATK41_NamedPairs(t *testing.T) {
	for _, c := range []struct{ name, parent, child string }{
		{"one_of never covers not_one_of", `{"constraint_type":"one_of","values":[1,2]}`, `{"constraint_type":"not_one_of","excluded":[3]}`},
		{"not_one_of does not cover what it excludes", `{"constraint_type":"not_one_of","excluded":[1]}`, `{"constraint_type":"one_of","values":[1,2]}`},
		{"a longer exclusion is not covered by a different one", `{"constraint_type":"not_one_of","excluded":[1]}`, `{"constraint_type":"not_one_of","excluded":[2,3]}`},
		{"any beside a narrow clause widens", `{"constraint_type":"one_of","values":[1]}`, `{"constraint_type":"any","constraints":[{"constraint_type":"exact","value":1},{"constraint_type":"wildcard"}]}`},
		{"contains of fewer", `{"constraint_type":"contains","required":[1,2]}`, `{"constraint_type":"contains","required":[1]}`},
		{"empty all is everything", `{"constraint_type":"range","min":0}`, `{"constraint_type":"all","constraints":[]}`},
		{"glob with a wider prefix", `{"constraint_type":"glob","pattern":"/data/*"}`, `{"constraint_type":"glob","pattern":"/da*"}`},
	} {
		t.Run("ATK-41 "+c.name, func(t *testing.T) {
			if powerbox.ConstraintCovers(constraint(c.parent), constraint(c.child)) {
				t.Errorf("%s covers %s", c.parent, c.child)
			}
		})
	}
}

// The classes of ConstraintCovers' documentation, each over a domain rich
// enough that a difference anywhere is a difference in it.
func TestConstraintCoversIsCompleteWhereItSays(t *testing.T) {
	everything := smallConstraints()
	pick := func(types string) (out []powerbox.Constraint) {
		for _, c := range smallLeaves {
			if strings.Contains(types, c.Type()) {
				out = append(out, c)
			}
		}
		return out
	}
	finite := append(pick("exact one_of"), constraint(`{"constraint_type":"range","min":2,"max":2}`))
	finite = finite[:len(finite):len(finite)]
	for i := range finite {
		for _, c := range smallLeaves {
			finite = append(finite, powerbox.All{Constraints: []powerbox.Constraint{c, finite[i]}})
		}
		finite = append(finite, powerbox.AnyOf{Constraints: finite[:i]})
	}
	excluding := append(pick("wildcard"), powerbox.NotOneOf{}, powerbox.NotOneOf{Excluded: values("1")}, powerbox.NotOneOf{Excluded: values(`2, "a", []`)})
	excluding = append(excluding, powerbox.All{Constraints: excluding[1:]})
	rangesAndSet := append(pick("range"), powerbox.All{Constraints: []powerbox.Constraint{constraint(`{"constraint_type":"range","min":1}`), powerbox.NotOneOf{Excluded: values("2")}}})
	unions := []powerbox.Constraint{powerbox.AnyOf{}}
	for _, a := range pick("range") {
		for _, b := range pick("range exact") {
			unions = append(unions, powerbox.AnyOf{Constraints: []powerbox.Constraint{a, b}})
		}
	}
	for _, class := range []struct {
		name            string
		parents, childs []powerbox.Constraint
		domain          []powerbox.Value
	}{
		{"child is finite", everything, finite, smallValues},
		{"parent is wildcard, not_one_of or all of them", excluding, everything, smallValues},
		{"both are range", pick("range"), pick("range"), smallValues},
		{"parent is all of range and not_one_of, child is range", rangesAndSet, pick("range"), smallValues},
		{"both are contains", pick("contains"), pick("contains"), smallValues},
		{"both are subset", pick("subset"), pick("subset"), smallValues},
		{"both are path", smallPaths, smallPaths, texts("/", "/z", "/a", "/a/z", "/a/b", "/a/b/z", "/ab", "/b", "/b/z")},
		{"both are cidr", smallCIDRs, smallCIDRs, texts("0.0.0.1", "9.0.0.1", "10.0.0.0", "10.1.0.0", "10.1.2.3", "10.1.2.4", "::", "::1", "fd00::1", "fd00:1::1")},
		{"child is any of ranges and values", pick("range"), unions, smallValues},
	} {
		t.Run(class.name, func(t *testing.T) { complete(t, class.parents, class.childs, class.domain) })
	}
}

var smallPaths = []powerbox.Constraint{
	powerbox.PathUnder{Root: "/"}, powerbox.PathUnder{Root: "/a"}, powerbox.PathUnder{Root: "/a/b"}, powerbox.PathUnder{Root: "/ab"}, powerbox.PathUnder{Root: "/b"},
}

var smallCIDRs = func() (out []powerbox.Constraint) {
	for _, p := range []string{"0.0.0.0/0", "0.0.0.0/8", "10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "10.1.2.3/32", "::/0", "fd00::/8", "fd00:1::/32"} {
		out = append(out, powerbox.CIDR{Prefix: netip.MustParsePrefix(p)})
	}
	return out
}()

func complete(t *testing.T, parents, childs []powerbox.Constraint, domain []powerbox.Value) {
	yes, no := 0, 0
	inParent, inChild := truths(parents, domain), truths(childs, domain)
	for i, parent := range parents {
		for j, child := range childs {
			holds := inChild[j]&^inParent[i] == 0
			if got := powerbox.ConstraintCovers(parent, child); got != holds {
				t.Fatalf("%s covers %s: %v; want %v", parent.JSON(), child.JSON(), got, holds)
			}
			if holds {
				yes++
			} else {
				no++
			}
		}
	}
	t.Logf("%d pairs hold, %d do not", yes, no)
	if yes < 5 || no < 5 {
		t.Errorf("%d pairs hold and %d do not; want at least 5 of each", yes, no)
	}
}

// smallShapes are all shapes over two arguments, with each of five
// constraints, required or optional, and both kinds of rest.
func smallShapes() []powerbox.Shape {
	var options []func(name string) []powerbox.Field
	options = append(options, func(string) []powerbox.Field { return nil })
	for _, c := range []powerbox.Constraint{
		powerbox.ExactValue{Value: value("1")},
		powerbox.OneOf{Values: values("1, 2")},
		powerbox.NotOneOf{Excluded: values("1")},
		powerbox.Wildcard{},
		powerbox.OneOf{},
	} {
		for _, must := range []bool{true, false} {
			options = append(options, func(name string) []powerbox.Field {
				return []powerbox.Field{{Name: name, Constraint: c, Required: must}}
			})
		}
	}
	var out []powerbox.Shape
	for _, x := range options {
		for _, y := range options {
			for _, rest := range []powerbox.Rest{powerbox.RestNone, powerbox.RestAny} {
				out = append(out, shape(rest, append(x("x"), y("y")...)...))
			}
		}
	}
	return out
}

// smallCalls are the calls with x and y absent, 1, 2 or 3, and z absent or 1.
func smallCalls() (out []powerbox.Attempt) {
	choices := []string{"", "1", "2", "3"}
	for _, x := range choices {
		for _, y := range choices {
			for _, z := range choices[:2] {
				var ms []powerbox.Member
				for name, s := range map[string]string{"x": x, "y": y, "z": z} {
					if s != "" {
						ms = append(ms, powerbox.Member{Name: name, Value: value(s)})
					}
				}
				out = append(out, must(powerbox.Invocation(op("o"), powerbox.Object(ms...))))
			}
		}
	}
	return out
}

func TestSmallShapesExhaustively(t *testing.T) {
	shapes, calls := smallShapes(), smallCalls()
	truth := func(s powerbox.Shape) (bits uint64) {
		a := authority(powerbox.Clause{Pattern: exactly("o"), Shape: s})
		for i, c := range calls {
			if powerbox.Decide(c, a, at(0)).Allowed {
				bits |= 1 << i
			}
		}
		return bits
	}
	known := make([]uint64, len(shapes))
	for i, s := range shapes {
		if known[i] = truth(s); s.Empty() != (known[i] == 0) {
			t.Fatalf("%s is empty: %v", s.JSON(), s.Empty())
		}
	}
	for i, s := range shapes {
		for j, u := range shapes {
			if covers := s.Covers(u); covers != (known[j]&^known[i] == 0) {
				t.Fatalf("%s covers %s: %v; want the opposite", s.JSON(), u.JSON(), covers)
			}
			m, ok := s.Meet(u)
			if both := known[i] & known[j]; ok != (both != 0) || ok && truth(m) != both {
				t.Fatalf("%s meets %s in %s", s.JSON(), u.JSON(), m.JSON())
			}
		}
	}
}

func TestATK2_PatternsOverThreeSegmentsExhaustively(t *testing.T) {
	names := []string{""}
	var scopes, operations []string
	for depth := range 4 {
		var next []string
		for _, name := range names {
			for _, segment := range []string{"a", "b", "a-b"} {
				next = append(next, strings.TrimPrefix(name+"."+segment, "."))
			}
		}
		names = next
		operations = append(operations, names...)
		if depth < 3 {
			scopes = append(scopes, names...)
		}
	}
	operations = append(operations, "a.", "a..b", ".a", "A", "a/b", "a.b ", "a.*")
	var patterns []powerbox.Pattern
	for _, s := range scopes {
		for kind := powerbox.Exact; kind <= powerbox.Below; kind++ {
			patterns = append(patterns, must(powerbox.NewPattern(kind, s)))
		}
	}
	matched := make([][]bool, len(patterns))
	for i, p := range patterns {
		for _, name := range operations {
			matched[i] = append(matched[i], p.Matches(op(name)))
		}
	}
	for i, p := range patterns {
		for j, q := range patterns {
			comparePatterns(t, p, q, matched[i], matched[j], operations)
		}
	}
}

func comparePatterns(t *testing.T, p, q powerbox.Pattern, inP, inQ []bool, operations []string) {
	t.Helper()
	m, ok := p.Meet(q)
	covers, overlap := true, false
	for k, name := range operations {
		both := inP[k] && inQ[k]
		overlap = overlap || both
		covers = covers && (inP[k] || !inQ[k])
		if ok && m.Matches(op(name)) != both {
			t.Fatalf("%s meets %s in %s, which is wrong on %s", p, q, m, name)
		}
	}
	if ok != overlap || p.Covers(q) != covers {
		t.Fatalf("%s and %s: meet %v, covers %v; want %v, %v", p, q, ok, p.Covers(q), overlap, covers)
	}
}

// words are all strings over an alphabet up to a length.
func words(alphabet string, length int) []string {
	out := []string{""}
	for i := 0; i < len(out); i++ {
		if len(out[i]) < length {
			for _, r := range alphabet {
				out = append(out, out[i]+string(r))
			}
		}
	}
	return out
}

func TestSmallGlobsExhaustively(t *testing.T) {
	patterns, subjects := words("ab*", 4)[1:], words("ab", 7)
	matched := make([][]uint64, len(patterns))
	for i, p := range patterns {
		matched[i] = make([]uint64, len(subjects)/64+1)
		for k, s := range subjects {
			got := powerbox.Glob{Pattern: p}.Admits(powerbox.String(s))
			if got != slowGlob(p, s) {
				t.Fatalf("glob %s admits %s: %v", p, s, got)
			}
			if got {
				matched[i][k/64] |= 1 << (k % 64)
			}
		}
	}
	covered := 0
	for i, p := range patterns {
		for j, c := range patterns {
			if !powerbox.ConstraintCovers(powerbox.Glob{Pattern: p}, powerbox.Glob{Pattern: c}) {
				continue
			}
			covered++
			for k := range matched[i] {
				if matched[j][k]&^matched[i][k] != 0 {
					t.Fatalf("glob %s covers %s, which admits more", p, c)
				}
			}
		}
	}
	if covered < len(patterns)*2 {
		t.Errorf("%d pairs are covered; the search has gone blind", covered)
	}
}

// slowGlob is the definition.
func slowGlob(p, s string) bool {
	switch {
	case p == "":
		return s == ""
	case p[0] == '*':
		return slowGlob(p[1:], s) || s != "" && slowGlob(p, s[1:])
	default:
		return s != "" && p[0] == s[0] && slowGlob(p[1:], s[1:])
	}
}

func TestSmallURLsExhaustively(t *testing.T) {
	var cs []powerbox.Constraint
	for _, schemes := range [][]string{{"https"}, {"http", "https"}} {
		for _, hosts := range [][]string{{"x.example"}, {"*.x.example"}, {"*.example"}, {"x.example", "a.x.example"}, {"*.x.example", "x.example"}, {"::1"}} {
			for _, ports := range [][]string{nil, {"1"}, {"1", "2"}} {
				for _, prefix := range []string{"", "/", "/v", "/v/w"} {
					cs = append(cs, powerbox.URLMatch{Schemes: schemes, Hosts: hosts, Ports: ports, Prefix: prefix})
				}
			}
		}
	}
	var domain []powerbox.Value
	for _, scheme := range []string{"https", "http"} {
		for _, host := range []string{"x.example", "a.x.example", "z.a.x.example", "y.example", "[::1]"} {
			for _, port := range []string{"", ":1", ":2"} {
				for _, path := range []string{"", "/v", "/v/w", "/v/z", "/vw"} {
					domain = append(domain, powerbox.String(scheme+"://"+host+port+path))
				}
			}
		}
	}
	for len(domain) > 0 {
		n := min(len(domain), 64)
		soundOn(t, cs, domain[:n])
		domain = domain[n:]
	}
	parent := powerbox.URLMatch{Schemes: []string{"https", "http"}, Hosts: []string{"*.example", "::1"}, Ports: []string{"2", "1"}, Prefix: "/v"}
	child := powerbox.URLMatch{Schemes: []string{"http"}, Hosts: []string{"*.x.example", "a.example"}, Ports: []string{"1"}, Prefix: "/v/w"}
	if !powerbox.ConstraintCovers(parent, child) || powerbox.ConstraintCovers(child, parent) {
		t.Error("a narrower URL constraint is not covered, or a wider one is")
	}
}

func soundOn(t *testing.T, cs []powerbox.Constraint, domain []powerbox.Value) {
	t.Helper()
	known := truths(cs, domain)
	for i, parent := range cs {
		for j, child := range cs {
			if known[j]&^known[i] != 0 && powerbox.ConstraintCovers(parent, child) {
				t.Fatalf("%s covers %s, which admits more", parent.JSON(), child.JSON())
			}
		}
	}
}
