package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// maxFields is how many fields a struct of the package has at the most.
const maxFields = 15

// A stage that collects whatever any step needs is no stage: each struct stays small enough
// to be read at once.
func TestStructsStaySmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				if n := fieldsOf(s); n > maxFields {
					t.Errorf("%s: %s has %d fields; want at most %d", file, spec.Name.Name, n, maxFields)
				}
			}
			return true
		})
	}
}

// fieldsOf counts the fields of a struct; an embedded one counts once.
func fieldsOf(s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}
