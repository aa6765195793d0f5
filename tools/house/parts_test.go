package main

import (
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
