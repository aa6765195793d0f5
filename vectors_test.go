package powerbox_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

// The vectors are for anyone who writes this algebra in another language: each
// file is an array of cases with what goes in and what must come out.
// go test -run TestVectors -update writes them again.
func TestVectors(t *testing.T) {
	for name, generate := range map[string]func(*testing.T) []powerbox.Value{
		"admits": admitsVectors, "covers": coversVectors, "meet": meetVectors, "scope": scopeVectors, "decide": decideVectors,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "vectors", "algebra", name+".json")
			want := vectorFile(generate(t))
			if *update {
				if err := os.WriteFile(file, want, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), string(want)); diff != "" {
				t.Errorf("%s is not what the code does (-file +code):\n%s", file, diff)
			}
		})
	}
}

// vectorFile writes one case per line, so that a difference can be read.
func vectorFile(cases []powerbox.Value) []byte {
	var b bytes.Buffer
	for i, c := range cases {
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(c.AppendJSON(nil))
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}

func vector(ms ...powerbox.Member) powerbox.Value { return powerbox.Object(ms...) }

func in(name string, v powerbox.Value) powerbox.Member {
	return powerbox.Member{Name: name, Value: v}
}

// vectorConstraints are the leaves of the small domain, one of each extension,
// and nests.
func vectorConstraints() []powerbox.Constraint {
	out := append([]powerbox.Constraint{}, smallLeaves...)
	for _, s := range []string{
		`{"constraint_type":"path","root":"/a"}`, `{"constraint_type":"path","root":"/a/b"}`, `{"constraint_type":"cidr","prefix":"10.0.0.0/8"}`, `{"constraint_type":"cidr","prefix":"10.1.0.0/16"}`,
		`{"constraint_type":"glob","pattern":"/a/*"}`, `{"constraint_type":"glob","pattern":"*a*"}`,
		`{"constraint_type":"url","schemes":["https"],"hosts":["*.example"]}`, `{"constraint_type":"url","schemes":["https"],"hosts":["a.example"],"path_prefix":"/v1"}`,
		`{"constraint_type":"all","constraints":[{"constraint_type":"range","min":1},{"constraint_type":"not_one_of","excluded":[2]}]}`,
		`{"constraint_type":"all","constraints":[{"constraint_type":"contains","required":[1]},{"constraint_type":"subset","allowed":[1,2]}]}`,
		`{"constraint_type":"any","constraints":[{"constraint_type":"range","max":0},{"constraint_type":"exact","value":2},{"constraint_type":"glob","pattern":"a*"}]}`,
	} {
		out = append(out, constraint(s))
	}
	return out
}

func admitsVectors(t *testing.T) (out []powerbox.Value) {
	add := func(c powerbox.Constraint, v powerbox.Value, want bool) {
		out = append(out, vector(in("constraint", c.JSON()), in("value", v), in("admits", powerbox.Bool(want))))
	}
	for _, c := range vectorConstraints() {
		for _, v := range append(values(`9007199254740993, 0.10, 1E+2, "/a", "/a/b", "/ab", "10.1.2.3", "https://a.example/v1"`), smallValues...) {
			add(c, v, c.Admits(v))
		}
	}
	for file, member := range corpora {
		for _, line := range corpusLines(t, "testdata/corpus/"+file+".txt") {
			add(corpusConstraint(t, file, member, line[0]), powerbox.String(unescape(t, line[1])), line[2] == "admitted")
		}
	}
	return sortedVectors(out)
}

func sortedVectors(vs []powerbox.Value) []powerbox.Value {
	slices.SortFunc(vs, powerbox.Value.Compare)
	return vs
}

func coversVectors(*testing.T) (out []powerbox.Value) {
	cs := vectorConstraints()
	for _, parent := range cs {
		for _, child := range cs {
			out = append(out, vector(in("parent", parent.JSON()), in("child", child.JSON()), in("covers", powerbox.Bool(powerbox.ConstraintCovers(parent, child)))))
		}
	}
	return out
}

func meetVectors(*testing.T) (out []powerbox.Value) {
	cs := vectorConstraints()
	for i, a := range cs {
		for _, b := range cs[:i+1] {
			out = append(out, vector(in("a", a.JSON()), in("b", b.JSON()), in("meet", powerbox.MeetConstraints(a, b).JSON())))
		}
	}
	return out
}

func scopeVectors(*testing.T) (out []powerbox.Value) {
	for _, s := range []string{"trade", "trade.*", "trade.execute", "trade.execute.*", "trade-report", "", "*", "trade.", "trade.*.x", "trade..x", "tr\u00e4de"} {
		p, err := powerbox.ParseScope(s)
		if err != nil {
			out = append(out, vector(in("scope", powerbox.String(s)), in("parses", powerbox.Bool(false))))
			continue
		}
		for _, name := range []string{"trade", "trade.execute", "trade.execute.now", "trade-report", "tradex", "Trade", "trade.", "trad"} {
			out = append(out, vector(in("scope", powerbox.String(s)), in("parses", powerbox.Bool(true)), in("operation", powerbox.String(name)), in("matches", powerbox.Bool(p.Matches(op(name))))))
		}
	}
	return out
}

func decideVectors(*testing.T) (out []powerbox.Value) {
	a := must(powerbox.NewAuthority(powerbox.Window{From: at(0), Until: at(60)}, 1,
		powerbox.Clause{Pattern: exactly("documents.read"), Shape: shape(powerbox.RestNone, required("handle", powerbox.OneOf{Values: texts("h-1", "h-2")}), optional("pages", powerbox.Range{Max: bound("200")}))},
		powerbox.Clause{Pattern: scope("reports.*"), Shape: powerbox.AnyArguments()}))
	for _, second := range []int{-1, 0, 59, 60} {
		for _, c := range []struct{ operation, args string }{
			{"documents.read", `{"handle":"h-1"}`},
			{"documents.read", `{"handle":"h-3","pages":201}`},
			{"documents.read", `{"pages":1,"extra":true}`},
			{"reports.q1", `{"anything":[1]}`},
			{"reports", `{}`},
			{"reports-all", `{}`},
		} {
			d := powerbox.Decide(call(c.operation, c.args), a, at(second))
			reasons := make([]powerbox.Value, len(d.Reasons))
			for i, r := range d.Reasons {
				reasons[i] = vector(in("code", powerbox.String(string(r.Code))), in("operation", powerbox.String(r.Operation)), in("argument", powerbox.String(r.Argument)), in("constraint_type", powerbox.String(r.ConstraintType)))
			}
			out = append(out, vector(in("authority", a.JSON()), in("operation", powerbox.String(c.operation)), in("arguments", value(c.args)),
				in("at", powerbox.Number(powerbox.Int(at(second).Unix()))), in("allowed", powerbox.Bool(d.Allowed)), in("reasons", powerbox.List(reasons...))))
		}
	}
	return out
}
