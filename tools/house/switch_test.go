package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const switchable = `package main

import "fmt"

func word(n int) string {
	if n > 2 && n < 9 {
		return "some"
	}
	m := n * 10
	switch {
	case n == 0 || m == 0:
		return "none"
	}
	fmt.Print("counted ")
	if n > 0 {
		fmt.Print("a ")
		m++
	}
	return fmt.Sprint("many ", m)
}

func main() {
	for _, n := range []int{0, 1, 3, 20} {
		fmt.Println(word(n))
	}
}
`

// TestSwitchedFileIsEachOfItsMutants runs one program as each of its mutants, and compares what
// it prints with the mutant that is built alone.
func TestSwitchedFileIsEachOfItsMutants(t *testing.T) {
	changes := []struct{ find, with string }{
		{"n > 2 && n < 9 {", "n > 2 && n < 9 && false {"},
		{`		return "some"`, `		return "other"`},
		{"n == 0 || m == 0", "m == 0 && n == 2"},
		{`	fmt.Print("counted ")` + "\n", ""},
		{"	m := n * 10", "	m := n * 20"},
		{"		m++\n", ""},
		{"n > 0 {", "n > 1 {"},
		{"n > 0 {\n\t\tfmt.Print(\"a \")\n", "n > 0 {\n\t\tfmt.Print(\"an \")\n"},
	}
	before, err := outlineOf(switchable)
	if err != nil {
		t.Fatal(err)
	}
	var edits []*edit
	mutants := []string{switchable}
	for n, c := range changes {
		mutant := strings.Replace(switchable, c.find, c.with, 1)
		e := editOf(n+1, switchable, mutant)
		if !e.place(switchable, before) {
			t.Errorf("%q cannot be switched", c.find)
			continue
		}
		edits, mutants = append(edits, e), append(mutants, mutant)
	}
	made := switchFile(switchable, "example.org/m", nest(edits))
	if len(made.lines) != len(changes) {
		t.Errorf("%d of %d removals are in the file\n%s", len(made.lines), len(changes), made.text)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write(switchedPackage+"/switched.go", switchedSource)
	write("all/main.go", made.text)
	for n, mutant := range mutants {
		write(fmt.Sprintf("one%d/main.go", n), mutant)
	}
	programs := filepath.Join(dir, "programs")
	h := house{root: dir, stderr: os.Stderr}
	cmd := h.goCommand(t.Context(), ".", "build", "-ldflags=-s -w", "-o", programs+string(filepath.Separator), "./...")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, made.text)
	}
	prints := func(program, removed string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, program))
		cmd.Env = append(os.Environ(), "POWERBOX_REMOVED="+removed)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s as %s: %v\n%s", program, removed, err, made.text)
		}
		return string(out)
	}
	for n := range mutants {
		if got, want := prints("all", string(rune('0'+n))), prints(fmt.Sprintf("one%d", n), ""); got != want {
			t.Errorf("switched to %d it prints\n%s\nand the mutant itself\n%s\n%s", n, got, want, made.text)
		}
	}
}

// TestWhatCannotBeSwitched leaves out text that is neither a condition nor a statement, and a text
// that overlaps another.
func TestWhatCannotBeSwitched(t *testing.T) {
	const src = "package p\n\nconst limit = 5\n\nfunc f(a, b func()) {\n\ta()\n\tb()\n\ta()\n}\n"
	before, err := outlineOf(src)
	if err != nil {
		t.Fatal(err)
	}
	if e := editOf(1, src, strings.Replace(src, "5", "50", 1)); e.place(src, before) {
		t.Error("a constant is switched")
	}
	first := editOf(2, src, strings.Replace(src, "\ta()\n\tb()\n", "\tb()\n\ta()\n", 1))
	second := editOf(3, src, strings.Replace(src, "\tb()\n\ta()\n}", "\ta()\n\tb()\n}", 1))
	if !first.place(src, before) || !second.place(src, before) {
		t.Fatal("statements cannot be switched")
	}
	if made := switchFile(src, "example.org/m", nest([]*edit{first, second})); len(made.lines) != 1 {
		t.Errorf("the file has the removals %v", made.lines)
	} else if _, err := parser.ParseFile(token.NewFileSet(), "", made.text, 0); err != nil {
		t.Errorf("the file with removals: %v\n%s", err, made.text)
	}
}
