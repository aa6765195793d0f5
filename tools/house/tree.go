package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
)

// module is one Go module of the tree.
type module struct {
	path string // as in its go.mod
	dir  string // relative to the root, with slashes; "." for the main module
}

// folder is where an import path of the module lies, relative to the root.
func (m module) folder(importPath string) string {
	return path.Join(m.dir, strings.TrimPrefix(strings.TrimPrefix(importPath, m.path), "/"))
}

// walkFiles calls visit for every file of ours, with its path relative to root.
// Version control, fetched packages and build output are not ours.
func walkFiles(root string, visit func(rel string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != root && (name == "node_modules" || name == "dist" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel))
	})
}

// inTestdata reports whether the go tool ignores the file for its folder's name.
func inTestdata(rel string) bool {
	for part := range strings.SplitSeq(path.Dir(rel), "/") {
		if part == "testdata" || (strings.HasPrefix(part, "_") && part != "_") {
			return true
		}
	}
	return false
}

// findModules lists the modules of the tree, the main one first.
func findModules(root string) ([]module, error) {
	var mods []module
	err := walkFiles(root, func(rel string) error {
		if path.Base(rel) != "go.mod" || inTestdata(rel) {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		name := modfile.ModulePath(data)
		if name == "" {
			return fmt.Errorf("%s: no module line", rel)
		}
		m := module{path: name, dir: path.Dir(rel)}
		if m.dir == "." {
			mods = append([]module{m}, mods...)
			return nil
		}
		mods = append(mods, m)
		return nil
	})
	if err == nil && (len(mods) == 0 || mods[0].dir != ".") {
		return nil, fmt.Errorf("%s: no go.mod at the root", root)
	}
	return mods, err
}

// testFunc is one test, fuzz target, benchmark or example function.
type testFunc struct {
	folder string // relative to the root
	name   string
	source string // text of the function
}

// key is how docs/conformance.csv names the function.
func (f testFunc) key() string { return f.folder + ":" + f.name }

// findTests parses every _test.go of the tree. It says which tests are written,
// not which run: house test knows that.
func findTests(root string) (map[string]testFunc, error) {
	found := make(map[string]testFunc)
	err := walkFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, "_test.go") || inTestdata(rel) {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, rel, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, f := range testFuncs(fset, file, src) {
			f.folder = path.Dir(rel)
			found[f.key()] = f
		}
		return nil
	})
	return found, err
}

func testFuncs(fset *token.FileSet, file *ast.File, src []byte) []testFunc {
	var found []testFunc
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !isTestName(fn.Name.Name) {
			continue
		}
		from, to := fset.Position(fn.Pos()).Offset, fset.Position(fn.End()).Offset
		found = append(found, testFunc{name: fn.Name.Name, source: string(src[from:to])})
	}
	return found
}

func isTestName(name string) bool {
	return name != "TestMain" && regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([^a-z]|$)`).MatchString(name)
}
