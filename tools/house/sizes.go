package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// declared is one interface or struct that a package declares.
type declared struct {
	name string // folder and name, such as gate.Call
	kind string // interface or struct
	own  int    // methods that it declares, or fields; an embedded struct is one field
	// all are the methods of an interface with those of the interfaces that it embeds. One of
	// another module counts as one, since its size is not ours.
	all    int
	tagged bool // a struct whose exported fields say how they are written: a document
	embeds []string
}

// readDeclared reads the interfaces and structs of every module, by their names. Tests and
// what functions declare within themselves are not among them.
func readDeclared(root string) (map[string]*declared, error) {
	mods, err := findModules(root)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*declared)
	err = walkFiles(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || inTestdata(rel) {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		types, err := declaredIn(mods, rel, src)
		for _, d := range types {
			found[d.name] = d
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		d.all = methodsOf(found, d.name)
	}
	return found, nil
}

// declaredIn reads one file.
func declaredIn(mods []module, rel string, src []byte) (types []*declared, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	folder, folders := path.Dir(rel), importedFolders(mods, file)
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				if d := declaredAs(spec.Type, folder, folders); d != nil {
					d.name = folder + "." + spec.Name.Name
					types = append(types, d)
				}
			}
		}
	}
	return types, nil
}

// importedFolders are the folders of the packages that a file imports from the tree, by the
// name that it knows them under.
func importedFolders(mods []module, file *ast.File) map[string]string {
	folders := make(map[string]string)
	for _, spec := range file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		of := module{}
		for _, m := range mods {
			if (from == m.path || strings.HasPrefix(from, m.path+"/")) && len(m.path) > len(of.path) {
				of = m
			}
		}
		if of.path != "" {
			folders[name] = of.folder(from)
		}
	}
	return folders
}

// declaredAs describes a type, and is nil for one that is neither interface nor struct.
func declaredAs(of ast.Expr, folder string, folders map[string]string) *declared {
	switch of := of.(type) {
	case *ast.InterfaceType:
		d := &declared{kind: "interface"}
		for _, field := range of.Methods.List {
			if len(field.Names) > 0 {
				d.own += len(field.Names)
			} else {
				d.embeds = append(d.embeds, embedded(field.Type, folder, folders))
			}
		}
		return d
	case *ast.StructType:
		d := &declared{kind: "struct"}
		plain := 0
		for _, field := range of.Fields.List {
			d.own += max(1, len(field.Names))
			d.tagged = d.tagged || field.Tag != nil
			if field.Tag == nil && slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
				plain++
			}
		}
		d.tagged = d.tagged && plain == 0
		return d
	}
	return nil
}

// embedded is the name of an embedded interface, "" for one of another module.
func embedded(of ast.Expr, folder string, folders map[string]string) string {
	switch of := of.(type) {
	case *ast.Ident:
		return folder + "." + of.Name
	case *ast.SelectorExpr:
		if name, ok := of.X.(*ast.Ident); ok && folders[name.Name] != "" {
			return folders[name.Name] + "." + of.Sel.Name
		}
	}
	return ""
}

func methodsOf(found map[string]*declared, name string) int {
	d := found[name]
	if d == nil {
		return 1
	}
	n := d.own
	for _, e := range d.embeds {
		n += methodsOf(found, e)
	}
	return n
}
