package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// measurement is one line of the table that measure prints.
type measurement struct{ name, value string }

// topShown is how many entries a list of the table has.
const topShown = 10

// measure prints what can be counted about one or two trees of this repository, as a
// table in Markdown: the second tree is the one after a change. Without a folder it
// measures its own tree.
func (h house) measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.SetOutput(h.stderr)
	source := flags.Bool("source", false, "count the source alone: build and run nothing")
	if err := flags.Parse(args); err != nil {
		return errFailed
	}
	dirs := flags.Args()
	if len(dirs) == 0 {
		dirs = []string{h.root}
	}
	if len(dirs) > 2 {
		return errors.New("measure takes at most two folders: before and after")
	}
	idioms, err := readIdioms(filepath.Join(h.root, idiomsFile))
	if err != nil {
		return err
	}
	columns := make([][]measurement, 0, len(dirs))
	for _, dir := range dirs {
		t, err := readTree(h.inTree(dir))
		if err != nil {
			return err
		}
		prose, err := measuredProse(t, idioms)
		if err != nil {
			return err
		}
		column := append(t.measured(), prose...)
		if !*source {
			built, err := h.measuredBuild(ctx, t)
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			column = append(column, built...)
		}
		columns = append(columns, column)
	}
	writeMeasured(h.stdout, columns)
	return nil
}

// writeMeasured writes the columns beside each other. They have the same lines.
func writeMeasured(to io.Writer, columns [][]measurement) {
	head, rule := "| measure | this tree |", "| --- | --- |"
	if len(columns) == 2 {
		head, rule = "| measure | before | after |", "| --- | --- | --- |"
	}
	fmt.Fprintf(to, "%s\n%s\n", head, rule)
	for n := range columns[0] {
		fmt.Fprintf(to, "| %s |", columns[0][n].name)
		for _, column := range columns {
			fmt.Fprintf(to, " %s |", column[n].value)
		}
		fmt.Fprintln(to)
	}
}

// sourceTree is the main module of a tree, and the tests of the program that it builds.
type sourceTree struct {
	root     string
	module   string
	packages map[string]*sourcePackage // by folder
	tests    map[string]int            // lines of tests, by folder
	comments []string                  // of all files
}

type sourcePackage struct {
	lines    int
	imports  map[string]bool // folders of the module
	exported int             // names: declarations and methods
	structs  map[string]int  // fields
	funcs    map[string][]sourceFunc
}

// sourceFunc is a function or method and the lines that it takes of its file.
type sourceFunc struct {
	name     string
	from, to int
}

// libraryFolders are the packages that other programs import, with the folders below.
var libraryFolders = []string{".", "token", "evidence", "gate", "agentcard", "trust", "eddsa", "holder", "location"}

func readTree(root string) (*sourceTree, error) {
	mods, err := findModules(root)
	if err != nil {
		return nil, err
	}
	t := &sourceTree{root: root, module: mods[0].path, packages: make(map[string]*sourcePackage), tests: make(map[string]int)}
	err = walkFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") || inTestdata(rel) || inNested(mods, rel) {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		return t.add(rel, src)
	})
	return t, err
}

// inNested reports whether a file belongs to another module than the first and the tests
// of its program.
func inNested(mods []module, rel string) bool {
	return slices.ContainsFunc(mods[1:], func(m module) bool { return m.dir != endToEnd && strings.HasPrefix(rel, m.dir+"/") })
}

// add reads one file.
func (t *sourceTree) add(rel string, src []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		t.comments = append(t.comments, group.Text())
	}
	folder, lines := path.Dir(rel), strings.Count(string(src), "\n")
	if strings.HasSuffix(rel, "_test.go") {
		t.tests[folder] += lines
		return nil
	}
	p := t.packages[folder]
	if p == nil {
		p = &sourcePackage{imports: make(map[string]bool), structs: make(map[string]int), funcs: make(map[string][]sourceFunc)}
		t.packages[folder] = p
	}
	p.lines += lines
	for _, spec := range file.Imports {
		if name := strings.Trim(spec.Path.Value, `"`); name == t.module || strings.HasPrefix(name, t.module+"/") {
			p.imports[module{path: t.module, dir: "."}.folder(name)] = true
		}
	}
	for _, decl := range file.Decls {
		p.declare(fset, rel, decl)
	}
	return nil
}

func (p *sourcePackage) declare(fset *token.FileSet, rel string, decl ast.Decl) {
	if fn, ok := decl.(*ast.FuncDecl); ok {
		p.funcs[rel] = append(p.funcs[rel], sourceFunc{fn.Name.Name, fset.Position(fn.Pos()).Line, fset.Position(fn.End()).Line})
		if fn.Name.IsExported() && (fn.Recv == nil || exportedReceiver(fn.Recv.List[0].Type)) {
			p.exported++
		}
		return
	}
	for _, spec := range decl.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					p.exported++
				}
			}
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				p.exported++
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				p.structs[spec.Name.Name] = s.Fields.NumFields()
			}
		}
	}
}

func exportedReceiver(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.StarExpr:
		return exportedReceiver(of.X)
	case *ast.IndexExpr:
		return exportedReceiver(of.X)
	case *ast.IndexListExpr:
		return exportedReceiver(of.X)
	case *ast.Ident:
		return of.IsExported()
	}
	return false
}

// counted is a name with a number, for lists that begin with the largest.
type counted struct {
	name string
	n    int
}

// largest writes the n entries with the highest numbers.
func largest(all map[string]int, n int) string {
	list := make([]counted, 0, len(all))
	for name, count := range all {
		list = append(list, counted{name, count})
	}
	slices.SortFunc(list, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	words := make([]string, 0, n)
	for _, c := range list[:min(n, len(list))] {
		words = append(words, fmt.Sprintf("%s %d", c.name, c.n))
	}
	return strings.Join(words, ", ")
}

// measured counts what the source says.
func (t *sourceTree) measured() []measurement {
	lines, structs, fanIn := map[string]int{}, map[string]int{}, map[string]int{}
	exported, code := 0, 0
	for folder, p := range t.packages {
		lines[folder] = p.lines
		code += p.lines
		if isLibrary(folder) {
			exported += p.exported
		}
		for name, fields := range p.structs {
			structs[folder+"."+name] = fields
		}
		for imported := range p.imports {
			fanIn[imported]++
		}
	}
	tests := 0
	for _, n := range t.tests {
		tests += n
	}
	return []measurement{
		{"packages of the main module", fmt.Sprint(len(t.packages))},
		{"lines of code, and of tests", fmt.Sprintf("%d, %d", code, tests)},
		{"largest packages (lines)", largest(lines, 3)},
		{"packages with most test lines", largest(t.tests, 3)},
		{"structs with most fields", largest(structs, topShown)},
		{"packages that most others import", largest(fanIn, topShown)},
		{"exported names of the library", fmt.Sprint(exported)},
	}
}

func isLibrary(folder string) bool {
	return slices.ContainsFunc(libraryFolders, func(of string) bool {
		return folder == of || of != "." && strings.HasPrefix(folder, of+"/")
	})
}
