package shell

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of the input, so that a hostile line costs no more than an honest one.
const (
	MaxBytes    = 64 << 10
	maxCommands = 256
	maxDepth    = 16
	maxDirs     = 8
)

// assignable are variables that change how a program prints or compiles, and cannot make it
// run another program.
var assignable = []string{"LANG", "LC_ALL", "TZ", "NO_COLOR", "CI", "GOOS", "GOARCH", "CGO_ENABLED"}

type reader struct {
	place    Place
	commands []Command
	depth    int
}

// Parse reads a command line and returns its simple commands. An error is an [UnclearError]:
// nothing of the line may run.
func Parse(line string, at Place) ([]Command, error) {
	if len(line) > MaxBytes {
		return nil, unclear(CodeSyntax, "the command line has more than %d bytes", MaxBytes)
	}
	if err := plainText(line); err != nil {
		return nil, err
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, unclear(CodeSyntax, "the command line is no bash: %v", err)
	}
	dir, err := at.Resolve("/", at.Dir)
	if err != nil {
		return nil, err
	}
	r := &reader{place: at}
	if _, err := r.stmts(file.Stmts, []string{dir}); err != nil {
		return nil, err
	}
	return r.commands, nil
}

// plainText refuses characters that people do not see and shells treat differently.
func plainText(line string) error {
	if !utf8.ValidString(line) {
		return unclear(CodeSyntax, "the command line is not UTF-8")
	}
	for _, c := range line {
		switch {
		case c == '\n' || c == '\t' || c == ' ':
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), unicode.IsSpace(c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
			return unclear(CodeSyntax, "the command line has the invisible character U+%04X", c)
		}
	}
	return nil
}

// stmts reads statements that run one after the other. dirs are the folders in which the
// first can run; the result has those in which the next can.
func (r *reader) stmts(list []*syntax.Stmt, dirs []string) ([]string, error) {
	if r.depth++; r.depth > maxDepth {
		return nil, unclear(CodeSyntax, "the command line is nested more than %d deep", maxDepth)
	}
	defer func() { r.depth-- }()
	for _, s := range list {
		after, err := r.stmt(s, dirs)
		if err != nil {
			return nil, err
		}
		// A cd may have failed, and the list continues anyway.
		if dirs, err = join(dirs, after); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

func join(a, b []string) ([]string, error) {
	all := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	if len(all) > maxDirs {
		return nil, unclear(CodeUnclear, "after so many cd the folder is unclear")
	}
	return all, nil
}

// stmt reads one statement. The result has the folders in which a command behind && runs.
func (r *reader) stmt(s *syntax.Stmt, dirs []string) ([]string, error) {
	if s.Coprocess || s.Disown {
		return nil, unclear(CodeUnclear, "a coprocess cannot be judged")
	}
	redirects, err := r.redirects(s.Redirs, dirs)
	if err != nil {
		return nil, err
	}
	before := len(r.commands)
	after, err := r.command(s.Cmd, dirs)
	if err != nil {
		return nil, err
	}
	if len(r.commands) == before && len(redirects) > 0 {
		r.commands = append(r.commands, Command{Words: []string{":"}, Name: ":"}) // "> file" alone empties the file
	}
	if len(redirects) > 0 {
		last := &r.commands[len(r.commands)-1]
		last.Redirects = append(last.Redirects, redirects...)
	}
	switch {
	case s.Background:
		return dirs, nil
	case s.Negated: // what follows && runs because the command failed
		return join(dirs, after)
	}
	return after, nil
}

func (r *reader) command(c syntax.Command, dirs []string) ([]string, error) {
	switch c := c.(type) {
	case nil:
		return dirs, nil
	case *syntax.CallExpr:
		return r.call(c, dirs)
	case *syntax.BinaryCmd:
		return r.binary(c, dirs)
	case *syntax.Subshell:
		_, err := r.stmts(c.Stmts, dirs)
		return dirs, err
	case *syntax.Block:
		return r.stmts(c.Stmts, dirs)
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return dirs, nil
		}
		return r.stmt(c.Stmt, dirs)
	case *syntax.IfClause:
		return r.branches(c, dirs)
	}
	return nil, unclear(CodeUnclear, "functions, loops, tests and declarations cannot be judged before they run; write the commands out")
}

func (r *reader) branches(c *syntax.IfClause, dirs []string) ([]string, error) {
	for ; c != nil; c = c.Else {
		for _, list := range [][]*syntax.Stmt{c.Cond, c.Then} {
			after, err := r.stmts(list, dirs)
			if err != nil {
				return nil, err
			}
			if dirs, err = join(dirs, after); err != nil {
				return nil, err
			}
		}
	}
	return dirs, nil
}

func (r *reader) binary(c *syntax.BinaryCmd, dirs []string) ([]string, error) {
	x, err := r.stmt(c.X, dirs)
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case syntax.AndStmt: // Y runs only where X succeeded
		return r.stmt(c.Y, x)
	case syntax.OrStmt:
		if x, err = join(dirs, x); err != nil {
			return nil, err
		}
		y, err := r.stmt(c.Y, x)
		if err != nil {
			return nil, err
		}
		return join(x, y)
	case syntax.Pipe, syntax.PipeAll: // the last part keeps its folder in some shells
		y, err := r.stmt(c.Y, dirs)
		if err != nil {
			return nil, err
		}
		return join(dirs, y)
	}
	return nil, unclear(CodeUnclear, "an operator between commands cannot be judged")
}

