package shell

import (
	"fmt"
	"strings"
)

// Kind is what an act does.
type Kind uint8

// The kinds of acts.
const (
	Read   Kind = iota + 1 // a path
	Write                  // a path
	Delete                 // a path
	Fetch                  // a URL
)

// Act is one effect of a command on one target.
type Act struct {
	Kind   Kind
	Target string // absolute path with symbolic links resolved, or a URL
}

// Command is one simple command.
type Command struct {
	Words []string // as the program gets them
	Dirs  []string // the folders in which it can run
	// Name is the name of the command in the table, such as "go test"; "" where the table
	// has none, or Unclear says why it does not apply.
	Name string
	Acts []Act
	// Unclear says why the table cannot judge these words.
	Unclear error
	// Redirects are the acts of the redirections, which a grant of the exact words does not cover.
	Redirects []Act
}

// Line returns the words in one form, quoted where they need it. Two commands have the same
// line only if their words are the same.
func (c Command) Line() string {
	out := make([]string, len(c.Words))
	for i, w := range c.Words {
		out[i] = quote(w)
	}
	return strings.Join(out, " ")
}

// quote writes a word so that its ends are seen.
func quote(w string) string {
	plain := w != "" && strings.IndexFunc(w, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+", r)
	}) < 0
	if plain {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// UnclearError says which part of a command line cannot be judged before it runs.
type UnclearError struct {
	Code string // stable
	What string
}

// The codes of unclear command lines.
const (
	CodeSyntax  = "command_syntax"  // no shell reads it, or shells read it differently
	CodeUnclear = "command_unclear" // only the shell knows the value of a part
	CodeUnknown = "command_unknown" // the table does not have the command
	CodeFlag    = "flag_unknown"    // the table does not have the flag
)

func (e *UnclearError) Error() string { return e.What }

func unclear(code, format string, args ...any) error {
	return &UnclearError{Code: code, What: fmt.Sprintf(format, args...)}
}

// Place is where a command line runs.
type Place struct {
	Dir  string // absolute
	Home string // absolute, or ""
	// Link reads a symbolic link: its target, or "" where the path is none or does not exist.
	Link func(path string) (string, error)
	// List returns the names in a folder.
	List func(dir string) ([]string, error)
}
