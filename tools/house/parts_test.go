package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInParts(t *testing.T) {
	tests := []struct {
		name  string
		tests []string
		want  [][]string
	}{
		{"dealt out", []string{"A", "B", "C"}, [][]string{{"A", "C"}, {"B"}}},
		{"fewer than parts", []string{"A"}, [][]string{{"A"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, inParts(tt.tests, 2)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndToEndTestsAreListed(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	h := house{root: root, stdout: t.Output(), stderr: t.Output()}
	dir := t.TempDir()
	file, err := h.buildTests(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	// Listing runs no program, and with a name of one the tests build none.
	tests, beside, err := h.endToEndTests(t.Context(), file, []string{programOfTests + "=" + file})
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) < 500 || len(beside) != 2 {
		t.Errorf("%d tests, and packages %v; want over 500, and the two below e2e", len(tests), beside)
	}
	for _, test := range tests {
		if test == "ok" || test == "" {
			t.Errorf("%q is listed as a test", test)
		}
	}
}

func TestChoosingTests(t *testing.T) {
	dir := t.TempDir()
	const text = `package e2e

func TestFile(t *testing.T) { aboutTheFile(t); more() }
func TestGivenFirst(t *testing.T) { asGiven(t); more() }
func TestBoth(t *testing.T) { onStores(t, try) }
func TestBothAndMore(t *testing.T) { onStores(t, try); more() }
func TestLate(t *testing.T) { more(); aboutTheFile(t) }
func TestGiven(t *testing.T) { a := more(); use(a) }
func TestMethod(t *testing.T) { w.aboutTheFile(t) }
func aboutTheFile(t *testing.T) { onStores(t, nil) }
`
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := choosingTests(dir)
	want := map[string]bool{"TestFile": true, "TestGivenFirst": true, "TestBoth": true, "TestBothAndMore": false, "TestLate": false, "TestGiven": false, "TestMethod": false}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
