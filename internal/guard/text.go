package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Redacted returns the need for records: without the words of an exact command, which can
// hold secrets, and without the path and query of a URL.
func (n Need) Redacted() string {
	if len(n.Arguments) == 0 {
		return n.Operation
	}
	value, _ := n.Arguments[0].Value.Text()
	switch n.Operation {
	case OpExact: // dir, line
		line, _ := n.Arguments[len(n.Arguments)-1].Value.Text()
		return n.Operation + " " + Digest(line)
	case OpStart, OpTool:
		if !PlainName(value) {
			return n.Operation
		}
	case OpFetch:
		u, err := url.Parse(value)
		if err != nil {
			return n.Operation
		}
		return n.Operation + " " + u.Host
	}
	return n.Operation + " " + value
}

// PlainName reports whether a text is a name, and not the words of a model.
func PlainName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == ""
}

// Digest stands for the words of an exact command, which the grant has as well.
func Digest(line string) string {
	sum := sha256.Sum256([]byte(line))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// Exactly returns the clause that admits the need and nothing else.
func (n Need) Exactly() (powerbox.Clause, error) {
	op, err := powerbox.ParseOperation(n.Operation)
	if err != nil {
		return powerbox.Clause{}, err
	}
	var fields []powerbox.Field
	for _, a := range n.Arguments {
		fields = append(fields, powerbox.Field{Name: a.Name, Constraint: powerbox.ExactValue{Value: a.Value}, Required: true})
	}
	shape, err := powerbox.NewShape(powerbox.RestNone, fields...)
	return powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape}, err
}

// Describe says what an authority permits, with paths relative to a project.
func Describe(a powerbox.Authority, project string) string {
	if a.IsEmpty() {
		return "nothing"
	}
	values := map[string][]string{}
	var names []string
	for _, c := range a.Clauses() {
		name := c.Pattern.Name()
		names = append(names, name)
		for _, f := range c.Shape.Fields() {
			if f.Name != "dir" {
				values[name] = append(values[name], admittedValues(f.Constraint, project)...)
			}
		}
	}
	var parts []string
	for _, name := range names {
		plain, asked := strings.CutPrefix(name, AskPrefix)
		var list []string
		for _, v := range values[name] {
			if !asked || !slices.Contains(values[plain], v) { // without a question as well
				list = append(list, v)
			}
		}
		switch {
		case len(list) == 0:
		case asked:
			parts = append(parts, plain+" "+strings.Join(list, ", ")+" (a person is asked)")
		default:
			parts = append(parts, name+" "+strings.Join(list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func admittedValues(c powerbox.Constraint, project string) []string {
	switch c := c.(type) {
	case powerbox.AnyOf:
		var out []string
		for _, one := range c.Constraints {
			out = append(out, admittedValues(one, project)...)
		}
		return out
	case powerbox.OneOf:
		var out []string
		for _, v := range c.Values {
			s, _ := v.Text()
			out = append(out, s)
		}
		return out
	case powerbox.ExactValue:
		s, _ := c.Value.Text()
		return []string{s}
	case powerbox.PathUnder:
		if rel, err := filepath.Rel(project, c.Root); err == nil && !strings.HasPrefix(rel, "..") {
			return []string{rel}
		}
		return []string{c.Root}
	case powerbox.Glob:
		return []string{c.Pattern}
	case powerbox.URLMatch:
		return c.Hosts
	case powerbox.All, powerbox.CIDR, powerbox.Contains, powerbox.NotOneOf, powerbox.Range, powerbox.Subset, powerbox.Wildcard:
	}
	return []string{c.JSON().String()}
}
