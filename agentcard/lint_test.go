package agentcard_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/agentcard"
)

var update = flag.Bool("update", false, "write what is found into the files of testdata/lint")

// sections reads a txtar file: a comment, then "-- name --" before each part.
func sections(tb testing.TB, path string) map[string][]byte {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	parts, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(rest, " --\n")
			parts[name] = nil
			continue
		}
		parts[name] = append(parts[name], line...)
	}
	return parts
}

// writeProblems replaces the last part of a file of testdata/lint.
func writeProblems(t *testing.T, path, problems string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "-- problems --\n"
	before, _, _ := strings.Cut(string(raw), begin)
	if err := os.WriteFile(path, []byte(before+begin+problems), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCARD14_Lint holds every card of testdata/lint against the whole list of
// problems beside it: nothing less and nothing more.
func TestCARD14_Lint(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			parts := sections(t, file)
			_, strict := parts["strict"]
			_, problems := agentcard.Lint(parts["card.json"], strict)
			var got strings.Builder
			for _, p := range problems {
				got.WriteString(p.String() + "\n")
			}
			if *update {
				writeProblems(t, file, got.String())
				return
			}
			if diff := cmp.Diff(string(parts["problems"]), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
