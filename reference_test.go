package powerbox_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// A second opinion: the nine constraint types of the token draft, written down
// once more over encoding/json, from the object form alone.

func referenceAdmits(c map[string]any, v any) bool {
	switch c["constraint_type"] {
	case "exact":
		return same(c["value"], v)
	case "one_of":
		return among(c["values"], v)
	case "not_one_of":
		return !among(c["excluded"], v)
	case "contains":
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(c["required"].([]any), func(r any) bool { return !among(list, r) })
	case "subset":
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(e any) bool { return !among(c["allowed"], e) })
	case "range":
		n, ok := v.(json.Number)
		return ok && inside(c["min"], c["min_inclusive"], rational(n), 1) && inside(c["max"], c["max_inclusive"], rational(n), -1)
	case "all":
		return !slices.ContainsFunc(c["constraints"].([]any), func(c any) bool { return !referenceAdmits(c.(map[string]any), v) })
	case "any":
		return slices.ContainsFunc(c["constraints"].([]any), func(c any) bool { return referenceAdmits(c.(map[string]any), v) })
	default:
		return c["constraint_type"] == "wildcard"
	}
}

func inside(limit, inclusive any, n *big.Rat, direction int) bool {
	if limit == nil {
		return true
	}
	order := n.Cmp(rational(limit.(json.Number))) * direction
	return order > 0 || order == 0 && inclusive != false
}

func among(list, v any) bool {
	return slices.ContainsFunc(list.([]any), func(e any) bool { return same(e, v) })
}

func same(a, b any) bool {
	x, ok := a.(json.Number)
	y, ok2 := b.(json.Number)
	if ok && ok2 {
		return rational(x).Cmp(rational(y)) == 0
	}
	if list, ok := a.([]any); ok {
		other, ok := b.([]any)
		return ok && slices.EqualFunc(list, other, same)
	}
	return reflect.DeepEqual(a, b)
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic("not a number: " + n)
	}
	return r
}

func toAny(v powerbox.Value) (out any) {
	d := json.NewDecoder(bytes.NewReader(v.AppendJSON(nil)))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

func TestAdmitsAgreesWithASecondOpinion(t *testing.T) {
	var r rates
	probes := append(values(`1.0, 1e0, 0.1e1, 2.00, "1", [1.0], [1,1], [[1]], {"a":1.0}, {"A":1}, false`), smallValues...)
	for _, c := range smallConstraints() {
		form := toAny(c.JSON()).(map[string]any)
		for _, v := range probes {
			got := r.note("admitted", c.Admits(v))
			if want := referenceAdmits(form, toAny(v)); got != want {
				t.Fatalf("%s admits %s: %v; want %v", c.JSON(), v, got, want)
			}
		}
	}
	r.atLeast(t, 20)
}
