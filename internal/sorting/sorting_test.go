package sorting_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// pair has a key that others share, and its place before the sorting.
type pair struct{ key, place int }

// Both functions order as those of package slices, and Stable keeps equal elements in their order.
func TestSortsAsSlicesDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var given []pair
		for n, key := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 60).Draw(t, "keys") {
			given = append(given, pair{key, n})
		}
		byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
		want, got := slices.Clone(given), slices.Clone(given)
		slices.SortStableFunc(want, byKey)
		if sorting.Stable(got, byKey); !slices.Equal(want, got) {
			t.Fatalf("Stable: %v; want %v", got, want)
		}
		got = slices.Clone(given)
		if sorting.Sort(got, byKey); !slices.IsSortedFunc(got, byKey) {
			t.Fatalf("Sort: %v", got)
		}
	})
}
