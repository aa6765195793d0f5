package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mapRow  = regexp.MustCompile(`(?m)^\| (` + "`[^|]*`" + `) \|`)
	mapName = regexp.MustCompile("`([a-z0-9./-]+)`")
	mapFile = regexp.MustCompile("`([a-z0-9_/]+\\.go)`")
)

// mapProblems says which packages the map lacks, and which packages and files it names that
// do not exist. packages and files are those of the tree.
func mapProblems(page string, packages, files []string) (wrong []string) {
	_, tables, _ := strings.Cut(page, "\n## Packages\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	named := []string{"."}
	for _, row := range mapRow.FindAllStringSubmatch(tables, -1) {
		for _, m := range mapName.FindAllStringSubmatch(row[1], -1) {
			if named = append(named, m[1]); m[1] != "powerbox" && !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, m[1]+"/") }) {
				wrong = append(wrong, m[1]+": a row of the map, and no folder of the tree")
			}
		}
	}
	for _, p := range packages {
		if !slices.Contains(named, p) {
			wrong = append(wrong, p+": a package without a row in the map")
		}
	}
	for _, m := range mapFile.FindAllStringSubmatch(page, -1) {
		if !slices.ContainsFunc(files, func(f string) bool { return f == m[1] || strings.HasSuffix(f, "/"+m[1]) }) {
			wrong = append(wrong, m[1]+": the map names this file, and the tree has none")
		}
	}
	return wrong
}

// TestArchitectureNamesEveryPackage holds docs/ARCHITECTURE.md to the tree.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	root := mustRoot(t)
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	var files, packages []string
	if err := walkFiles(root, func(rel string) error { files = append(files, rel); return nil }); err != nil {
		t.Fatal(err)
	}
	for dir := range tree.packages {
		if path.Base(dir) != "testdata" {
			packages = append(packages, dir)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range mapProblems(string(page), packages, files) {
		t.Error(problem)
	}
}

func TestMapProblems(t *testing.T) {
	page := "see `internal/web/`, `one.go` and `gone.go`\n## Packages\n| `internal/one` | a |\n| `internal/gone`, `examples/two` | b |\n## Walls\n| `rec_` | c |\n"
	got := mapProblems(page, []string{".", "internal/one", "internal/new"}, []string{"internal/one/one.go", "examples/two/main.py"})
	want := []string{
		"internal/gone: a row of the map, and no folder of the tree",
		"internal/new: a package without a row in the map",
		"gone.go: the map names this file, and the tree has none",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
