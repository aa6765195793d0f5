package rows

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A statement is spelled once. One that is not cached, since there are too many, is spelled
// the same way.
func TestStatementsAreSpelledOnce(t *testing.T) {
	times := 0
	s := NewSpelling(func(statement string) string { times++; return strings.ToUpper(statement) })
	for range 2 {
		for n := range maxSpelled + 5 {
			if got := s.Of(fmt.Sprint("select ", n)); got != fmt.Sprint("SELECT ", n) {
				t.Fatalf("it is spelled %q", got)
			}
		}
	}
	if want := maxSpelled + 2*5; times != want {
		t.Errorf("statements were spelled %d times; want %d", times, want)
	}
}

// Every ? becomes an argument in PostgreSQL, so no text in a statement may have one.
func TestNoTextInAStatementHasAQuestionMark(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	text, statements := regexp.MustCompile(`'[^'\n]*\?[^'\n]*'`), 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			statements += strings.Count(line, "SELECT ")
			if found := text.FindString(line); found != "" {
				t.Errorf("%s: %s", file, found)
			}
		}
	}
	if statements < 50 {
		t.Errorf("%d statements were looked at; want more than 50", statements)
	}
}
