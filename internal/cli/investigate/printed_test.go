package investigate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestATK120_OneWayToPrint holds the commands of this package to [cli.Printf]: they print what
// is on record, and much of that is text of callers and agents.
func TestATK120_OneWayToPrint(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "fmt."+"Fprint") || strings.Contains(line, "fmt."+"Print") {
				t.Errorf("%s:%d prints without cli.Printf: %s", file, n+1, line)
			}
		}
	}
}