// call reads one simple command.
func (r *reader) call(c *syntax.CallExpr, dirs []string) ([]string, error) {
	for _, a := range c.Assigns {
		if len(c.Args) == 0 || a.Append || a.Naked || a.Index != nil || a.Array != nil || !slices.Contains(assignable, a.Name.Value) {
			return nil, unclear(CodeUnclear, "setting the variable %s can make programs run others", a.Name.Value)
		}
		if a.Value == nil {
			continue
		}
		if v, err := r.word(a.Value, dirs); err != nil {
			return nil, err
		} else if v.dynamic {
			return nil, unclear(CodeUnclear, "the value of %s is unclear", a.Name.Value)
		}
	}
	if len(c.Args) == 0 {
		return dirs, nil
	}
	var words []piece
	for _, w := range c.Args {
		p, err := r.word(w, dirs)
		if err != nil {
			return nil, err
		}
		if !p.glob || p.dynamic {
			words = append(words, p)
			continue
		}
		names, err := r.expand(p, dirs)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			words = append(words, piece{text: name, quoted: true})
		}
	}
	return r.simple(words, dirs)
}

// simple judges the words of one simple command.
func (r *reader) simple(words []piece, dirs []string) ([]string, error) {
	if len(r.commands) >= maxCommands {
		return nil, unclear(CodeSyntax, "the command line has more than %d commands", maxCommands)
	}
	if words[0].dynamic || words[0].text == "" {
		return nil, unclear(CodeUnclear, "the name of a command is unclear")
	}
	if words[0].text == "cd" {
		return r.cd(words, dirs)
	}
	if inner := wrapped(words); inner != nil {
		return r.simple(inner, dirs)
	}
	j := judge{place: r.place, dirs: dirs}
	name, err := j.judge(words)
	command := Command{Name: name, Acts: j.acts, Unclear: err, Dirs: dirs}
	if err != nil {
		command.Name, command.Acts = "", nil
	}
	for _, w := range words {
		if w.dynamic {
			if err != nil {
				return nil, unclear(CodeUnclear, "an argument of %s is unclear: only the shell knows its value", words[0].text)
			}
			w.text = "$"
		}
		command.Words = append(command.Words, w.text)
	}
	r.commands = append(r.commands, command)
	return dirs, nil
}

// cd moves to a folder. Only a path that says where it leads will do.
func (r *reader) cd(words []piece, dirs []string) ([]string, error) {
	if len(words) == 3 && words[1].text == "--" && !words[1].dynamic {
		words = []piece{words[0], words[2]}
	}
	if len(words) != 2 || words[1].dynamic || words[1].text == "" || strings.HasPrefix(words[1].text, "-") || strings.HasPrefix(words[1].text, "+") {
		return nil, unclear(CodeUnclear, "cd needs one folder that is written out")
	}
	command := Command{Words: []string{"cd", words[1].text}, Name: "cd", Dirs: dirs}
	var after []string
	for _, dir := range dirs {
		to, err := r.place.Resolve(dir, words[1].text)
		if err != nil {
			return nil, err
		}
		command.Acts = append(command.Acts, Act{Read, to})
		if !slices.Contains(after, to) {
			after = append(after, to)
		}
	}
	r.commands = append(r.commands, command)
	return after, nil
}

// Words returns the words of a line that is one simple command without anything that a shell
// would replace.
func Words(line string) ([]string, error) {
	if err := plainText(line); err != nil {
		return nil, err
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, unclear(CodeSyntax, "%q is no command: %v", line, err)
	}
	if len(file.Stmts) != 1 || len(file.Stmts[0].Redirs) > 0 || file.Stmts[0].Background || file.Stmts[0].Negated {
		return nil, unclear(CodeSyntax, "%q is not one simple command", line)
	}
	call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, unclear(CodeSyntax, "%q is not one simple command", line)
	}
	r := &reader{}
	var out []string
	for _, w := range call.Args {
		p, err := r.word(w, nil)
		if err != nil {
			return nil, err
		}
		if p.dynamic || p.glob {
			return nil, unclear(CodeUnclear, "%q has a word that the shell replaces", line)
		}
		out = append(out, p.text)
	}
	return out, nil
}

// Quote returns words as [Command.Line] does.
func Quote(words []string) string { return Command{Words: words}.Line() }
