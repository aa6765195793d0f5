package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// A switched file has many removals at once, and a process makes at most one of them, by its
// environment: one program then serves for all. A removal is switched where it changes a
// condition or whole statements:
//
//	if a != b {            if (switched.On(7) && (false) || !switched.On(7) && (a != b)) {
//	check()                if switched.On(8) { } else { check() }
//
// What cannot be said so, such as the value of a constant, is removed in a separate build.

// edit is the text of one removal in a file.
type edit struct {
	number   int // of the check
	at, end  int // bytes of the file
	with     string
	old, new span // the switched text, here and with the removal
	cond     bool // a condition, otherwise statements
	inside   []*edit
}

type span struct{ at, end int }

func (s span) has(o span) bool { return s.at <= o.at && o.end <= s.end }

func (s span) size() int { return s.end - s.at }

// editOf is what a removal changes, without the text that stays as it is.
func editOf(number int, src, mutant string) *edit {
	at := 0
	for at < min(len(src), len(mutant)) && src[at] == mutant[at] {
		at++
	}
	tail := 0
	for tail < min(len(src), len(mutant))-at && src[len(src)-1-tail] == mutant[len(mutant)-1-tail] {
		tail++
	}
	return &edit{number: number, at: at, end: len(src) - tail, with: mutant[at : len(mutant)-tail]}
}

// outline is where the conditions and the lists of statements of a file are.
type outline struct {
	conds map[span]bool
	lists map[int][]span // statements, by where their list begins
}

func outlineOf(src string) (outline, error) {
	out := outline{map[span]bool{}, map[int][]span{}}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.SkipObjectResolution)
	if err != nil {
		return out, err
	}
	place := func(n ast.Node) span { return span{set.Position(n.Pos()).Offset, set.Position(n.End()).Offset} }
	var cond func(e ast.Expr)
	cond = func(e ast.Expr) {
		if e == nil {
			return
		}
		out.conds[place(e)] = true
		switch e := e.(type) {
		case *ast.ParenExpr:
			cond(e.X)
		case *ast.UnaryExpr:
			cond(e.X)
		case *ast.BinaryExpr:
			if e.Op == token.LAND || e.Op == token.LOR {
				cond(e.X)
				cond(e.Y)
			}
		}
	}
	list := func(begin token.Pos, all []ast.Stmt) {
		spans := make([]span, 0, len(all))
		for _, s := range all {
			spans = append(spans, place(s))
		}
		out.lists[set.Position(begin).Offset] = spans
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			cond(n.Cond)
		case *ast.ForStmt:
			cond(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, e := range clause.(*ast.CaseClause).List { //nolint:forcetypeassert // a switch has no other
						cond(e)
					}
				}
			}
		case *ast.BlockStmt:
			list(n.Lbrace, n.List)
		case *ast.CaseClause:
			list(n.Colon, n.Body)
		case *ast.CommClause:
			list(n.Colon, n.Body)
		}
		return true
	})
	return out, nil
}

// place finds the smallest part of the file that can be switched for the edit, and reports
// whether there is any.
func (e *edit) place(src string, before outline) bool {
	mutant := src[:e.at] + e.with + src[e.end:]
	after, err := outlineOf(mutant)
	if err != nil {
		return false
	}
	longer := len(mutant) - len(src)
	found := false
	take := func(old, now span, cond bool) {
		if !found || old.size() < e.old.size() {
			e.old, e.new, e.cond, found = old, now, cond, true
		}
	}
	changed := span{e.at, e.end}
	for s := range before.conds {
		if now := (span{s.at, s.end + longer}); s.has(changed) && after.conds[now] {
			take(s, now, true)
		}
	}
	for begin, old := range before.lists {
		if now, ok := after.lists[begin]; ok && begin < e.at {
			if a, b, ok := replaced(src, changed, old, now, longer); ok {
				take(a, b, false)
			}
		}
	}
	return found
}

