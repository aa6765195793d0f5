package powerbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func TestDecideGivesEveryReasonInOrder(t *testing.T) {
	a := must(powerbox.NewAuthority(powerbox.Window{From: at(10), Until: at(5)}, 0, powerbox.Clause{Pattern: exactly("o"), Shape: shape(powerbox.RestNone,
		required("missing", one), required("wrong", one), optional("far", powerbox.Range{Max: bound("1")}), required("fine", powerbox.Wildcard{}), optional("absent", one))}))
	d := powerbox.Decide(call("o", `{"zz":1,"wrong":2,"far":2,"fine":null,"aa":1}`), a, at(7))
	want := []string{
		"not_yet_valid: the authority is not valid yet", "expired: the authority has expired",
		`argument_constraint: operation "o": argument "far" does not satisfy its range constraint`,
		`argument_missing: operation "o": argument "missing" is required (exact)`,
		`argument_constraint: operation "o": argument "wrong" does not satisfy its exact constraint`,
		`argument_unknown: operation "o": argument "aa" is not permitted`,
		`argument_unknown: operation "o": argument "zz" is not permitted`,
	}
	if diff := cmp.Diff(want, reasonTexts(d)); d.Allowed || diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if err := d.Err(); !errors.Is(err, powerbox.ErrDenied) || !strings.HasPrefix(err.Error(), "denied: the authority is not valid yet; the authority has expired; ") {
		t.Errorf("error %v", err)
	}
	d = powerbox.Decide(powerbox.Admission(op("z"), op("o"), op("b"), op("z")), a, at(7))
	want = []string{
		"not_yet_valid: the authority is not valid yet", "expired: the authority has expired",
		`operation_not_granted: operation "z" is not granted`, `operation_not_granted: operation "b" is not granted`, `operation_not_granted: operation "z" is not granted`,
	}
	if diff := cmp.Diff(want, reasonTexts(d)); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b", "z"}, d.Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	for code, text := range map[powerbox.Code]string{
		powerbox.CodeRequirementUnknown: "what the attempt requires is not configured", powerbox.CodeDepth: "the authority may not be passed on that often", "other": "other",
	} {
		if got := (powerbox.Reason{Code: code}).String(); got != text {
			t.Errorf("%s reads %q", code, got)
		}
	}
}

func reasonTexts(d powerbox.Decision) (out []string) {
	for _, r := range d.Reasons {
		out = append(out, string(r.Code)+": "+r.String())
	}
	return out
}

func TestDecideAtTheEdgesOfTheWindow(t *testing.T) {
	a := must(powerbox.NewAuthority(powerbox.Window{From: at(0), Until: at(10)}, 0, powerbox.Clause{Pattern: exactly("o")}))
	for offset, want := range map[time.Duration]string{
		-time.Nanosecond: "not_yet_valid", 0: "", time.Nanosecond: "", 10*time.Second - time.Nanosecond: "", 10 * time.Second: "expired", 10*time.Second + 1: "expired",
	} {
		d := powerbox.Decide(call("o", `{}`), a, at(0).Add(offset))
		if d.Allowed != (want == "") || d.Allowed != (d.Err() == nil) || !d.Allowed && string(d.Reasons[0].Code) != want {
			t.Errorf("%v after the beginning: %v; want %q", offset, d, want)
		}
	}
}

func TestInvocationRefuses(t *testing.T) {
	_, err := powerbox.Invocation(powerbox.Operation{}, value(`{}`))
	wantError(t, err, "invocation names no operation")
	for _, args := range values(`null, [], "x", 1, true`) {
		_, err := powerbox.Invocation(op("o"), args)
		wantError(t, err, "want an object")
	}
	attempt := call("o", `{"x":1}`)
	if attempt.IsAdmission() || attempt.Operation() != op("o") || attempt.Arguments().String() != `{"x":1}` || attempt.Required()[0] != op("o") {
		t.Errorf("attempt %v", attempt)
	}
	if adm := powerbox.Admission(op("o")); !adm.IsAdmission() || len(adm.Required()) != 1 {
		t.Errorf("attempt %v", adm)
	}
}

