package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
)

// maxDepth is the deepest nesting of a catalogue: document, items, item,
// attributes, set.
const maxDepth = 6

// node is a value of a document together with its place, which is what YAML and
// JSON have in common.
type node struct {
	line     int
	kind     powerbox.Kind
	scalar   powerbox.Value // of every kind but list and object
	elements []node
	fields   []field
}

type field struct {
	line  int
	name  string
	value node
}

// lineError is an error with its line; the file's name is added once.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func at(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

// document reads JSON where the first byte says so, else YAML.
func document(data []byte) (node, error) {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return jsonDocument(data)
	}
	return yamlDocument(data)
}

func yamlDocument(data []byte) (node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := d.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return node{}, at(1, "the document is empty; want items:")
		}
		return node{}, yamlError(err)
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return node{}, at(max(second.Line, 1), "a second document; want exactly one")
	}
	return yamlNode(root.Content[0], maxDepth)
}

// yamlError finds the line in what the decoder says, since it has no field.
func yamlError(err error) error {
	line := 1
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return at(max(line, 1), "not YAML: %s", text)
}

func yamlNode(y *yaml.Node, depth int) (node, error) {
	n := node{line: y.Line}
	if depth == 0 {
		return n, at(y.Line, "nested too deep; want at most %d levels", maxDepth)
	}
	if y.Anchor != "" || y.Kind == yaml.AliasNode {
		return n, at(y.Line, "anchors and aliases are refused; write the value out")
	}
	switch y.Kind {
	case yaml.SequenceNode:
		n.kind = powerbox.KindList
		for _, e := range y.Content {
			element, err := yamlNode(e, depth-1)
			if err != nil {
				return n, err
			}
			n.elements = append(n.elements, element)
		}
		return n, nil
	case yaml.MappingNode:
		return yamlMapping(y, depth)
	case yaml.ScalarNode:
		var err error
		n.scalar, err = yamlScalar(y)
		n.kind = n.scalar.Kind()
		return n, err
	default:
		return n, at(y.Line, "want a value")
	}
}

func yamlMapping(y *yaml.Node, depth int) (node, error) {
	n := node{line: y.Line, kind: powerbox.KindObject}
	for pair := range slices.Chunk(y.Content, 2) {
		key := pair[0]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
			return n, at(key.Line, "a key is not a plain string; want one (quote it if it looks like something else)")
		}
		value, err := yamlNode(pair[1], depth-1)
		if err != nil {
			return n, err
		}
		if n, err = n.with(field{key.Line, key.Value, value}); err != nil {
			return n, err
		}
	}
	return n, nil
}

// yamlScalar accepts what JSON would read the same way: no octal or hexadecimal
// numbers, no dates, no infinities.
func yamlScalar(y *yaml.Node) (powerbox.Value, error) {
	switch tag := y.ShortTag(); tag {
	case "!!str":
		return powerbox.String(y.Value), nil
	case "!!bool":
		if y.Value == "true" || y.Value == "false" {
			return powerbox.Bool(y.Value == "true"), nil
		}
		return powerbox.Value{}, at(y.Line, "%s; want true or false, or quotes around it", y.Value)
	case "!!int", "!!float":
		d, err := powerbox.ParseDecimal(y.Value)
		if err != nil {
			return powerbox.Value{}, at(y.Line, "%w; quote it if it is text", err)
		}
		return powerbox.Number(d), nil
	case "!!null":
		return powerbox.Value{}, nil
	default:
		return powerbox.Value{}, at(y.Line, "%q is read as %s; quote it if it is text", y.Value, tag)
	}
}

// with adds a field and refuses a name that is already there.
func (n node) with(f field) (node, error) {
	for _, was := range n.fields {
		if was.name == f.name {
			return n, at(f.line, "%q is there twice; the first is in line %d", f.name, was.line)
		}
	}
	n.fields = append(n.fields, f)
	return n, nil
}

func jsonDocument(data []byte) (node, error) {
	r := jsonReader{data: data, d: jsontext.NewDecoder(bytes.NewReader(data))}
	root, err := r.node(maxDepth)
	if err != nil {
		return node{}, err
	}
	if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
		return node{}, at(r.line(), "data after the document; want exactly one")
	}
	return root, nil
}

// jsonReader builds nodes from tokens. Its decoder refuses duplicate names and
// invalid UTF-8.
type jsonReader struct {
	data []byte
	d    *jsontext.Decoder
}

func (r jsonReader) line() int { return lineOf(r.data, r.d.InputOffset()) }

func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

func (r jsonReader) token() (jsontext.Token, int, error) {
	t, err := r.d.ReadToken()
	if err == nil {
		return t, r.line(), nil
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return t, 0, at(lineOf(r.data, syntax.ByteOffset), "not JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return t, 0, at(r.line(), "the document ends too early")
}

func (r jsonReader) node(depth int) (node, error) {
	t, line, err := r.token()
	if err != nil {
		return node{}, err
	}
	if depth == 0 {
		return node{}, at(line, "nested too deep; want at most %d levels", maxDepth)
	}
	n := node{line: line}
	switch t.Kind() {
	case '{':
		n.kind = powerbox.KindObject
		return r.object(n, depth)
	case '[':
		n.kind = powerbox.KindList
		return r.array(n, depth)
	case '"':
		n.scalar = powerbox.String(t.String())
	case 't', 'f':
		n.scalar = powerbox.Bool(t.Bool())
	case '0':
		d, err := powerbox.ParseDecimal(t.String())
		if err != nil {
			return n, at(line, "%w", err)
		}
		n.scalar = powerbox.Number(d)
	default: // null, which the zero scalar is: no other token begins a value
	}
	n.kind = n.scalar.Kind()
	return n, nil
}

func (r jsonReader) object(n node, depth int) (node, error) {
	for r.d.PeekKind() != '}' {
		name, line, err := r.token()
		if err != nil {
			return n, err
		}
		text := name.String() // the token is void after the next read
		value, err := r.node(depth - 1)
		if err != nil {
			return n, err
		}
		n.fields = append(n.fields, field{line, text, value})
	}
	_, _, err := r.token()
	return n, err
}

func (r jsonReader) array(n node, depth int) (node, error) {
	for r.d.PeekKind() != ']' {
		element, err := r.node(depth - 1)
		if err != nil {
			return n, err
		}
		n.elements = append(n.elements, element)
	}
	_, _, err := r.token()
	return n, err
}
