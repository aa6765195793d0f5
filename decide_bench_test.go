package powerbox_test

import (
	"testing"

	"github.com/powerbox-project/powerbox"
)

// threeOperations is an authority of the usual size, and a call that it admits.
func threeOperations() (powerbox.Authority, powerbox.Attempt) {
	s := shape(powerbox.RestNone,
		required("handle", powerbox.OneOf{Values: texts("h-8f2c", "h-91aa")}),
		optional("pages", powerbox.Range{Min: bound("1"), Max: bound("200")}))
	a := authority(
		powerbox.Clause{Pattern: exactly("documents.list"), Shape: powerbox.AnyArguments()},
		powerbox.Clause{Pattern: exactly("documents.read"), Shape: s},
		powerbox.Clause{Pattern: scope("reports.*"), Shape: s})
	return a, call("documents.read", `{"handle":"h-91aa","pages":12}`)
}

func TestDecideDoesNotAllocate(t *testing.T) {
	a, attempt := threeOperations()
	now := at(0)
	allowed := true
	if n := testing.AllocsPerRun(100, func() { allowed = allowed && powerbox.Decide(attempt, a, now).Allowed }); n != 0 || !allowed {
		t.Errorf("Decide allocates %v times and allows: %v; want 0 and true", n, allowed)
	}
}

func BenchmarkDecide(b *testing.B) {
	a, attempt := threeOperations()
	now := at(0)
	b.ReportAllocs()
	for b.Loop() {
		if !powerbox.Decide(attempt, a, now).Allowed {
			b.Fatal("denied")
		}
	}
}

func BenchmarkDecideDenies(b *testing.B) {
	a, _ := threeOperations()
	attempt, now := call("documents.read", `{"handle":"h-0000","pages":900}`), at(0)
	b.ReportAllocs()
	for b.Loop() {
		if powerbox.Decide(attempt, a, now).Allowed {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkMeet(b *testing.B) {
	a, _ := threeOperations()
	b.ReportAllocs()
	for b.Loop() {
		a.Meet(a)
	}
}

func BenchmarkCovers(b *testing.B) {
	a, _ := threeOperations()
	b.ReportAllocs()
	for b.Loop() {
		if !a.Covers(a) {
			b.Fatal("not reflexive")
		}
	}
}