// replaced is the statements of a list that an edit changes, and those in their place. Statements
// that declare something are switched with all that follows them.
func replaced(src string, changed span, old, now []span, longer int) (a, b span, ok bool) {
	first := 0
	for first < min(len(old), len(now)) && old[first].end < changed.at && old[first] == now[first] {
		first++
	}
	rest := 0 // behind the change
	for rest < min(len(old), len(now))-first {
		o, n := old[len(old)-1-rest], now[len(now)-1-rest]
		if o.at <= changed.end || n != (span{o.at + longer, o.end + longer}) {
			break
		}
		rest++
	}
	if first == len(old) || len(old)-rest <= first {
		return a, b, false
	}
	if declares(src[old[first].at:old[len(old)-rest-1].end]) {
		rest = 0
	}
	a = span{old[first].at, old[len(old)-rest-1].end}
	if changed.at < a.at && strings.TrimSpace(src[changed.at:a.at]) == "" {
		a.at = changed.at
	}
	if a.end < changed.end && strings.TrimSpace(src[a.end:changed.end]) == "" {
		a.end = changed.end
	}
	if !a.has(changed) {
		return a, b, false
	}
	b = span{a.at, a.end + longer}
	return a, b, true
}

// declares reports whether statements declare something that others behind them could use.
func declares(statements string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+statements+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return true
	}
	for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List { //nolint:forcetypeassert // as it is written above
		switch s := s.(type) {
		case *ast.DeclStmt, *ast.LabeledStmt:
			return true
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				return true
			}
		}
	}
	return false
}

// nest orders edits into a forest. It leaves out those that overlap others.
func nest(edits []*edit) (roots []*edit) {
	slices.SortStableFunc(edits, func(a, b *edit) int { return cmp.Or(b.old.size()-a.old.size(), a.number-b.number) })
	var put func(into *[]*edit, e *edit) bool
	put = func(into *[]*edit, e *edit) bool {
		for _, o := range *into {
			switch {
			case o.old.has(e.old):
				return put(&o.inside, e)
			case e.old.at < o.old.end && o.old.at < e.old.end:
				return false
			}
		}
		*into = append(*into, e)
		return true
	}
	for _, e := range edits {
		e.inside = nil
		put(&roots, e)
	}
	return roots
}

// switchedPackage is imported by switched files. It is only there in the overlay.
const switchedPackage = "internal/switched"

// switchedName is its name in a file, which no other code uses.
const switchedName = "switchedRemovals"

const switchedSource = `// Package switched makes one removal at a time.
package switched

import "os"

var on = os.Getenv("POWERBOX_REMOVED")

// On reports whether a removal is made.
func On(number string) bool { return number == on }
`

// switched is a file with its removals, and the lines of each.
type switched struct {
	text  string
	lines map[int]span
}

// switchFile writes the edits into a file.
func switchFile(src, modulePath string, roots []*edit) switched {
	out := switched{lines: map[int]span{}}
	var text strings.Builder
	line := func() int { return strings.Count(text.String(), "\n") + 1 }
	var emit func(s span, inside []*edit)
	emit = func(s span, inside []*edit) {
		slices.SortFunc(inside, func(a, b *edit) int { return a.old.at - b.old.at })
		at := s.at
		for _, e := range inside {
			text.WriteString(src[at:e.old.at])
			mutant := src[:e.at] + e.with + src[e.end:]
			begin, on, now := line(), fmt.Sprintf("%s.On(%q)", switchedName, fmt.Sprint(e.number)), mutant[e.new.at:e.new.end]
			if e.cond {
				text.WriteString("(" + on + " && (" + now + ") || !" + on + " && (")
				emit(e.old, e.inside)
				text.WriteString("))")
			} else {
				text.WriteString("if " + on + " {\n" + now + "\n} else {\n")
				emit(e.old, e.inside)
				text.WriteString("\n}")
			}
			out.lines[e.number] = span{begin, line()}
			at = e.old.end
		}
		text.WriteString(src[at:s.end])
	}
	emit(span{0, len(src)}, roots)
	out.text = importing(text.String(), path.Join(modulePath, switchedPackage))
	return out
}

// importing adds an import in the line of the package, so that no line moves.
func importing(text, name string) string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.PackageClauseOnly)
	if err != nil {
		return text
	}
	end := set.Position(file.Name.End()).Offset
	return text[:end] + fmt.Sprintf("; import %s %q", switchedName, name) + text[end:]
}
