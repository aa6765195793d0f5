package powerbox_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// corpora are the files of testdata/corpus, with the member that their first
// column stands for; the column of url is a whole constraint without its type.
var corpora = map[string]string{"path": "root", "cidr": "prefix", "glob": "pattern", "url": ""}

// Links on disk and case-insensitive file systems are the target's business;
// what a string can hide is tried here.
func TestATK38_Corpus(t *testing.T) {
	for file, member := range corpora {
		t.Run("ATK-38 "+file, func(t *testing.T) {
			for _, line := range corpusLines(t, "testdata/corpus/"+file+".txt") {
				c, argument := corpusConstraint(t, file, member, line[0]), powerbox.String(unescape(t, line[1]))
				if got := c.Admits(argument); got != (line[2] == "admitted") {
					t.Errorf("%s on %s: admitted %v; want %s", c.JSON(), argument, got, line[2])
				}
			}
		})
	}
}

func corpusConstraint(t *testing.T, kind, member, s string) powerbox.Constraint {
	t.Helper()
	if member == "" {
		return constraint(`{"constraint_type":"` + kind + `",` + strings.TrimPrefix(s, "{"))
	}
	return must(powerbox.ParseConstraint(powerbox.Object(
		powerbox.Member{Name: "constraint_type", Value: powerbox.String(kind)}, powerbox.Member{Name: member, Value: powerbox.String(unescape(t, s))})))
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return out
}

// Extension constraints are for strings: the same characters in another kind
// of value are refused.
func TestATK38_OnlyStrings(t *testing.T) {
	for _, c := range []powerbox.Constraint{
		powerbox.PathUnder{Root: "/"},
		powerbox.Glob{Pattern: "*"},
		powerbox.CIDR{Prefix: netip.MustParsePrefix("0.0.0.0/0")},
		powerbox.URLMatch{Schemes: []string{"https"}, Hosts: []string{"a.example"}},
	} {
		for _, v := range values(`null, true, 1, ["/"], {"a":"/"}`) {
			if c.Admits(v) {
				t.Errorf("%s admits %s", c.JSON(), v)
			}
		}
	}
}

func TestATK5_ZeroValuesAdmitNothing(t *testing.T) {
	probes := append(values(`true, 0, "", "/", "a", [], {}`), texts("/a", "10.0.0.1", "https://a.example/")...)
	for _, c := range []powerbox.Constraint{
		powerbox.ExactValue{},
		powerbox.OneOf{},
		powerbox.AnyOf{},
		powerbox.PathUnder{},
		powerbox.URLMatch{},
		powerbox.CIDR{},
		powerbox.Glob{},
		powerbox.URLMatch{Hosts: []string{"a.example"}},
		powerbox.URLMatch{Schemes: []string{"https"}},
	} {
		for _, v := range probes {
			if c.Admits(v) {
				t.Errorf("%s admits %s", c.JSON(), v)
			}
		}
	}
	for _, v := range probes {
		if list, ok := v.Elements(); (powerbox.Subset{}).Admits(v) != (ok && len(list) == 0) {
			t.Errorf("a subset of nothing and %s", v)
		}
	}
	for _, s := range []string{
		`{"constraint_type":"one_of"}`, `{"constraint_type":"not_one_of"}`, `{"constraint_type":"contains"}`, `{"constraint_type":"subset"}`,
		`{"constraint_type":"exact"}`, `{"constraint_type":"all"}`, `{"constraint_type":"any"}`,
		`{"constraint_type":"path"}`, `{"constraint_type":"glob"}`, `{"constraint_type":"cidr"}`,
		`{"constraint_type":"url","hosts":["a.example"]}`, `{"constraint_type":"url","schemes":["https"]}`,
	} {
		_, err := powerbox.ParseConstraint(value(s))
		wantError(t, err, "has no ")
	}
}

