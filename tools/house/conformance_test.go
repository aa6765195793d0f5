package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConformance holds docs/conformance.csv to the requirements and to the
// tests that exist, and the page to the table.
func TestConformance(t *testing.T) {
	root := mustRoot(t)
	reqs, rows, err := readConformance(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkConformance(reqs, rows, tests) {
		t.Error(problem)
	}
	page, err := os.ReadFile(filepath.Join(root, conformancePage))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(renderConformance(reqs, rows), string(page)); diff != "" {
		t.Errorf("%s is not what its table says; run make generate (-want +got):\n%s", conformancePage, diff)
	}
}

// TestConformanceProblems breaks one row in every way that must fail the build.
func TestConformanceProblems(t *testing.T) {
	tests := map[string]testFunc{
		"token:TestSEP11_Reasons":       {},
		"cmd/powerbox:TestScript":       {source: `t.Run("SEP-12 narrows", nil)`},
		"token:TestSEP110_SomethingNew": {},
		"token:TestATK12_AlgNone":       {},
	}
	cases := []struct {
		name string
		row  row
		want string // part of the only problem; "" for none
	}{
		{"done", row{"SEP-11", "M", "done", []string{"token:TestSEP11_Reasons/unknown"}, ""}, ""},
		{"done by a subtest in the source", row{"SEP-12", "M", "done", []string{"cmd/powerbox:TestScript"}, ""}, ""},
		{"done by a subtest in the entry", row{"SEP-13", "M", "done", []string{"cmd/powerbox:TestScript/SEP-13_send"}, ""}, ""},
		{"done without a test", row{"SEP-11", "M", "done", nil, "trust me"}, "done needs a test"},
		{"done by the test of a longer id", row{"SEP-11", "M", "done", []string{"token:TestSEP110_SomethingNew"}, ""}, "done needs a test"},
		{"partial", row{"SEP-11", "M", "partial", nil, "no gRPC: the full gateway work"}, ""},
		{"partial without a note", row{"SEP-11", "M", "partial", nil, ""}, "partial needs a note"},
		{"not yet without a note", row{"SEP-11", "M", "not yet", nil, ""}, "not yet needs a note"},
		{"not ours without a note", row{"SEP-11", "M", "not ours", nil, ""}, "not ours needs a note"},
		{"unknown status", row{"SEP-11", "M", "Done", nil, "x"}, "status is"},
		{"a test that is not there", row{"SEP-11", "M", "not yet", []string{"token:TestGone"}, "x"}, "not a test of the tree"},
		{"attack", row{"ATK-12", "M", "done", []string{"token:TestATK12_AlgNone"}, "bindings: JSON-RPC, offline; also by fuzzing"}, ""},
		{"attack without bindings", row{"ATK-12", "M", "done", []string{"token:TestATK12_AlgNone"}, "tried"}, "bindings: "},
		{"attack on an unknown binding", row{"ATK-12", "M", "done", []string{"token:TestATK12_AlgNone"}, "bindings: telnet"}, "bindings: "},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			got := checkConformance([]requirement{{id: tt.row.id, level: "M"}}, []row{tt.row}, tests)
			if tt.want == "" && len(got) > 0 {
				t.Errorf("problems %q, want none", got)
			}
			if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("problems %q, want one with %q", got, tt.want)
			}
		})
	}
}

// TestConformanceIDs: an id missing, added, repeated, moved or of another level
// fails the build.
func TestConformanceIDs(t *testing.T) {
	reqs := []requirement{{id: "SEP-1", level: "M"}, {id: "SEP-2", level: "S"}}
	line := func(id, level string) row { return row{id, level, "not yet", nil, "the spine work"} }
	cases := map[string]struct {
		rows []row
		want int
	}{
		"same":     {[]row{line("SEP-1", "M"), line("SEP-2", "S")}, 0},
		"missing":  {[]row{line("SEP-1", "M")}, 1},
		"added":    {[]row{line("SEP-1", "M"), line("SEP-2", "S"), line("SEP-3", "M")}, 1},
		"repeated": {[]row{line("SEP-1", "M"), line("SEP-1", "M"), line("SEP-2", "S")}, 1},
		"moved":    {[]row{line("SEP-2", "S"), line("SEP-1", "M")}, 1},
		"level":    {[]row{line("SEP-1", "M"), line("SEP-2", "M")}, 1},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			if got := checkConformance(reqs, tt.rows, nil); len(got) != tt.want {
				t.Errorf("problems %q, want %d", got, tt.want)
			}
		})
	}
}
