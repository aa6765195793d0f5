package gate

import (
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// ATK-27: an operation has a limit on collection, and takes other arguments. To a reader
// that ignores letter case Collection is the same argument, and its limit was not checked.
func TestATK27_ArgumentsThatLookConstrained(t *testing.T) {
	w := newTown(t)
	shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: "collection", Constraint: powerbox.ExactValue{Value: powerbox.String("public")}})
	if err != nil {
		t.Fatal(err)
	}
	caps, err := powerbox.NewAuthority(powerbox.Window{From: at.Add(-time.Hour), Until: at.Add(time.Hour)}, 3, powerbox.Clause{Pattern: powerbox.ExactPattern(operations(t, "export")[0]), Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	w.target.Caps = caps
	for name, want := range map[string]bool{"collection": true, "Collection": false, "colLECtion": false, "other": true} {
		call := w.call(Scoped, try(t, "export", powerbox.Member{Name: name, Value: powerbox.String("public")}))
		call.Scope = func(string) powerbox.Authority { return authority(t, "export") }
		v := w.check(call)
		if v.Allowed != want || !want && !slices.Contains(codes(v), CodeSpelling) {
			t.Errorf("ATK-27 argument %s: allowed %t, %v", name, v.Allowed, codes(v))
		}
	}
}