func TestATK39_Numbers(t *testing.T) {
	c := func(s string) powerbox.Constraint { return constraint(s) }
	most := c(`{"constraint_type":"range","max":9007199254740992}`)
	exact := c(`{"constraint_type":"exact","value":9007199254740993}`)
	positive := c(`{"constraint_type":"range","min":0,"min_inclusive":false}`)
	hundred := c(`{"constraint_type":"exact","value":100}`)
	excluded := c(`{"constraint_type":"not_one_of","excluded":[0.1]}`)
	for _, k := range []struct {
		c     powerbox.Constraint
		value string
		want  bool
	}{
		{most, "9007199254740992", true},
		{most, "9007199254740993", false},
		{most, "9007199254740992.0000000000000001", false},
		{most, "-1e308", true},
		{exact, "9007199254740993", true},
		{exact, "9007199254740992", false},
		{exact, "9007199254740994", false},
		{exact, "9007199254740993.0", true},
		{exact, `"9007199254740993"`, false},
		{positive, "0", false},
		{positive, "5e-324", true},
		{positive, "-5e-324", false},
		{positive, "0.0", false},
		{positive, "0e5", false},
		{hundred, "100", true},
		{hundred, "1E+2", true},
		{hundred, "1e2", true},
		{hundred, "100.00", true},
		{hundred, "1000e-1", true},
		{hundred, "100.000000000000000000001", false},
		{hundred, "true", false},
		{excluded, "0.10", false},
		{excluded, "1e-1", false},
		{excluded, "0.11", true},
	} {
		if got := k.c.Admits(value(k.value)); got != k.want {
			t.Errorf("ATK-39: %s admits %s: %v; want %v", k.c.JSON(), k.value, got, k.want)
		}
	}
}

func TestParseConstraintRefuses(t *testing.T) {
	for _, c := range []struct{ in, text string }{
		{`null`, "constraint is null; want an object"},
		{`[]`, "constraint is an array"},
		{`"a"`, "constraint is a string"},
		{`{}`, "has no constraint_type; want one of exact"},
		{`{"constraint_type":1}`, "has no constraint_type"},
		{`{"constraint_type":"regex","pattern":".*"}`, `constraint_type "regex" is unknown`},
		{`{"constraint_type":"Exact","value":1}`, `constraint_type "Exact" is unknown`},
		{`{"constraint_type":"exact","value":1,"note":"x"}`, `member "note" is unknown`},
		{`{"constraint_type":"exact","value":[1]}`, "value is an array; want a scalar"},
		{`{"constraint_type":"exact","value":{}}`, "value is an object; want a scalar"},
		{`{"constraint_type":"exact","Value":1}`, "has no value"},
		{`{"constraint_type":"one_of","values":1}`, "values is a number; want an array"},
		{`{"constraint_type":"range","min":"1"}`, "min is a string; want a number"},
		{`{"constraint_type":"range","min":1,"max_inclusive":false}`, "has max_inclusive without max; write both or neither"},
		{`{"constraint_type":"range","max":1,"max_inclusive":0}`, "max_inclusive is a number; want true or false"},
		{`{"constraint_type":"all","constraints":{}}`, "constraints is an object; want an array"},
		{`{"constraint_type":"any","constraints":[{"constraint_type":"wildcard"},1]}`, `constraint "any", constraint 2: constraint is a number`},
		{`{"constraint_type":"path","root":""}`, "want a string of 1 to 4096 bytes"},
		{`{"constraint_type":"path","root":"a"}`, `root "a"; want an absolute path`},
		{`{"constraint_type":"path","root":"/a/"}`, "want an absolute path"},
		{`{"constraint_type":"path","root":"/a/../b"}`, "want an absolute path"},
		{`{"constraint_type":"glob","pattern":1}`, "want a string"},
		{`{"constraint_type":"cidr","prefix":"10.0.0.1/8"}`, "without host bits"},
		{`{"constraint_type":"cidr","prefix":"10.0.0.1"}`, "want an address range"},
		{`{"constraint_type":"cidr","prefix":"::ffff:10.0.0.0/104"}`, "want an address range"},
		{`{"constraint_type":"cidr","prefix":"fe80::%eth0/10"}`, "want an address range"},
		{`{"constraint_type":"url","schemes":[],"hosts":["a"]}`, "want an array of at least one string"},
		{`{"constraint_type":"url","schemes":"https","hosts":["a"]}`, "want an array"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":[1]}`, "hosts, element 1; want a string"},
		{`{"constraint_type":"url","schemes":["HTTPS"],"hosts":["a"]}`, `scheme "HTTPS"; want a lower-case name`},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["*"]}`, `host "*"; want`},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["A.example"]}`, "want a lower-case name"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["*.10.0.0.1"]}`, "want a lower-case name"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["*.*.a"]}`, "want a lower-case name"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["a"],"ports":[]}`, "want an array of at least one string"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["a"],"ports":["080"]}`, `port "080"; want a number`},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["a"],"ports":["65536"]}`, "want a number from 0 to 65535"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["a"],"path_prefix":1}`, "path_prefix; want a string"},
		{`{"constraint_type":"url","schemes":["https"],"hosts":["a"],"path_prefix":"v1"}`, `path_prefix "v1"; want an absolute path`},
	} {
		_, err := powerbox.ParseConstraint(value(c.in))
		wantError(t, err, c.text)
	}
}

