package agentcard_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/powerbox-project/powerbox/agentcard"
)

var update = flag.Bool("update", false, "write what is found into the files of testdata/lint")

// part returns one file of an archive.
func part(a *txtar.Archive, name string) ([]byte, bool) {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return a.Files[i].Data, true
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
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			card, _ := part(a, "card.json")
			_, strict := part(a, "strict")
			want, _ := part(a, "problems")
			_, problems := agentcard.Lint(card, strict)
			var got strings.Builder
			for _, p := range problems {
				got.WriteString(p.String() + "\n")
			}
			if *update {
				a.Files[len(a.Files)-1].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
