package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTestsOnSQLiteExist finds the entry of a test that was renamed or removed, and of one that
// chooses its stores.
func TestTestsOnSQLiteExist(t *testing.T) {
	root := mustRoot(t)
	h := house{root: root}
	listed, err := h.onSQLite()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for name := range listed {
		if _, ok := tests[endToEnd+":"+name]; !ok {
			t.Errorf("%s names %s, which %s does not have", sqliteFile, name, endToEnd)
		}
	}
}

// Every block has enough tests that are not left out, or all that it has.
func TestLeftOnSQLite(t *testing.T) {
	covered := map[string][]string{
		"TestA": {"x", "y"}, "TestB": {"x", "y"}, "TestC": {"x", "y"}, "TestD": {"x", "y"}, "TestE": {"x"},
		"TestAlone": {"z"}, "TestKilled": {"x"},
	}
	left := leftOnSQLite(covered)
	// Killed stays by its name, Alone by its block, and y needs three of A to D.
	if diff := cmp.Diff([]string{"TestD", "TestE"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestStoreBlocks(t *testing.T) {
	const profile = `mode: set
m/internal/store/rows/a.go:1.2,3.4 2 1
m/internal/store/rows/a.go:5.2,6.4 1 0
m/internal/store/sqlite/a.go:1.2,3.4 2 1
m/cmd/powerbox/main.go:1.2,3.4 2 1
m/internal/store/postgres/b.go:1.2,3.4 2 7
`
	want := []string{"m/internal/store/rows/a.go:1.2,3.4", "m/internal/store/postgres/b.go:1.2,3.4"}
	if diff := cmp.Diff(want, storeBlocks([]byte(profile))); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}
