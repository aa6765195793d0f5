package guard

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

// The operations of coding agents. What a person is asked about has the same name behind
// [AskPrefix].
const (
	OpRead   = "files/read"   // path
	OpEdit   = "files/edit"   // path
	OpDelete = "files/delete" // path
	OpRun    = "shell/run"    // command, a command of the table
	OpExact  = "shell/exact"  // line and dir, words that the grant has
	OpFetch  = "net/fetch"    // url
	OpSearch = "net/search"   // engine
	OpTool   = "mcp/call"     // tool
	OpStart  = "agents/start" // type

	AskPrefix = "ask/"
)

// Need is one attempt: an operation with its arguments.
type Need struct {
	Operation string
	Arguments []powerbox.Member
}

// String returns the need for people.
func (n Need) String() string {
	out := n.Operation
	for _, a := range n.Arguments {
		s, _ := a.Value.Text()
		out += " " + s
	}
	return out
}

func need(operation, argument, value string) Need {
	return Need{Operation: operation, Arguments: []powerbox.Member{{Name: argument, Value: powerbox.String(value)}}}
}

// Step is a part of a call that is decided as a whole.
type Step struct {
	Always  []Need // needed in any case
	Table   []Need // needed if the command is judged by the table
	Exact   *Need  // suffices in place of Table
	Unclear error  // why the table does not apply
}

// Attempts returns what a call needs. An error says why it cannot be judged.
func Attempts(c Call, at shell.Place) ([]Step, error) {
	switch c.Kind {
	case Shell:
		return shellSteps(c.Command, at)
	case Reading:
		return pathSteps(at, OpRead, c.Paths)
	case Editing:
		steps, err := pathSteps(at, OpEdit, c.Paths)
		if err != nil || len(c.Deleted) == 0 {
			return steps, err
		}
		more, err := pathSteps(at, OpDelete, c.Deleted)
		return append(steps, more...), err
	case Listing:
		return listSteps(c, at)
	case Fetching:
		return always(need(OpFetch, "url", c.URL)), nil
	case Searching:
		return always(need(OpSearch, "engine", "web")), nil
	case MCP:
		return always(need(OpTool, "tool", c.Server+"/"+c.Tool)), nil
	case Starting:
		return always(need(OpStart, "type", c.Type)), nil
	case Harmless:
		return nil, nil
	default:
	}
	return nil, &shell.UnclearError{Code: CodeTool, What: fmt.Sprintf("the tool %q is not known; it is denied", c.Tool)}
}

// CodeTool is of a call of a tool that no client file knows.
const CodeTool = "tool_unknown"

func always(n Need) []Step { return []Step{{Always: []Need{n}}} }

func pathSteps(at shell.Place, operation string, names []string) ([]Step, error) {
	if len(names) == 0 && operation != OpEdit {
		return nil, &shell.UnclearError{Code: shell.CodeUnclear, What: "the call names no path"}
	}
	var out Step
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "~/"); ok && at.Home != "" {
			name = at.Home + "/" + rest
		}
		to, err := at.Resolve(at.Dir, name)
		if err != nil {
			return nil, err
		}
		out.Always = append(out.Always, need(operation, "path", to))
	}
	return []Step{out}, nil
}

// listSteps reads the folder in which a pattern looks for files.
func listSteps(c Call, at shell.Place) ([]Step, error) {
	names := c.Paths
	if len(names) == 0 {
		names = []string{"."}
	}
	if slices.Contains(strings.Split(c.Pattern, "/"), "..") || strings.HasPrefix(c.Pattern, "~") {
		return nil, &shell.UnclearError{Code: shell.CodeUnclear, What: "the pattern leaves its folder; name the folder"}
	}
	if path.IsAbs(c.Pattern) {
		fixed, _ := path.Split(c.Pattern[:strings.IndexAny(c.Pattern+"*", "*?[{")])
		names = []string{fixed}
	}
	return pathSteps(at, OpRead, names)
}

func shellSteps(line string, at shell.Place) ([]Step, error) {
	commands, err := shell.Parse(line, at)
	if err != nil {
		return nil, err
	}
	if len(commands) == 0 {
		return nil, &shell.UnclearError{Code: shell.CodeSyntax, What: "the command line has no command"}
	}
	var out []Step
	for _, c := range commands {
		if path.Base(c.Words[0]) == "powerbox" {
			return nil, &shell.UnclearError{Code: CodeProtected, What: "a session cannot run powerbox, which guards it"}
		}
		s := Step{Always: acts(c.Redirects), Unclear: c.Unclear}
		if c.Unclear == nil {
			s.Table = acts(c.Acts)
			if !shell.Prints(c.Name) {
				s.Table = append(s.Table, need(OpRun, "command", c.Name))
			}
		}
		if len(c.Dirs) == 1 {
			exact := need(OpExact, "dir", c.Dirs[0])
			exact.Arguments = append(exact.Arguments, powerbox.Member{Name: "line", Value: powerbox.String(c.Line())})
			s.Exact = &exact
		}
		out = append(out, s)
	}
	return out, nil
}

func acts(list []shell.Act) []Need {
	var out []Need
	for _, a := range list {
		switch a.Kind {
		case shell.Read:
			out = append(out, need(OpRead, "path", a.Target))
		case shell.Write:
			out = append(out, need(OpEdit, "path", a.Target))
		case shell.Delete:
			out = append(out, need(OpDelete, "path", a.Target))
		case shell.Fetch:
			out = append(out, need(OpFetch, "url", a.Target))
		}
	}
	return out
}

// codeOf returns the stable code of an error of [Attempts].
func codeOf(err error) string {
	if u := (*shell.UnclearError)(nil); errors.As(err, &u) {
		return u.Code
	}
	return shell.CodeUnclear
}

// Words returns the words of a program as the command line that runs it.
func Words(words []string) string { return shell.Quote(words) }
