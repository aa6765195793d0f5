package lang

import (
	"cmp"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
)

// pagesOf are the packages whose texts the catalogues translate.
var pagesOf = []string{"../operations", "../console"}

// texts are the English texts of the console, each with a place where it is.
func textsInUse(t *testing.T) (pages, code, scripts map[string]string) {
	t.Helper()
	pages, code, scripts = map[string]string{}, map[string]string{}, map[string]string{}
	call := regexp.MustCompile(`\b(?:t|said)\("((?:[^"\\]|\\.)*)"`)
	for _, folder := range pagesOf {
		for _, name := range matches(t, folder+"/pages/*.html") {
			for _, part := range Parts(contents(t, name)) {
				pages[part] = name
			}
		}
		for _, name := range matches(t, folder+"/*.go") {
			if !strings.HasSuffix(name, "_test.go") {
				said, _ := literals(t, name)
				for _, text := range said {
					code[text] = name
				}
			}
		}
		for _, name := range matches(t, folder+"/assets/*.js") {
			for _, m := range call.FindAllStringSubmatch(contents(t, name), -1) {
				scripts[m[1]] = name
			}
		}
	}
	return pages, code, scripts
}

func matches(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func contents(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// literals are the texts of a file of Go that are translated, and those that are not.
func literals(t *testing.T, name string) (said, left []string) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A message without values is translated where a page shows it.
	message := func(n ast.Expr) {
		if text, ok := literal(n); ok && prose.MatchString(text) && !strings.Contains(text, "%") {
			said = append(said, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false
		case *ast.CallExpr:
			switch f := called(n); {
			case f == "T" || f == "N" || f == "Mark":
				for i, argument := range n.Args {
					if text, ok := literal(argument); ok && (f != "N" || i < 3) {
						said = append(said, text)
					}
				}
				return f == "T" // an argument can be a text of its own
			case f == "Errorf" && isOf(n, "agentauth"):
				message(n.Args[1])
			case slices.Contains(errors, f):
				return false
			}
		case *ast.CompositeLit:
			if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Refused" {
				message(n.Elts[1])
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && prose.MatchString(text) {
				left = append(left, text)
			}
		}
		return true
	})
	left = slices.DeleteFunc(left, func(text string) bool { return slices.Contains(said, text) })
	return said, left
}

// errors are functions whose texts are for programs and logs.
var errors = []string{"Errorf", "New", "Fields", "ErrorContext", "WarnContext", "Quote"}

// prose is what looks like a text for people.
var prose = regexp.MustCompile(`[A-Za-z]{2,}[,:]? [A-Za-z]{2,}|^[A-Z][a-z]+\.$`)

func called(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// isOf reports whether a call is of a function of a package.
func isOf(n *ast.CallExpr, name string) bool {
	f, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == name
}

func literal(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != gotoken.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// TestGermanIsComplete wants a German text for every English one of the pages, of the code
// and of the scripts, and no German text that no page has.
func TestGermanIsComplete(t *testing.T) {
	pages, code, scripts := textsInUse(t)
	ofScripts := readFile("de/scripts.txt")
	all := map[string]string{}
	maps.Copy(all, pages)
	maps.Copy(all, code)
	for _, text := range slices.Sorted(maps.Keys(all)) {
		if !German.Has(text) {
			t.Errorf("German lacks a text of %s:\n%s\n", all[text], text)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(scripts)) {
		if ofScripts[text] == "" {
			t.Errorf("de/scripts.txt lacks a text of %s:\n%s\n", scripts[text], text)
		}
	}
	seen := map[string]string{}
	const last = "de/scripts.txt" // it repeats what both a page and a script say
	names := slices.DeleteFunc(matches(t, "de/*.txt"), func(name string) bool { return name == last || name == "de"+saidFile })
	for _, name := range append(names, last) {
		for text, german := range readFile(name) {
			if before, ok := seen[text]; ok && (before != german || name != last) {
				t.Errorf("%s has %q, which another catalogue has", name, text)
			}
			seen[text] = german
			used := all[text] != ""
			if name == last {
				used = scripts[text] != ""
			}
			if !used {
				t.Errorf("%s has a text that nothing uses: %s", name, text)
			}
		}
	}
}

// TestGermanKeepsPlaceholders wants the same values in both languages: the actions of a
// template, the verbs of a format, and the places of a script's text.
func TestGermanKeepsPlaceholders(t *testing.T) {
	pages, code, scripts := textsInUse(t)
	for text := range pages {
		if english, german := values(t, text), values(t, German.T(text)); !slices.Equal(english, german) {
			t.Errorf("the values of %q are\n%v\nin English, and in German\n%v", text, english, german)
		}
	}
	verb := regexp.MustCompile(`%(\[\d\])?[a-z%]`)
	place := regexp.MustCompile(`\{\d\}`)
	for texts, pattern := range map[*map[string]string]*regexp.Regexp{&code: verb, &scripts: place} {
		for text := range *texts {
			english, german := pattern.FindAllString(text, -1), pattern.FindAllString(cmp.Or(readFile("de/scripts.txt")[text], German.T(text)), -1)
			if pattern == verb {
				german = pattern.FindAllString(German.T(text), -1)
			}
			slices.Sort(english)
			slices.Sort(german)
			if !slices.Equal(english, german) {
				t.Errorf("the places of %q are %v in English, and %v in German", text, english, german)
			}
		}
	}
}

// values are the fields, variables, functions and texts in the actions of a template, without
// layouts of times.
func values(t *testing.T, text string) []string {
	t.Helper()
	tree := parse.New("text")
	tree.Mode = parse.SkipFuncCheck
	// Variables of the template around it are not known here.
	variables := ""
	for _, v := range regexp.MustCompile(`\$[a-z]+`).FindAllString(text, -1) {
		variables += "{{" + v + " := 0}}"
	}
	if _, err := tree.Parse(variables+text, "", "", map[string]*parse.Tree{}); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var out []string
	var walk func(parse.Node)
	walk = func(n parse.Node) {
		switch n := n.(type) {
		case *parse.ListNode:
			if n != nil {
				for _, one := range n.Nodes {
					walk(one)
				}
			}
		case *parse.ActionNode:
			walk(n.Pipe)
		case *parse.TemplateNode:
			out = append(out, "template "+n.Name)
			walk(n.Pipe)
		case *parse.IfNode:
			walk(&n.BranchNode)
		case *parse.RangeNode:
			walk(&n.BranchNode)
		case *parse.WithNode:
			walk(&n.BranchNode)
		case *parse.BranchNode:
			walk(n.Pipe)
			walk(n.List)
			walk(n.ElseList)
		case *parse.PipeNode:
			if n != nil {
				for _, c := range n.Cmds {
					for _, a := range c.Args {
						walk(a)
					}
				}
			}
		case *parse.StringNode:
			if !strings.Contains(n.Text, "15:04") {
				out = append(out, n.Quoted)
			}
		default:
			if n != nil && n.Type() != parse.NodeText {
				out = append(out, n.String())
			}
		}
	}
	walk(tree.Root)
	slices.Sort(out)
	return slices.Compact(out) // a language may name a value twice
}

// refusing are the packages whose refusals pages show, with the files whose refusals only
// programs read: agents, hosts and peers. A new file must be in German, or to stand here.
var refusing = map[string][]string{
	"../../people":           nil,
	"../../issuing/approval": nil,
	"../../issuing/provider": {
		"authenticate.go", "budget.go", "capability.go", "ciba.go", "data.go", "enroll.go", "execute.go", "lifecycle.go",
		"lifetime.go", "notify.go", "proof.go", "provider.go", "register.go", "said.go", "text.go", "token.go",
	},
}

// TestRefusalsOfPeopleAreInGerman wants every refusal that a person can meet on a page.
func TestRefusalsOfPeopleAreInGerman(t *testing.T) {
	german := readFile("de" + saidFile)
	verb := regexp.MustCompile(`%(\[\d\])?(\.\d+)?[a-z]`)
	for folder, programs := range refusing {
		for _, name := range matches(t, folder+"/*.go") {
			if strings.HasSuffix(name, "_test.go") || slices.Contains(programs, filepath.Base(name)) {
				continue
			}
			file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || called(call) != "Errorf" || !isOf(call, "agentauth") {
					return true
				}
				text, ok := literal(call.Args[1])
				if text = verb.ReplaceAllString(strings.ReplaceAll(text, "%q", `"%s"`), "%s"); ok && text != "%s" && german[text] == "" && !German.Has(text) {
					t.Errorf("German lacks a refusal of %s:\n%s\n", strings.TrimPrefix(name, "../../"), text)
				}
				return true
			})
		}
	}
}

// TestVerifierSaysWhatPagesTranslate wants each text and finding that the page translates in
// the verifier, and each finding of the verifier on the page.
func TestVerifierSaysWhatPagesTranslate(t *testing.T) {
	page, verifier := contents(t, "../console/assets/verify.js"), contents(t, "../../../evidence/verify.mjs")
	for _, m := range regexp.MustCompile(`\bsaid\("((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(page, -1) {
		for _, part := range regexp.MustCompile(`\{\d\}`).Split(m[1], -1) {
			for word := range strings.FieldsSeq(part) { // a text can be put together from two
				if !strings.Contains(verifier, word) {
					t.Errorf("the verifier does not say %q of %q", word, m[1])
				}
			}
		}
	}
	kinds := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:problem|absent|Wrong)\('([a-z_]+)'`).FindAllStringSubmatch(verifier, -1) {
		kinds[m[1]] = true
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ {4}([a-z_]+): t\("`).FindAllStringSubmatch(page, -1) {
		shown[m[1]] = true
	}
	if len(kinds) < 20 || !maps.Equal(kinds, shown) {
		t.Errorf("the verifier finds %v\nand the page words %v", slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(shown)))
	}
}

// TestTextsOutsideOfTheCatalogue lists the texts in Go code that look like sentences and are
// not translated. A new one must be translated, or stand in testdata/english.txt.
func TestTextsOutsideOfTheCatalogue(t *testing.T) {
	var got []string
	for _, folder := range pagesOf {
		for _, name := range matches(t, folder+"/*.go") {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			_, left := literals(t, name)
			for _, text := range left {
				got = append(got, strings.TrimPrefix(name, "../")+": "+strconv.Quote(text))
			}
		}
		quoted := regexp.MustCompile("([^(]|[^t]\\()([\"`])([A-Z]?[a-z]+[,.:]? [a-z]+[^\"`\n]*)[\"`]")
		for _, name := range matches(t, folder+"/assets/*.js") {
			for _, line := range strings.Split(contents(t, name), "\n") {
				if code, _, _ := strings.Cut(line, "//"); code != "" && !strings.Contains(code, " said(\"") {
					for _, m := range quoted.FindAllStringSubmatch(code, -1) {
						got = append(got, strings.TrimPrefix(name, "../")+": "+strconv.Quote(m[3]))
					}
				}
			}
		}
	}
	slices.Sort(got)
	want := strings.Split(strings.TrimSpace(contents(t, "testdata/english.txt")), "\n")
	for _, one := range got {
		if !slices.Contains(want, one) {
			t.Errorf("this text is not translated: call T with it, or add the line to testdata/english.txt\n%s", one)
		}
	}
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("testdata/english.txt has a line for no text: %s", one)
		}
	}
}
