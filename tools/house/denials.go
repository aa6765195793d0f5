package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// denialsFile has, for people, every code that a denial can have.
const denialsFile = "docs/reference/denials.md"

// denialFolders are the packages whose codes reach callers or records.
var denialFolders = []string{".", "token", "gate", "internal/wire/a2a", "internal/issuing/issuer", "internal/issuing/approval", "internal/proxy/gateway", "internal/web/api", "internal/web/doors", "internal/remote/link", "internal/proxy/attach", "internal/guard", "internal/guard/shell", "internal/guard/daemon"}

var (
	codeName = regexp.MustCompile(`^([Cc]ode|[Rr]eason)[A-Z]\w*$`)
	codeText = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	codeRow  = regexp.MustCompile("(?m)^\\| (?:<a id=\"([a-z0-9_]+)\"></a>)?`([a-z0-9_]+)` \\|")
	codeOf   = map[string]bool{"Denial": true, "Reason": true, "Error": true, "Denied": true}
)

// denialCodes finds the codes in the code, each with a place: constants that
// are called Code... or Reason..., and texts under Code or Reason of what becomes
// a denial or stands on record.
func denialCodes(root string) (map[string]string, error) {
	found := map[string]string{}
	for _, folder := range denialFolders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, &fs.PathError{Op: "look for codes", Path: folder, Err: fs.ErrNotExist}
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			note := func(e ast.Expr) {
				if text, ok := literal(e); ok && codeText.MatchString(text) {
					found[text] = filepath.Join(folder, filepath.Base(file)) + ":" + strconv.Itoa(set.Position(e.Pos()).Line)
				}
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				noteCodes(n, note)
				return true
			})
		}
	}
	return found, nil
}

// noteCodes notes the codes that one node holds.
func noteCodes(n ast.Node, note func(ast.Expr)) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && codeName.MatchString(name.Name) {
				note(n.Values[i])
			}
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			inner, bare := e.(*ast.CompositeLit) // []Reason{{...}}
			if list, ok := n.Type.(*ast.ArrayType); ok && bare && inner.Type == nil && codeOf[typeWord(list.Elt)] {
				noteMembers(inner, note)
			}
		}
		if codeOf[typeWord(n.Type)] {
			noteMembers(n, note)
		}
	}
}

func noteMembers(n *ast.CompositeLit, note func(ast.Expr)) {
	for _, e := range n.Elts {
		member, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := member.Key.(*ast.Ident); ok && (key.Name == "Code" || key.Name == "Reason") {
			note(member.Value)
		}
	}
}

// typeWord is the last word of a type's name.
func typeWord(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// describedCodes are the codes that the document has a row for, each with the
// anchor that its row has.
func describedCodes(document string) map[string]string {
	described := map[string]string{}
	for _, row := range codeRow.FindAllStringSubmatch(document, -1) {
		described[row[2]] = row[1]
	}
	return described
}

// anchored gives every row the anchor that denials link to.
func anchored(document string) string {
	return codeRow.ReplaceAllString(document, "| <a id=\"$2\"></a>`$2` |")
}

// denials prints docs/reference/denials.md with an anchor in every row, or writes it.
func (h house) denials(args []string) error {
	name := filepath.Join(h.root, denialsFile)
	document, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "-write" {
		return os.WriteFile(name, []byte(anchored(string(document))), 0o644)
	}
	_, err = fmt.Fprint(h.stdout, anchored(string(document)))
	return err
}
