package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMeasureCountsASmallTree(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"go.mod":           "module m\n",
		"lib.go":           "package m\n\ntype Pair struct{ A, b int }\n\nfunc (*Pair) Sum() {}\nfunc (*Pair) hidden() {}\nfunc hidden() {}\n",
		"lib_test.go":      "package m\n",
		"token/t.go":       "package token\n\n// Whoever reads this goes on.\nimport _ \"m\"\n\nconst X, y = 1, 2\n",
		"internal/x/x.go":  "package x\n\nimport _ \"m\"\n\ntype Big struct{ A, B, C int }\n",
		"nested/go.mod":    "module m/nested\n",
		"nested/n.go":      "package nested\n\nfunc Exported() {}\n",
		"e2e/go.mod":       "module m/e2e\n",
		"e2e/e_test.go":    "package e2e\n\nimport _ \"m\"\n",
		"testdata/skip.go": "not Go",
		"CHANGELOG.md":     "Nobody reads this.\n",
		"README.md":        "# Title\n\nNobody knows what is here. What is a token?\n\n```sh\nnobody\n```\n\n- " + strings.Repeat("word ", 31) + "end.\n",
	})
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	prose, err := measuredProse(tree, mustIdioms(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range append(tree.measured(), prose...) {
		got[m.name] = m.value
	}
	want := map[string]string{
		"packages of the main module":        "3",
		"lines of code, and of tests":        "18, 4",
		"largest packages (lines)":           ". 7, token 6, internal/x 5",
		"packages with most test lines":      "e2e 3, . 1",
		"structs with most fields":           "internal/x.Big 3, ..Pair 2",
		"packages that most others import":   ". 2",
		"exported names of the library":      "3", // Pair, Sum and X
		"words of docs":                      "44",
		"sentences of docs over 30 words":    "1",
		"forbidden idioms in docs":           "2", // the question has none
		"forbidden idioms in comments of Go": "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}

func mustIdioms(t *testing.T) []idiom {
	t.Helper()
	idioms, err := readIdioms(filepath.Join(mustRoot(t), idiomsFile))
	if err != nil {
		t.Fatal(err)
	}
	return idioms
}

// TestIdiomsAreReadWhole finds a phrase of the prose linter that this package does not read.
func TestIdiomsAreReadWhole(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(mustRoot(t), idiomsFile))
	if err != nil {
		t.Fatal(err)
	}
	_, swap, _ := strings.Cut(string(data), "\nswap:\n")
	if got, want := len(mustIdioms(t)), len(regexp.MustCompile(`(?m)^  \S`).FindAllString(swap, -1)); got != want {
		t.Errorf("%d phrases read; the file has %d", got, want)
	}
}

func TestVisitedFunctionsAreThoseThatEveryCallRuns(t *testing.T) {
	tree := &sourceTree{packages: map[string]*sourcePackage{"a": {funcs: map[string][]sourceFunc{
		"a/one.go": {{"start", 1, 9}, {"call", 10, 19}, {"clock", 20, 29}},
		"a/two.go": {{"rare", 1, 9}},
	}}}}
	profile := func(call, clock string) map[coverBlock]int {
		counts, err := parseCounts("m", "mode: atomic\nm/a/one.go:2.1,3.2 1 1\nm/a/one.go:12.1,13.2 1 "+call+"\nm/a/one.go:22.1,23.2 1 "+clock+"\nm/a/two.go:2.1,3.2 1 0\n")
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	if funcs, files := tree.grown(profile("5", "3"), profile("55", "9")); len(funcs) != 1 || funcs["a"] != 1 || files != 1 {
		t.Errorf("functions %v in %d files; want the one that 50 more calls ran 50 times more", funcs, files)
	}
	for _, wrong := range []string{"m/a.go:1.1,2.2 1\n", "m/a.go:x.1,2.2 1 1\n", "m/a.go:1.1,2.2 1 x\n"} {
		if _, err := parseCounts("m", wrong); err == nil {
			t.Errorf("%q is read as a profile", wrong)
		}
	}
}

func TestMeasuredColumnsStandBesideEachOther(t *testing.T) {
	var out strings.Builder
	writeMeasured(&out, [][]measurement{{{"packages", "3"}}, {{"packages", "2"}}})
	if want := "| measure | before | after |\n| --- | --- | --- |\n| packages | 3 | 2 |\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
}
