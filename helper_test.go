package powerbox_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

var update = flag.Bool("update", false, "write testdata/vectors/algebra again")

func TestMain(m *testing.M) {
	// A thousand cases unless told otherwise, and no files beside the sources.
	for name, v := range map[string]string{"rapid.checks": "1000", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, v); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// rates counts how often the interesting cases of a property occur, so that a
// property that holds because nothing happens is seen.
type rates struct {
	names []string
	total map[string]int
	hits  map[string]int
}

func (r *rates) note(name string, hit bool) bool {
	if r.total == nil {
		r.total, r.hits = map[string]int{}, map[string]int{}
	}
	if r.total[name] == 0 {
		r.names = append(r.names, name)
	}
	r.total[name]++
	if hit {
		r.hits[name]++
	}
	return hit
}

// atLeast logs the table and fails when a case is rarer than floor, in percent.
func (r *rates) atLeast(t *testing.T, floor float64) {
	t.Helper()
	for _, name := range r.names {
		share := 100 * float64(r.hits[name]) / float64(r.total[name])
		t.Logf("%-34s %6.1f %% of %d", name, share, r.total[name])
		if share < floor {
			t.Errorf("%s: %.1f %% of the generated cases; want at least %.1f %%", name, share, floor)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func num(s string) powerbox.Decimal { return must(powerbox.ParseDecimal(s)) }

func bound(s string) *powerbox.Decimal { d := num(s); return &d }

func value(s string) powerbox.Value { return must(powerbox.ParseValue([]byte(s))) }

func values(s string) []powerbox.Value {
	vs, ok := value("[" + s + "]").Elements()
	if !ok {
		panic("not a list: " + s)
	}
	return vs
}

func constraint(s string) powerbox.Constraint { return must(powerbox.ParseConstraint(value(s))) }

func op(name string) powerbox.Operation { return must(powerbox.ParseOperation(name)) }

func scope(s string) powerbox.Pattern { return must(powerbox.ParseScope(s)) }

func exactly(name string) powerbox.Pattern { return powerbox.ExactPattern(op(name)) }

func required(name string, c powerbox.Constraint) powerbox.Field {
	return powerbox.Field{Name: name, Constraint: c, Required: true}
}

func optional(name string, c powerbox.Constraint) powerbox.Field {
	return powerbox.Field{Name: name, Constraint: c}
}

func shape(rest powerbox.Rest, fields ...powerbox.Field) powerbox.Shape {
	return must(powerbox.NewShape(rest, fields...))
}

// at is a time in seconds from an arbitrary one.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0).UTC() }

var always = powerbox.Window{From: at(-1000), Until: at(1000)}

func authority(clauses ...powerbox.Clause) powerbox.Authority {
	return must(powerbox.NewAuthority(always, 0, clauses...))
}

func call(name, args string) powerbox.Attempt {
	return must(powerbox.Invocation(op(name), value(args)))
}

// admits asks Decide about one argument object under a shape.
func admits(s powerbox.Shape, args powerbox.Value) bool {
	a := authority(powerbox.Clause{Pattern: exactly("o"), Shape: s})
	return powerbox.Decide(must(powerbox.Invocation(op("o"), args)), a, at(0)).Allowed
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v; want one that says %q", err, text)
	}
}

// corpusLines reads the cases of a file: lines of fields separated by tabs,
// with comments and empty lines left out and Go escapes resolved.
func corpusLines(t *testing.T, file string) [][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		out = append(out, strings.Split(line, "\t"))
	}
	if len(out) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return out
}
