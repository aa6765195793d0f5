package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/powerbox-project/powerbox"
)

// Operation is one operation, as a capability.
type Operation struct {
	Name        string // a to z, digits and _
	Description string
	Input       powerbox.Value // JSON Schema of its arguments
	Method      string
	URL         string // with {name} for arguments in the path
	Query       []string
	Header      []string
	Body        []string
	Whole       string // the argument that is the body, "" for none
}

// LeftOut is an operation that is not offered, and why.
type LeftOut struct{ Operation, Why string }

// Interface is the interface that a document describes.
type Interface struct {
	Title      string
	Base       string
	Operations []Operation
	Left       []LeftOut
}

// maxOperations bounds the operations of one document.
const maxOperations = 1000

// document is a document whose references can be followed.
type document struct{ root powerbox.Value }

// resolve follows a reference within the document.
func (d document) resolve(ref string) (powerbox.Value, error) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return powerbox.Value{}, fmt.Errorf("a reference to %q, which is outside of the document", clip(ref))
	}
	v := d.root
	for _, name := range strings.Split(path, "/") {
		if v, ok = v.Get(unescaped(name)); !ok {
			return powerbox.Value{}, fmt.Errorf("a reference to %q, which is not there", clip(ref))
		}
	}
	return v, nil
}

// followed is a value, or the one that it refers to.
func (d document) followed(v powerbox.Value) (powerbox.Value, error) {
	for range 16 {
		ref, ok := text(v, "$ref")
		if !ok {
			return v, nil
		}
		var err error
		if v, err = d.resolve(ref); err != nil {
			return v, err
		}
	}
	return v, errors.New("a reference that refers to references")
}

// Describe reads the operations of a document. Base is where the interface is; ""
// takes the first server of the document.
func Describe(root powerbox.Value, base string) (Interface, error) {
	version, _ := text(root, "openapi")
	if !strings.HasPrefix(version, "3.") {
		return Interface{}, fmt.Errorf("openapi: the document is of version %q; want OpenAPI 3", clip(version))
	}
	d := document{root}
	info, _ := root.Get("info")
	out := Interface{}
	out.Title, _ = text(info, "title")
	var err error
	if out.Base, err = d.base(base); err != nil {
		return Interface{}, err
	}
	paths, _ := root.Get("paths")
	items, _ := paths.Members()
	for _, item := range items {
		at, err := d.followed(item.Value)
		if err != nil {
			out.Left = append(out.Left, LeftOut{item.Name, err.Error()})
			continue
		}
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			op, ok := at.Get(method)
			if !ok {
				continue
			}
			one, err := d.operation(out.Base, item.Name, method, at, op)
			if err == nil && slices.ContainsFunc(out.Operations, func(o Operation) bool { return o.Name == one.Name }) {
				err = fmt.Errorf("another operation is called %s already", one.Name)
			}
			if err != nil {
				out.Left = append(out.Left, LeftOut{strings.ToUpper(method) + " " + item.Name, err.Error()})
				continue
			}
			if out.Operations = append(out.Operations, one); len(out.Operations) > maxOperations {
				return Interface{}, fmt.Errorf("openapi: the document has more than %d operations", maxOperations)
			}
		}
	}
	return out, nil
}

var variable = regexp.MustCompile(`\{([^{}]+)\}`)

// base is where the interface is, with the defaults of a server's variables.
func (d document) base(given string) (string, error) {
	at := given
	if at == "" {
		servers, _ := d.root.Get("servers")
		list, _ := servers.Elements()
		if len(list) == 0 {
			return "", errors.New("openapi: the document names no server; say where the interface is")
		}
		at, _ = text(list[0], "url")
		variables, _ := list[0].Get("variables")
		at = variable.ReplaceAllStringFunc(at, func(name string) string {
			v, _ := variables.Get(name[1 : len(name)-1])
			value, _ := text(v, "default")
			return value
		})
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("openapi: the interface is at %q; want an absolute http or https URL: say where it is", clip(at))
	}
	return strings.TrimRight(at, "/"), nil
}

// operation reads one operation.
func (d document) operation(base, path, method string, item, op powerbox.Value) (Operation, error) {
	id, _ := text(op, "operationId")
	o := Operation{Method: strings.ToUpper(method), Description: describe(op, method, path)}
	if o.Name = Name(id); o.Name == "" {
		o.Name = Name(method + " " + path)
	}
	if o.Name == "" || !strings.HasPrefix(path, "/") {
		return o, errors.New("neither its id nor its path make a name")
	}
	a := &arguments{schemas: schemas{d, map[string]powerbox.Value{}}}
	if err := a.parameters(&o, item, op); err != nil {
		return o, err
	}
	for _, m := range variable.FindAllStringSubmatch(path, -1) {
		if !slices.Contains(a.inPath, m[1]) {
			return o, fmt.Errorf("its path has {%s}, which is no parameter", clip(m[1]))
		}
	}
	for _, name := range a.inPath {
		if !strings.Contains(path, "{"+name+"}") {
			return o, fmt.Errorf("parameter %q is not in its path", clip(name))
		}
	}
	o.URL = base + path
	if err := a.body(&o, op); err != nil {
		return o, err
	}
	o.Input = a.input()
	return o, nil
}

// Name makes a capability's name of an identifier: words in small letters, joined by _.
func Name(id string) string {
	var b strings.Builder
	before := '_'
	for _, r := range id {
		switch {
		case r >= 'A' && r <= 'Z':
			if unicode.IsLower(before) || unicode.IsDigit(before) {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(r))
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case before != '_':
			b.WriteByte('_')
			r = '_'
		default:
			r = '_'
		}
		before = r
	}
	name := strings.Trim(b.String(), "_")
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	return name[:min(len(name), 128)]
}

// describe is one sentence for the people who decide.
func describe(op powerbox.Value, method, path string) string {
	for _, member := range []string{"summary", "description"} {
		said, _ := text(op, member)
		if said = Sentence(said); said != "" {
			return said
		}
	}
	return strings.ToUpper(method) + " " + path
}

// longest bounds a description, in characters.
const longest = 200

// Sentence is the first paragraph of a text on one line, without invisible characters.
func Sentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > longest {
		return string(runes[:longest-3]) + "..."
	}
	return string(runes)
}
