package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// piece is one word after the expansions that can be known.
type piece struct {
	text    string
	dynamic bool // only the shell knows its value
	glob    bool // it has an unquoted * or ?
	tilde   bool // it begins with an unquoted tilde, which was replaced
	quoted  bool // some of it is quoted
}

// word reads one word. Substitutions inside it are read as commands, and make it dynamic.
func (r *reader) word(w *syntax.Word, dirs []string) (piece, error) {
	if w == nil {
		return piece{}, unclear(CodeSyntax, "a word is missing")
	}
	copied := *w
	copied.Parts = slices.Clone(w.Parts) // SplitBraces writes to what it is given
	syntax.SplitBraces(&copied)
	var out piece
	var text strings.Builder
	for i, part := range copied.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			s, err := r.literal(part.Value, i == 0, len(copied.Parts) == 1, &out)
			if err != nil {
				return out, err
			}
			text.WriteString(s)
		case *syntax.SglQuoted:
			if part.Dollar {
				return out, unclear(CodeUnclear, "the quoting $'...' hides its characters; write them plainly")
			}
			out.quoted = true
			text.WriteString(part.Value)
		case *syntax.DblQuoted:
			if part.Dollar {
				return out, unclear(CodeUnclear, `the quoting $"..." depends on the language; write "..."`)
			}
			out.quoted = true
			if err := r.quoted(part.Parts, dirs, &text, &out); err != nil {
				return out, err
			}
		case *syntax.BraceExp:
			return out, unclear(CodeUnclear, "brace expansion makes several words of one; write them out")
		default:
			if err := r.expansion(part, dirs, &text, &out); err != nil {
				return out, err
			}
			out.dynamic = out.dynamic || !r.known(part)
			if r.known(part) {
				// An unquoted variable is split at spaces, and its stars match files.
				if v := text.String(); strings.ContainsAny(v, " \t\n*?[\\") {
					out.dynamic = true
				}
			}
		}
	}
	out.text = text.String()
	return out, nil
}

// literal reads the unquoted part of a word.
func (r *reader) literal(value string, first, whole bool, out *piece) (string, error) {
	var b strings.Builder
	rest := value
	if first && strings.HasPrefix(rest, "~") {
		home := r.place.Home
		switch {
		case home == "", rest != "~" && !strings.HasPrefix(rest, "~/"), rest == "~" && !whole:
			return "", unclear(CodeUnclear, "%q is another folder than the home folder; write its path", rest)
		}
		b.WriteString(home)
		out.tilde = true
		rest = rest[1:]
	}
	if first && strings.HasPrefix(rest, "=") {
		return "", unclear(CodeSyntax, "a word that begins with = is a program's path in zsh; quote it")
	}
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; c {
		case '\\':
			if i+1 == len(rest) {
				return "", unclear(CodeSyntax, "a backslash has nothing behind it")
			}
			i++
			if rest[i] != '\n' { // a continued line is no character
				b.WriteByte(rest[i])
				out.quoted = true
			}
		case '*', '?':
			out.glob = true
			b.WriteByte(c)
		case '[':
			return "", unclear(CodeUnclear, "[ matches files; quote it, or name the files")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// quoted reads the parts between double quotes.
func (r *reader) quoted(parts []syntax.WordPart, dirs []string, text *strings.Builder, out *piece) error {
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			if err := r.expansion(part, dirs, text, out); err != nil {
				return err
			}
			out.dynamic = out.dynamic || !r.known(part)
			continue
		}
		for i := 0; i < len(lit.Value); i++ {
			c := lit.Value[i]
			if c == '\\' && i+1 < len(lit.Value) && strings.IndexByte("$`\"\\\n", lit.Value[i+1]) >= 0 {
				i++
				if c = lit.Value[i]; c == '\n' {
					continue
				}
			}
			text.WriteByte(c)
		}
	}
	return nil
}

// known reports whether a part is a variable whose value the place says.
func (r *reader) known(part syntax.WordPart) bool {
	p, ok := part.(*syntax.ParamExp)
	return ok && p.Short && p.Param != nil && p.Param.Value == "HOME" && r.place.Home != "" && p.Index == nil
}

// expansion reads a part whose value the shell makes: the commands in it are read, and the
// word is dynamic.
func (r *reader) expansion(part syntax.WordPart, dirs []string, text *strings.Builder, out *piece) error {
	switch part := part.(type) {
	case *syntax.ParamExp:
		if r.known(part) {
			text.WriteString(r.place.Home)
			return nil
		}
		if !part.Short || part.Index != nil {
			return unclear(CodeUnclear, "a ${...} expansion can run commands; write its value")
		}
		out.dynamic = true
		return nil
	case *syntax.CmdSubst:
		if part.TempFile || part.ReplyVar {
			return unclear(CodeUnclear, "${ ...; } runs commands in the shell itself")
		}
		out.dynamic = true
		_, err := r.stmts(part.Stmts, dirs)
		return err
	case *syntax.ProcSubst:
		out.dynamic = true
		_, err := r.stmts(part.Stmts, dirs)
		return err
	}
	return unclear(CodeUnclear, "an expansion can run commands; write its value")
}

// maxMatches bounds the files that one pattern may stand for.
const maxMatches = 256

// expand returns the words that a pattern stands for in a folder. Only the last part may be
// a pattern, so that no symbolic link in between decides where it leads.
func (r *reader) expand(p piece, dirs []string) ([]string, error) {
	if p.quoted || len(dirs) != 1 {
		return nil, unclear(CodeUnclear, "the pattern %q cannot be judged; name the files", p.text)
	}
	dir, last := path.Split(p.text)
	if strings.ContainsAny(dir, "*?") {
		return nil, unclear(CodeUnclear, "the pattern %q matches folders; name the folder", p.text)
	}
	at, err := r.place.Resolve(dirs[0], dir+".")
	if err != nil {
		return nil, err
	}
	names, err := r.place.List(at)
	if err != nil {
		return nil, unclear(CodeUnclear, "the files of the pattern %q cannot be listed: %v", p.text, err)
	}
	var out []string
	for _, name := range names {
		if ok, err := path.Match(last, name); err != nil || !ok || strings.HasPrefix(name, ".") && !strings.HasPrefix(last, ".") {
			continue
		}
		if strings.HasPrefix(dir+name, "-") {
			return nil, unclear(CodeUnclear, "the pattern %q matches a file whose name is a flag; write ./%s", p.text, p.text)
		}
		out = append(out, dir+name)
	}
	switch {
	case len(out) == 0:
		return nil, unclear(CodeUnclear, "the pattern %q matches no file", p.text)
	case len(out) > maxMatches:
		return nil, unclear(CodeUnclear, "the pattern %q matches more than %d files", p.text, maxMatches)
	}
	slices.Sort(out)
	return out, nil
}