// quick fails when f takes longer than a hostile input is allowed to: far
// more than it needs, far less than a product of two limits.
func quick(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("takes longer than 5 s; want well under one")
	}
}

func TestATK55_LimitsAtParse(t *testing.T) {
	nested := func(depth int) powerbox.Value {
		v := powerbox.Wildcard{}.JSON()
		for i := range depth - 1 {
			v = powerbox.Object(
				powerbox.Member{Name: "constraint_type", Value: powerbox.String([]string{"all", "any"}[i%2])},
				powerbox.Member{Name: "constraints", Value: powerbox.List(v)})
		}
		return v
	}
	many := func(n int) []powerbox.Value {
		vs := make([]powerbox.Value, n)
		for i := range vs {
			vs[i] = powerbox.Number(powerbox.Int(int64(i)))
		}
		return vs
	}
	clauses := func(n int) powerbox.Value {
		return powerbox.All{Constraints: slices.Repeat([]powerbox.Constraint{powerbox.Wildcard{}}, n)}.JSON()
	}
	long := strings.Repeat("x", powerbox.MaxConstraintBytes)
	hostLists := func(n int) powerbox.Value {
		u := powerbox.URLMatch{Schemes: []string{"https"}, Hosts: slices.Repeat([]string{"a.example"}, n)}
		return powerbox.AnyOf{Constraints: []powerbox.Constraint{u, u}}.JSON()
	}
	for _, c := range []struct {
		name, text string
		in         powerbox.Value
	}{
		{"depth 32", "", nested(32)},
		{"depth 33", "nests deeper than 32", nested(33)},
		{"4096 values", "", powerbox.OneOf{Values: many(4096)}.JSON()},
		{"4097 values", "more than 4096 values", powerbox.OneOf{Values: many(4097)}.JSON()},
		{"4097 values, nested", "more than 4096 values", powerbox.OneOf{Values: []powerbox.Value{powerbox.List(many(4096)...)}}.JSON()},
		{"values in two clauses", "more than 4096 values", powerbox.AnyOf{Constraints: []powerbox.Constraint{
			powerbox.OneOf{Values: many(2049)}, powerbox.NotOneOf{Excluded: many(2049)},
		}}.JSON()},
		{"member names count", "more than 4096 values", powerbox.OneOf{Values: slices.Repeat(values(`{"a":1}`), 1500)}.JSON()},
		{"256 constraints", "", clauses(255)},
		{"257 constraints", "more than 256 constraints", clauses(256)},
		{"long string", "", powerbox.ExactValue{Value: powerbox.String(long)}.JSON()},
		{"longer string", "has 4097 bytes; want at most 4096", powerbox.ExactValue{Value: powerbox.String(long + "x")}.JSON()},
		{"longer string in a list", "has 4097 bytes", powerbox.OneOf{Values: []powerbox.Value{powerbox.List(powerbox.String(long + "x"))}}.JSON()},
		{"longer member name", "has 4097 bytes", powerbox.OneOf{Values: []powerbox.Value{powerbox.Object(powerbox.Member{Name: long + "x"})}}.JSON()},
		{"longer string in a member", "has 4097 bytes", powerbox.OneOf{Values: []powerbox.Value{powerbox.Object(powerbox.Member{Name: "a", Value: powerbox.String(long + "x")})}}.JSON()},
		{"longer glob", "want a string of 1 to 4096 bytes", powerbox.Glob{Pattern: long + "x"}.JSON()},
		{"hosts count", "more than 4096 values", hostLists(2048)},
	} {
		t.Run("ATK-55 "+c.name, func(t *testing.T) {
			quick(t, func() {
				got, err := powerbox.ParseConstraint(c.in)
				if c.text == "" && (err != nil || !got.JSON().Equal(c.in)) {
					t.Errorf("refused: %v", err)
				}
				if c.text != "" {
					wantError(t, err, c.text)
				}
			})
		})
	}
}

