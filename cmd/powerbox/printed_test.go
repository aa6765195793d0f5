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
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// placeholder stands for a value that a page or message fills in.
const placeholder = "X"

var (
	codeOfPage = regexp.MustCompile(`<code>(powerbox [^<]*)</code>`)
	madeByPage = regexp.MustCompile(`\(print ("powerbox [^)]*)\)`)
	action     = regexp.MustCompile(`{{[^}]*}}`)
	verb       = regexp.MustCompile(`%(\[\d+\])?[a-zA-Z]`)
	// commandLine is a command in a sentence: it ends with the sentence, or a part of it.
	commandLine = regexp.MustCompile(`\bpowerbox ([a-z][^\n;:,()<>|` + "`" + `]*)`)
	words       = regexp.MustCompile(`'[^']*'|\S+`)
)

// TestPrintedCommandsParse: what a page or message tells people to run is taken by the command
// that it names: its flags, its arguments and its required flags.
func TestPrintedCommandsParse(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../../internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		switch filepath.Ext(name) {
		case ".html":
			for _, line := range commandsOfPage(t, name) {
				seen++
				if problem := wrongCommand(line, true); problem != "" {
					t.Errorf("%s: %q: %s", name, line, problem)
				}
			}
		case ".go":
			for _, text := range textsOf(t, name) {
				whole := strings.HasPrefix(text, "powerbox ") && !strings.ContainsAny(text, "\n:;,.")
				for _, m := range commandLine.FindAllString(text, -1) {
					seen++
					if problem := wrongCommand(m, whole && m == text && strings.Contains(m, " --")); problem != "" {
						t.Errorf("%s: %q: %s", name, m, problem)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 200 {
		t.Errorf("%d commands were found; are all pages and messages read?", seen)
	}
}

// TestWrongPrintedCommandsAreFound: the check above finds what a command refuses.
func TestWrongPrintedCommandsAreFound(t *testing.T) {
	for line, whole := range map[string]bool{
		"powerbox thaw agent:tools": true, "powerbox report --nothing": true, "powerbox capability lists": true,
		"powerbox report --nothing to see": false,
	} {
		if wrongCommand(line, whole) == "" {
			t.Errorf("%q is taken", line)
		}
	}
	for line, whole := range map[string]bool{
		"powerbox thaw agent:tools --reason 'it is fixed'": true, "powerbox report": true, "powerbox thaw ends it": false, "powerbox is not ready": false,
	} {
		if problem := wrongCommand(line, whole); problem != "" {
			t.Errorf("%q: %s", line, problem)
		}
	}
}

func commandsOfPage(t *testing.T, name string) []string {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range codeOfPage.FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], " ") {
			out = append(out, action.ReplaceAllString(m[1], placeholder))
		}
	}
	for _, m := range madeByPage.FindAllStringSubmatch(string(page), -1) {
		line := ""
		for n, part := range strings.Split(m[1], `"`) {
			if n%2 == 1 {
				line += part
			} else if strings.TrimSpace(part) != "" {
				line += placeholder
			}
		}
		out = append(out, line)
	}
	return out
}

// textsOf are the texts of a file of Go, with a placeholder for each value in them.
func textsOf(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr, *ast.BasicLit:
			if text, ok := textOf(n.(ast.Expr)); ok {
				out = append(out, verb.ReplaceAllString(text, placeholder))
				return false
			}
		}
		return true
	})
	return out
}

// textOf is the text that an expression adds up, false for one of another kind.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := textOf(e.X)
		right, also := textOf(e.Y)
		if e.Op != token.ADD || !ok && !also {
			return "", false
		}
		if !ok {
			left = placeholder
		}
		if !also {
			right = placeholder
		}
		return left + right, true
	}
	return "", false
}

// wrongCommand says why a command line is refused, "" for one that is taken. Of a line within a
// sentence, its command and its flags are looked at; the words around them may be prose.
func wrongCommand(line string, whole bool) string {
	root := newRoot(&cli.Program{Env: func(string) string { return "" }, Now: time.Now})
	args := words.FindAllString(line, -1)[1:]
	found, rest, err := root.Find(args)
	if err != nil || found == root {
		if whole {
			return fmt.Sprintf("there is no such command: %v", err)
		}
		return "" // a sentence about the program
	}
	for n, arg := range rest {
		if arg == "--" {
			rest = rest[:n]
			break
		}
		flag, isFlag := strings.CutPrefix(arg, "--")
		flag, _, _ = strings.Cut(flag, "=")
		flag = strings.TrimRight(flag, ".")
		if isFlag && flag == "help" {
			return ""
		}
		if isFlag && found.Flag(flag) == nil && found.Flag(strings.TrimSuffix(flag, placeholder)) == nil {
			return "it has no flag " + arg
		}
	}
	if !whole || len(rest) == 0 { // a name alone is a word of the sentence
		return ""
	}
	if !found.Runnable() {
		return "it does nothing without a subcommand"
	}
	if err := found.ParseFlags(rest); err != nil {
		return err.Error()
	}
	problem := ""
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		problem = err.Error()
	}
	if err := found.ValidateRequiredFlags(); err != nil {
		problem = err.Error()
	}
	found.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.Contains(f.Usage, "required") && !f.Changed && !strings.Contains(f.Usage, "required for") {
			problem = "--" + f.Name + " is missing"
		}
	})
	return problem
}
