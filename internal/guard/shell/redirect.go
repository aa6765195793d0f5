package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects reads the redirections of a statement, with the commands inside them.
func (r *reader) redirects(list []*syntax.Redirect, dirs []string) ([]Act, error) {
	var acts []Act
	for _, d := range list {
		if d.N != nil && strings.Trim(d.N.Value, "0123456789") != "" {
			return nil, unclear(CodeUnclear, "a redirection to a variable cannot be judged")
		}
		if d.Hdoc != nil {
			if err := r.document(d, dirs); err != nil {
				return nil, err
			}
			continue
		}
		p, err := r.word(d.Word, dirs)
		if err != nil {
			return nil, err
		}
		if d.Op == syntax.WordHdoc { // text for standard input
			continue
		}
		if p.dynamic || p.glob || p.text == "" || strings.HasPrefix(p.text, "!") {
			return nil, unclear(CodeUnclear, "the file of a redirection is unclear")
		}
		more, err := r.redirect(d.Op, p, dirs)
		if err != nil {
			return nil, err
		}
		acts = append(acts, more...)
	}
	return acts, nil
}

// document reads a here-document, whose text can have commands in it.
func (r *reader) document(d *syntax.Redirect, dirs []string) error {
	var ignored strings.Builder
	var out piece
	for _, part := range d.Hdoc.Parts {
		if _, ok := part.(*syntax.Lit); ok {
			continue
		}
		if err := r.expansion(part, dirs, &ignored, &out); err != nil {
			return err
		}
	}
	return nil
}

// harmlessFiles are files of the system that keep nothing.
func harmlessFile(name string) bool {
	return name == "/dev/null" || name == "/dev/stdout" || name == "/dev/stderr"
}

func (r *reader) redirect(op syntax.RedirOperator, p piece, dirs []string) ([]Act, error) {
	kind := Write
	switch op {
	case syntax.RdrIn:
		kind = Read
	case syntax.DplIn, syntax.DplOut: // 2>&1 names a descriptor, >&file a file
		if p.text == "-" || strings.Trim(p.text, "0123456789") == "" {
			return nil, nil
		}
		if op == syntax.DplIn || strings.HasSuffix(p.text, "-") && strings.Trim(p.text, "0123456789-") == "" {
			return nil, unclear(CodeUnclear, "a redirection of descriptors cannot be judged")
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
	default:
		return nil, unclear(CodeUnclear, "the redirection %s cannot be judged", op)
	}
	if harmlessFile(p.text) {
		return nil, nil
	}
	var acts []Act
	for _, dir := range dirs {
		to, err := r.place.Resolve(dir, p.text)
		if err != nil {
			return nil, err
		}
		if within(to, "/dev") || within(to, "/proc") {
			return nil, unclear(CodeUnclear, "a redirection to %s can reach the network or other programs", p.text)
		}
		acts = append(acts, Act{kind, to})
	}
	return acts, nil
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
