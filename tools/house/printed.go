package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// printer is the file of the two functions by which commands print.
const printer = "internal/cli/visible.go"

// isCommand reports whether a file is of a command. The demo prints no texts of others.
func isCommand(rel string) bool {
	return path.Ext(rel) == ".go" && !strings.HasSuffix(rel, "_test.go") && rel != printer &&
		(strings.HasPrefix(rel, "internal/cli/") || strings.HasPrefix(rel, "cmd/"))
}

// printsOtherwise returns where a file prints without cli.Printf and cli.Document. A text of an agent
// that is printed otherwise can forge a line, a cell of a table, or what a terminal obeys.
func printsOtherwise(rel string, source []byte) (places []string, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, rel, source, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if is && printing(call) {
			at := files.Position(call.Pos())
			places = append(places, rel+":"+strconv.Itoa(at.Line))
		}
		return true
	})
	return places, nil
}

// printing reports whether a call prints: with package fmt, or with the bytes of an output.
func printing(call *ast.CallExpr) bool {
	if name, is := call.Fun.(*ast.Ident); is {
		return name.Name == "print" || name.Name == "println"
	}
	f, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	of, _ := f.X.(*ast.Ident)
	switch name := f.Sel.Name; {
	case of != nil && of.Name == "fmt":
		return strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Fprint")
	case of != nil && of.Name == "io" && name == "WriteString":
		return len(call.Args) > 0 && output(call.Args[0])
	}
	return strings.HasPrefix(f.Sel.Name, "Write") && output(f.X)
}

// output reports whether an expression is standard output or standard error.
func output(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "stdout" || e.Name == "stderr"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Stdout" || e.Sel.Name == "Stderr"
	case *ast.CallExpr:
		f, is := e.Fun.(*ast.SelectorExpr)
		return is && (f.Sel.Name == "OutOrStdout" || f.Sel.Name == "ErrOrStderr")
	}
	return false
}
