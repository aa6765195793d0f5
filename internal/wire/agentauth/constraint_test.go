package agentauth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

func value(t *testing.T, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAAPG1_Constraints: what each form admits and what it does not.
func TestAAPG1_Constraints(t *testing.T) {
	for _, c := range []struct{ constraints, yes, no string }{
		{`null`, `[{}, {"a":1}]`, `[]`},
		{`{"a":{"max":10}}`, `[{"a":10}, {"a":-1.5, "b":1}]`, `[{"a":10.0000000000000001}, {"a":"10"}, {}, {"a":null}]`},
		{`{"a":{"min":10}}`, `[{"a":10}, {"a":1e30}]`, `[{"a":9.999}, {"a":"10"}, {}]`},
		{`{"a":{"min":1,"max":2}}`, `[{"a":1},{"a":2}]`, `[{"a":0},{"a":3}]`},
		{`{"a":{"max":9007199254740993}}`, `[{"a":9007199254740993}]`, `[{"a":9007199254740994}]`},
		{`{"a":{"in":["x",5,null]}}`, `[{"a":"x"},{"a":5},{"a":null}]`, `[{"a":"5"},{"a":"X"},{}]`},
		{`{"a":{"not_in":["x"]}}`, `[{"a":"y"},{}]`, `[{"a":"x"}]`},
		{`{"a":{"not_in":["x"],"in":["x","y"]}}`, `[{"a":"y"}]`, `[{"a":"x"},{"a":"z"},{}]`},
		{`{"a":"x"}`, `[{"a":"x"}]`, `[{"a":"y"},{"a":["x"]},{}]`},
		{`{"a":["x"]}`, `[{"a":["x"]}]`, `[{"a":"x"},{}]`},
		{`{"a":false}`, `[{"a":false}]`, `[{"a":0},{"a":""},{}]`},
	} {
		shape, err := agentauth.Options{}.ParseConstraints(value(t, c.constraints))
		if err != nil {
			t.Errorf("AAP-G1 %s: %v", c.constraints, err)
			continue
		}
		for list, want := range map[string]bool{c.yes: true, c.no: false} {
			all, _ := value(t, list).Elements()
			for _, one := range all {
				if got := len(agentauth.Violations(shape, one)) == 0; got != want {
					t.Errorf("AAP-G1, AAP-G2 %s: %s is admitted: %t", c.constraints, one.AppendJSON(nil), got)
				}
			}
		}
		again, ok := agentauth.Constraints(shape)
		back, err := agentauth.Options{}.ParseConstraints(again)
		if !ok || err != nil || !back.Equal(shape) {
			t.Errorf("AAP-G3 %s: written as %s", c.constraints, again.AppendJSON(nil))
		}
	}
}

// TestAAPG4_ConstraintsThatAreNone: a constraint that is not understood refuses.
func TestAAPG4_ConstraintsThatAreNone(t *testing.T) {
	for constraints, want := range map[string]agentauth.Code{
		`{"a":{"maximum":1}}`: agentauth.CodeUnknownOperator, `{"a":{"const":1}}`: agentauth.CodeUnknownOperator, `{"a":{"eq":1}}`: agentauth.CodeUnknownOperator,
		`{"a":{"Max":1}}`: agentauth.CodeUnknownOperator, `{"a":{"max":1,"near":2}}`: agentauth.CodeUnknownOperator,
		`[]`: agentauth.CodeInvalidRequest, `"x"`: agentauth.CodeInvalidRequest, `{"a":{}}`: agentauth.CodeInvalidRequest, `{"a":null}`: agentauth.CodeInvalidRequest,
		`{"":1}`: agentauth.CodeInvalidRequest, `{"a":{"max":"1"}}`: agentauth.CodeInvalidRequest, `{"a":{"max":null}}`: agentauth.CodeInvalidRequest,
		`{"a":{"in":"x"}}`: agentauth.CodeInvalidRequest, `{"a":{"in":[]}}`: agentauth.CodeInvalidRequest, `{"a":{"not_in":[]}}`: agentauth.CodeInvalidRequest,
	} {
		_, err := agentauth.Options{}.ParseConstraints(value(t, constraints))
		var e *agentauth.Error
		if !errors.As(err, &e) || e.Code != want {
			t.Errorf("AAP-G4 %s: %v; want %s", constraints, err, want)
		}
	}
	_, err := agentauth.Options{}.ParseConstraints(value(t, `{"a":{"z":1,"max":1},"b":{"y":1}}`))
	var e *agentauth.Error
	if !errors.As(err, &e) || !slices.Equal(e.UnknownOperators, []string{"y", "z"}) {
		t.Errorf("AAP-G4: %+v", e)
	}
	eq := agentauth.Options{Eq: true}
	shape, err := eq.ParseConstraints(value(t, `{"a":{"eq":1}}`))
	if err != nil || len(agentauth.Violations(shape, value(t, `{"a":1}`))) > 0 || len(agentauth.Violations(shape, value(t, `{"a":2}`))) != 1 {
		t.Errorf("AAP-G6: %v", err)
	}
	if _, err := eq.ParseConstraints(value(t, `{"a":{"eq":1,"max":1}}`)); err == nil {
		t.Error("AAP-G6: an exact value and an operator")
	}
}

// TestAAPG3_WhatCannotBeSaid is not written as something else.
func TestAAPG3_WhatCannotBeSaid(t *testing.T) {
	closed, err := powerbox.NewShape(powerbox.RestNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := agentauth.Constraints(closed); ok {
		t.Error("AAP-G3: a shape that admits nothing else is said")
	}
	one, _ := value(t, `1`).Decimal()
	for name, c := range map[string]powerbox.Constraint{
		"exclusive": powerbox.Range{Min: &one, MinExclusive: true}, "a pattern": powerbox.Wildcard{},
		"two bounds": powerbox.All{Constraints: []powerbox.Constraint{powerbox.OneOf{Values: []powerbox.Value{powerbox.String("a")}}, powerbox.OneOf{Values: []powerbox.Value{powerbox.String("b")}}}},
	} {
		shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: "a", Constraint: c, Required: true})
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := agentauth.Constraints(shape); ok {
			t.Errorf("AAP-G3 %s: said as %s", name, v.AppendJSON(nil))
		}
	}
}

// TestAAPP11_Names: a name is of a to z, digits and _, in at most 128 bytes.
func TestAAPP11_Names(t *testing.T) {
	for name, want := range map[string]bool{
		"transfer_money": true, "a": true, "0": true, strings.Repeat("a", 128): true,
		"": false, "Transfer": false, "a-b": false, "a.b": false, "a b": false, "trаnsfer": false, "*": false, strings.Repeat("a", 129): false,
	} {
		if agentauth.ValidName(name) != want {
			t.Errorf("AAP-P11, ATK-37: %q is a name: %t", name, !want)
		}
	}
}