// A caller learns why its own attempt failed, never which attempt would
// succeed: no value of a constraint occurs in any reason.
func TestReasonsNeverContainAPermittedValue(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		// Values that occur nowhere else.
		secrets := []string{"s3cr3t-alpha", "s3cr3t-beta", "/s3cr3t", "s3cr3t.example", "773311", "884422"}
		leaf := rapid.SampledFrom([]powerbox.Constraint{
			powerbox.ExactValue{Value: powerbox.String(secrets[0])},
			powerbox.OneOf{Values: texts(secrets[0], secrets[1])},
			powerbox.NotOneOf{Excluded: texts(secrets[0], "guess")},
			powerbox.Contains{Required: texts(secrets[0])},
			powerbox.Subset{Allowed: texts(secrets[1])},
			powerbox.PathUnder{Root: secrets[2]},
			powerbox.Glob{Pattern: secrets[0] + "*"},
			powerbox.URLMatch{Schemes: []string{"https"}, Hosts: []string{secrets[3]}},
			powerbox.Range{Min: bound(secrets[4]), Max: bound(secrets[5])},
		})
		draw := func() powerbox.Constraint {
			c := leaf.Draw(t, "constraint")
			if rapid.Bool().Draw(t, "nested") {
				c = powerbox.AnyOf{Constraints: []powerbox.Constraint{c, powerbox.All{Constraints: []powerbox.Constraint{leaf.Draw(t, "constraint"), c}}}}
			}
			return c
		}
		s := shape(powerbox.RestNone, required("x", draw()), powerbox.Field{Name: "y", Constraint: draw(), Required: rapid.Bool().Draw(t, "required")})
		a := authority(powerbox.Clause{Pattern: exactly("o"), Shape: s})
		d := powerbox.Decide(call("o", rapid.SampledFrom([]string{`{}`, `{"x":"guess"}`, `{"x":1,"y":[2]}`, `{"x":[],"y":"/","z":0}`}).Draw(t, "args")), a, at(0))
		said := fmt.Sprint(d, d.Err(), d.Missing(), a.Excess(authority(powerbox.Clause{Pattern: exactly("o"), Shape: powerbox.AnyArguments()})))
		for _, secret := range secrets {
			if strings.Contains(said, secret) {
				t.Fatalf("%q is said in %s", secret, said)
			}
		}
		r.note("denied", !d.Allowed)
		r.note("more than one reason", len(d.Reasons) > 1)
	})
	r.atLeast(t, 5)
}

func TestDecideIsPureAndMonotone(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		wide := drawAuthority(t)
		narrow := wide.Meet(drawAuthority(t))
		before := wide.JSON().String()
		for range 5 {
			attempt, now := drawAttempt(t, wide, narrow), at(rapid.IntRange(0, 4).Draw(t, "now"))
			first, second := powerbox.Decide(attempt, wide, now), powerbox.Decide(attempt, wide, now)
			if diff := cmp.Diff(first, second); diff != "" || first.Allowed != (len(first.Reasons) == 0) {
				t.Fatalf("two answers to one question:\n%s", diff)
			}
			if r.note("allowed by the narrower", powerbox.Decide(attempt, narrow, now).Allowed) && !first.Allowed {
				t.Fatalf("GATE-2: %v is admitted by %s and not by %s", attempt, narrow.JSON(), wide.JSON())
			}
		}
		if wide.JSON().String() != before {
			t.Fatalf("deciding has changed %s", before)
		}
	})
	r.atLeast(t, 5)
}

func open(patterns ...powerbox.Pattern) powerbox.Authority {
	var cs []powerbox.Clause
	for _, p := range patterns {
		cs = append(cs, powerbox.Clause{Pattern: p, Shape: powerbox.AnyArguments()})
	}
	return authority(cs...)
}

