package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTally(t *testing.T) {
	tests := []struct {
		name   string
		events string // package action test, one per line
		want   tally
	}{
		{"nothing", "", tally{}},
		{"a test", "p run TestA\np pass TestA\np pass", tally{1, 0}},
		{"subtests count, their parent does not", "p run TestA\np run TestA/x\np run TestA/y\np pass TestA/x\np pass TestA/y\np pass TestA\np pass", tally{2, 0}},
		{"a failing subtest counts once", "p run TestA\np run TestA/x\np run TestA/y\np fail TestA/x\np pass TestA/y\np fail TestA\np fail", tally{1, 1}},
		{"a parent that fails by itself", "p run TestA\np run TestA/x\np pass TestA/x\np fail TestA\np fail", tally{1, 1}},
		{"a package that does not build", "p fail\nq run TestB\nq pass TestB\nq pass", tally{1, 1}},
		{"a package without tests", "p skip", tally{}},
		{"a skipped test is a failure", "p run TestA\np skip TestA\np pass", tally{0, 1}},
		{"a slash in a subtest's name", "p run TestA\np run TestA/x/y\np fail TestA/x/y\np fail TestA\np fail", tally{0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := newRecorder(io.Discard)
			if err := rec.read(strings.NewReader(jsonEvents(tt.events))); err != nil {
				t.Fatal(err)
			}
			if got := rec.tally(); got != tt.want {
				t.Errorf("tally %v, want %v", got, tt.want)
			}
		})
	}
}

func jsonEvents(events string) string {
	var b strings.Builder
	for line := range strings.Lines(events) {
		f := append(strings.Fields(line), "")
		b.WriteString(`{"Package":"` + f[0] + `","Action":"` + f[1] + `","Test":"` + f[2] + `"}` + "\n")
	}
	return b.String()
}

func TestFailuresArePrinted(t *testing.T) {
	var out strings.Builder
	rec := newRecorder(&out)
	events := `{"Action":"build-output","Output":"x.go:1: syntax error\n"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"want 1, got 2\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
not json
`
	if err := rec.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	want := "x.go:1: syntax error\np TestB\nwant 1, got 2\nnot json\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestUnproven(t *testing.T) {
	rows := []row{{id: "SEP-1", tests: []string{"token:TestA", "token:TestA/x", "token:TestGone"}}}
	got := unproven(rows, map[string]bool{"token:TestA": true, "token:TestA/x": true})
	if len(got) != 1 || !strings.Contains(got[0], "TestGone") {
		t.Errorf("unproven %q, want TestGone alone", got)
	}
}