func TestATK55_LongArguments(t *testing.T) {
	elements := make([]powerbox.Value, 200_000)
	for i := range elements {
		elements[i] = powerbox.Number(powerbox.Int(int64(i % 4096)))
	}
	set := elements[:4096]
	list := powerbox.List(elements...)
	quick(t, func() {
		if !(powerbox.Subset{Allowed: set}).Admits(list) || (powerbox.Subset{Allowed: set[1:]}).Admits(list) {
			t.Error("ATK-55: subset of a long list is wrong")
		}
	})
	quick(t, func() {
		if !(powerbox.Contains{Required: set}).Admits(list) || (powerbox.Contains{Required: append(values("-1"), set...)}).Admits(list) {
			t.Error("ATK-55: contains in a long list is wrong")
		}
	})
	quick(t, func() {
		evil := strings.Repeat("a", 1<<20)
		if (powerbox.Glob{Pattern: strings.Repeat("a*", 2000) + "b"}).Admits(powerbox.String(evil)) || !(powerbox.Glob{Pattern: strings.Repeat("*a", 2000) + "*"}).Admits(powerbox.String(evil)) {
			t.Error("ATK-55: glob on a long string is wrong")
		}
	})
	quick(t, func() {
		if (powerbox.PathUnder{Root: "/a"}).Admits(powerbox.String(strings.Repeat("/a", 1<<19) + "/")) {
			t.Error("ATK-55: path with a final slash is admitted")
		}
	})
}

// Alternating all and any of depth 32 has more ways down than there are
// nanoseconds in the life of a gateway.
func TestATK55_CoversOfDeepNests(t *testing.T) {
	deep := func(name string) powerbox.Constraint {
		c := powerbox.Constraint(powerbox.Glob{Pattern: name + "*"})
		for i := range powerbox.MaxConstraintDepth - 1 {
			pair := []powerbox.Constraint{c, powerbox.Glob{Pattern: fmt.Sprintf("*%s%d*", name, i)}, powerbox.Glob{Pattern: fmt.Sprintf("%s*%d", name, i)}}
			if c = (powerbox.All{Constraints: pair}); i%2 == 0 {
				c = powerbox.AnyOf{Constraints: pair}
			}
		}
		return c
	}
	quick(t, func() {
		a, b := deep("a"), deep("b")
		if powerbox.ConstraintCovers(a, b) || !powerbox.ConstraintCovers(a, a) {
			t.Error("ATK-55: covers of deep nests is wrong")
		}
		if m := powerbox.MeetConstraints(a, b); !powerbox.ConstraintCovers(a, m) || !powerbox.ConstraintCovers(b, m) {
			t.Error("ATK-55: meet of deep nests is not below both")
		}
	})
}