func TestGATE1_EffectiveIsCapsMeetScope(t *testing.T) {
	caps := open(exactly("read"), exactly("mail"), scope("trade"))
	scoped := open(exactly("read"), exactly("delete"), scope("trade.quote.*"))
	effective := caps.Meet(scoped)
	for _, c := range []struct {
		required []powerbox.Operation
		missing  []string
	}{
		{[]powerbox.Operation{op("read")}, nil},
		{[]powerbox.Operation{op("trade.quote.get"), op("read")}, nil},
		{[]powerbox.Operation{op("read"), op("mail"), op("delete")}, []string{"delete", "mail"}},
		{[]powerbox.Operation{op("trade.order")}, []string{"trade.order"}},
		{[]powerbox.Operation{op("trade.quote")}, []string{"trade.quote"}},
	} {
		d := powerbox.Decide(powerbox.Admission(c.required...), effective, at(0))
		if d.Allowed != (c.missing == nil) || !cmp.Equal(d.Missing(), c.missing) {
			t.Errorf("GATE-1: %v gives %v; want missing %v", c.required, d, c.missing)
		}
	}
}

// Along a chain of meets nothing is ever gained, regardless of who stands in between.
func TestGATE2_ChainsOnlyNarrow(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		origin := drawAuthority(t)
		end := origin
		for range rapid.IntRange(1, 3).Draw(t, "hops") {
			next := drawAuthority(t)
			if end = end.Meet(next); !next.Covers(end) {
				t.Fatalf("GATE-2: a hop has more than its own %s", next.JSON())
			}
		}
		if !origin.Covers(end) || end.Depth() > origin.Depth() {
			t.Fatalf("GATE-2: %s has come from %s", end.JSON(), origin.JSON())
		}
		for range 4 {
			attempt := drawAttempt(t, origin, end)
			if r.note("allowed at the end", powerbox.Decide(attempt, end, at(2)).Allowed) && !powerbox.Decide(attempt, origin, at(2)).Allowed {
				t.Fatalf("GATE-2: %v is admitted at the end of the chain only", attempt)
			}
		}
		r.note("something is left", !end.IsEmpty())
	})
	r.atLeast(t, 5)
}

func TestGATE5_UnknownRequirementIsADenial(t *testing.T) {
	d := powerbox.Decide(powerbox.Admission(), open(scope("a")), at(0))
	if d.Allowed || d.Reasons[0].Code != powerbox.CodeRequirementUnknown {
		t.Errorf("GATE-5: an admission that requires nothing: %v", d)
	}
	// An admission looks at operations alone; the invocation looks again.
	a := authority(powerbox.Clause{Pattern: exactly("o"), Shape: shape(powerbox.RestNone, required("x", one))})
	if !powerbox.Decide(powerbox.Admission(op("o")), a, at(0)).Allowed || powerbox.Decide(call("o", `{"x":2}`), a, at(0)).Allowed {
		t.Error("GATE-5: admission and invocation are mixed up")
	}
}

// Which agent is reachable plays no part: the same declarations in any order
// give the same authority and the same answer.
func TestGATE11_SameDeclarationsSameOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAuthority(t), drawAuthority(t)
		clauses := append([]powerbox.Clause{}, a.Clauses()...)
		shuffled := must(powerbox.NewAuthority(a.Window(), a.Depth(), rapid.Permutation(clauses).Draw(t, "order")...))
		attempt := drawAttempt(t, a, b)
		x, y := powerbox.Decide(attempt, a.Meet(b), at(2)), powerbox.Decide(attempt, b.Meet(shuffled), at(2))
		if diff := cmp.Diff(x, y); diff != "" || !shuffled.Equal(a) {
			t.Fatalf("GATE-11: %s", diff)
		}
	})
}

// TestViolationListsTheMissingSetOnce: the text of GATE-3 has every operation once, in order,
// and leaves the given list as it is.
func TestViolationListsTheMissingSetOnce(t *testing.T) {
	missing := []string{"b.c", "a.b", "b.c"}
	if got := powerbox.Violation(missing); got != "Capability scope violation: {a.b, b.c}" || missing[0] != "b.c" {
		t.Errorf("%s, of %v", got, missing)
	}
}
