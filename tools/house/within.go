package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// locate finds the files of the checks that name a function instead. The text of such a
// check stays unique when other functions move into its file, and the check stays right
// when its function moves to another file of the package.
func locate(root string, checks []check) error {
	folders := make(map[string]map[string][]string)
	for n, c := range checks {
		if c.function == "" {
			continue
		}
		folder, name, ok := strings.Cut(c.function, " ")
		if !ok {
			return fmt.Errorf("check %q: func: want the folder, a space and the name, as in token Memo.Verify", c.name)
		}
		folder = path.Clean(folder)
		if folders[folder] == nil {
			found, err := filesOfFunctions(root, folder)
			if err != nil {
				return fmt.Errorf("check %q: %w", c.name, err)
			}
			folders[folder] = found
		}
		files := folders[folder][name]
		if len(files) != 1 {
			return fmt.Errorf("check %q: %d files of %s have a function %s, must be one: name the file with file: instead", c.name, len(files), folder, name)
		}
		checks[n].file, checks[n].within = files[0], name
	}
	return nil
}

// filesOfFunctions lists the files of a package that have each function, without tests.
func filesOfFunctions(root, folder string) (map[string][]string, error) {
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, err
	}
	found := make(map[string][]string)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		spans, err := functionSpans(string(src))
		if err != nil {
			return nil, err
		}
		for function := range spans {
			found[function] = append(found[function], path.Join(folder, filepath.Base(name)))
		}
	}
	return found, nil
}

// functionSpans is where each function of a file begins and ends. A method is named with
// its type, as Memo.Verify.
func functionSpans(src string) (map[string][2]int, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	spans := make(map[string][2]int)
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			spans[functionName(fn)] = [2]int{fset.Position(fn.Pos()).Offset, fset.Position(fn.End()).Offset}
		}
	}
	return spans, nil
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// apply is the source without the check.
func (c check) apply(src string) (string, error) {
	from, to, place := 0, len(src), c.file
	if c.within != "" {
		spans, err := functionSpans(src)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.file, err)
		}
		span, ok := spans[c.within]
		if !ok {
			return "", fmt.Errorf("%s has no function %s", c.file, c.within)
		}
		from, to, place = span[0], span[1], c.within+" in "+c.file
	}
	if n := strings.Count(src[from:to], c.find); n != 1 {
		return "", fmt.Errorf("%s has the text to find %d times, must be once", place, n)
	}
	return src[:from] + strings.Replace(src[from:to], c.find, c.with, 1) + src[to:], nil
}