func TestATK55_CoversOfWideConstraints(t *testing.T) {
	wide := func(offset int) powerbox.Constraint {
		cs := make([]powerbox.Constraint, 0, 254)
		for i := range 127 {
			var vs []powerbox.Value
			for j := range 16 {
				vs = append(vs, powerbox.Number(powerbox.Int(int64(offset+i*16+j))))
			}
			cs = append(cs, powerbox.All{Constraints: []powerbox.Constraint{powerbox.Contains{Required: vs}, powerbox.Subset{Allowed: vs}}})
		}
		return powerbox.AnyOf{Constraints: cs}
	}
	quick(t, func() {
		a, b := wide(0), wide(1)
		if powerbox.ConstraintCovers(a, b) || !powerbox.ConstraintCovers(a, a) {
			t.Error("ATK-55: covers of wide constraints is wrong")
		}
	})
}

func TestConstraintNormalForms(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"lists of a URL have no order", `{"constraint_type":"url","schemes":["https","http"],"hosts":["b","a","b"],"path_prefix":"/"}`, `{"constraint_type":"url","schemes":["http","https"],"hosts":["a","b"]}`},
		{
			"any is flat", `{"constraint_type":"any","constraints":[{"constraint_type":"any","constraints":[{"constraint_type":"glob","pattern":"a*"},{"constraint_type":"exact","value":1}]},{"constraint_type":"one_of","values":[2,1]}]}`,
			`{"constraint_type":"any","constraints":[{"constraint_type":"one_of","values":[1,2]},{"constraint_type":"glob","pattern":"a*"}]}`,
		},
		{
			"all is flat", `{"constraint_type":"all","constraints":[{"constraint_type":"all","constraints":[{"constraint_type":"glob","pattern":"a*"},{"constraint_type":"wildcard"}]},{"constraint_type":"glob","pattern":"*b"}]}`,
			`{"constraint_type":"all","constraints":[{"constraint_type":"glob","pattern":"*b"},{"constraint_type":"glob","pattern":"a*"}]}`,
		},
		{"repeats go", `{"constraint_type":"any","constraints":[{"constraint_type":"glob","pattern":"a*"},{"constraint_type":"glob","pattern":"a*"}]}`, `{"constraint_type":"glob","pattern":"a*"}`},
		{"any of everything", `{"constraint_type":"any","constraints":[{"constraint_type":"glob","pattern":"a*"},{"constraint_type":"not_one_of","excluded":[]}]}`, `{"constraint_type":"wildcard"}`},
		{
			"ranges merge", `{"constraint_type":"all","constraints":[{"constraint_type":"range","min":1},{"constraint_type":"range","max":2,"max_inclusive":false},{"constraint_type":"range","min":1,"min_inclusive":false,"max":3}]}`,
			`{"constraint_type":"range","min":1,"min_inclusive":false,"max":2,"max_inclusive":false}`,
		},
		{"a range of one number", `{"constraint_type":"range","min":2,"max":2.0}`, `{"constraint_type":"exact","value":2}`},
		{"a range of none", `{"constraint_type":"range","min":2,"max":2,"max_inclusive":false}`, `{"constraint_type":"one_of","values":[]}`},
		{"ranges apart", `{"constraint_type":"all","constraints":[{"constraint_type":"range","max":1},{"constraint_type":"range","min":2},{"constraint_type":"range","min":0}]}`, `{"constraint_type":"one_of","values":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := constraint(c.a), constraint(c.b)
			everything := powerbox.Wildcard{}
			if x, y := powerbox.MeetConstraints(a, everything), powerbox.MeetConstraints(everything, b); !x.JSON().Equal(y.JSON()) {
				t.Errorf("%s and %s", x.JSON(), y.JSON())
			}
			if !shape(powerbox.RestAny, optional("x", a)).Equal(shape(powerbox.RestAny, optional("x", b))) {
				t.Error("shapes with the two are not equal")
			}
		})
	}
	loose := powerbox.Range{MinExclusive: true, MaxExclusive: true}
	if m := powerbox.MeetConstraints(loose, loose); !m.JSON().Equal(constraint(`{"constraint_type":"range"}`).JSON()) {
		t.Errorf("an open end has an edge: %s", m.JSON())
	}
}
