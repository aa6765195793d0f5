package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuickNamesTestsThatExist finds the entry of a test that was renamed or removed.
func TestQuickNamesTestsThatExist(t *testing.T) {
	root := mustRoot(t)
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	for _, f := range tests {
		written[f.name] = true
	}
	for _, name := range slices.Concat(tooSlow, scenarios) {
		if !written[name] {
			t.Errorf("quick.go names %s, which no folder has", name)
		}
	}
	for _, name := range scenarios {
		if _, ok := tests[endToEnd+":"+name]; !ok {
			t.Errorf("the scenario %s is not in %s", name, endToEnd)
		}
	}
	for folder := range leftOut {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			t.Errorf("quick.go leaves out a folder: %v", err)
		}
	}
}

func TestQuickReport(t *testing.T) {
	rec := newRecorder(io.Discard)
	var lines []string
	m := module{path: "m", dir: "."}
	rec.ended = func(name testName) {
		if name.test == "" {
			lines = append(lines, rec.packageLine(m, name.pkg))
		}
	}
	events := `{"Package":"m/a","Action":"run","Test":"TestA/x"}
{"Package":"m/a","Action":"fail","Test":"TestA/x","Elapsed":2}
{"Package":"m/a","Action":"fail","Test":"TestA","Elapsed":2}
{"Package":"m/a","Action":"pass","Test":"TestB","Elapsed":3}
{"Package":"m/a","Action":"fail","Elapsed":5.25}
{"Package":"m/b","Action":"pass","Test":"TestC","Elapsed":1}
{"Package":"m/b","Action":"pass","Elapsed":1}
{"Package":"m/c","Action":"pass","Elapsed":0}
{"Package":"m/d","Action":"fail","Elapsed":0}
`
	if err := rec.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	want := []string{"FAIL    5.2 s     2 tests  a", "ok      1.0 s     1 tests  b", "", "FAIL    0.0 s     0 tests  d"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	named := cmp.AllowUnexported(testName{})
	if diff := cmp.Diff([]testName{{"m/a", "TestB"}, {"m/a", "TestA"}}, rec.slowest(2), named); diff != "" {
		t.Errorf("slowest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]testName{{"m/a", "TestA/x"}, {"m/d", ""}}, rec.failed(), named); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
}
