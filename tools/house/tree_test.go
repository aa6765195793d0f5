package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const maxFileLines = 600

// TestSources holds every Go file of ours to the limits that no linter has: at
// most 600 lines, and punctuation as a keyboard has it. Other characters that a
// test needs are written as escapes.
func TestSources(t *testing.T) {
	root := mustRoot(t)
	err := walkFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") || inTestdata(rel) {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		for _, problem := range sourceProblems(string(src)) {
			t.Errorf("%s: %s", rel, problem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sourceProblems(src string) []string {
	var wrong []string
	if n := strings.Count(src, "\n"); n > maxFileLines {
		wrong = append(wrong, "too many lines: split it by noun")
	}
	if i := strings.IndexFunc(src, isTypeset); i >= 0 {
		line, _, _ := strings.Cut(src[i-min(i, 20):], "\n")
		wrong = append(wrong, "punctuation that no keyboard has, near "+line)
	}
	return wrong
}

// isTypeset is true for dashes, curly quotes, ellipsis and arrows.
func isTypeset(r rune) bool {
	return (r >= 0x2010 && r <= 0x2027) || (r >= 0x2190 && r <= 0x21ff)
}

func TestSourceProblems(t *testing.T) {
	for src, want := range map[string]int{
		"package a\n":                      0,
		"// it\u2019s\n":                   1,
		"// a \u2014 b\n":                  1,
		strings.Repeat("\n", maxFileLines): 0,
		strings.Repeat("\n", 601):          1,
	} {
		if got := sourceProblems(src); len(got) != want {
			t.Errorf("problems of %.20q: %q, want %d", src, got, want)
		}
	}
}

func TestFindModules(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"go.mod":                      "module example.org/a\n",
		"b/go.mod":                    "module example.org/a/b\n",
		"b/c/node_modules/d/go.mod":   "module example.org/d\n",
		"testdata/e/go.mod":           "module example.org/e\n",
		".hidden/go.mod":              "module example.org/f\n",
		"z_test.go":                   "package a\n\nfunc TestOne(t *testing.T) { t.Run(\"SEP-1\", nil) }\nfunc TestMain(m *testing.M) {}\nfunc Testify() {}\n",
		"b/c/c_test.go":               "package c\n\nfunc FuzzTwo(f *testing.F) {}\nfunc (x T) TestThree() {}\n",
		"testdata/not/ours_test.go":   "package not\n\nfunc TestFour(t *testing.T) {}\n",
		"b/_ignored/ignored_test.go":  "package ignored\n\nfunc TestFive(t *testing.T) {}\n",
		"node_modules/x/some_test.go": "this is not Go\n",
	})
	mods, err := findModules(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []module{{"example.org/a", "."}, {"example.org/a/b", "b"}}
	if diff := cmp.Diff(want, mods, cmp.AllowUnexported(module{})); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if got := mods[1].folder("example.org/a/b/c"); got != "b/c" {
		t.Errorf("folder %q, want b/c", got)
	}
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 2 || tests["b/c:FuzzTwo"].name != "FuzzTwo" || !strings.Contains(tests[".:TestOne"].source, "SEP-1") {
		t.Errorf("tests %v, want .:TestOne and b/c:FuzzTwo", tests)
	}
}

func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
