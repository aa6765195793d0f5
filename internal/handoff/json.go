package handoff

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxDepth is how many arrays and objects may stand inside each other.
const maxDepth = 16

// parseJSON reads JSON into the nodes that YAML has, with lines. A member that is
// there twice is an error.
func parseJSON(data []byte) (*yaml.Node, error) {
	p := jsonReader{d: jsontext.NewDecoder(bytes.NewBuffer(data)), data: data, line: 1}
	root, err := p.node()
	if err != nil {
		return nil, err
	}
	if _, err := p.d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data behind the value; want one JSON value")
	}
	return root, nil
}

type jsonReader struct {
	d    *jsontext.Decoder
	data []byte
	at   int64
	line int
}

// here is the line that the last token ends on.
func (p *jsonReader) here() int {
	offset := p.d.InputOffset()
	p.line += bytes.Count(p.data[p.at:offset], []byte{'\n'})
	p.at = offset
	return p.line
}

func (p *jsonReader) node() (*yaml.Node, error) {
	t, err := p.d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.here()}
	switch t.Kind() {
	case '"':
		n.Tag, n.Value = "!!str", t.String()
	case '0':
		n.Tag, n.Value = "!!int", t.String()
	case 'n':
		n.Tag = "!!null"
	case 't', 'f':
		n.Tag, n.Value = "!!bool", t.String()
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	default:
	}
	if n.Kind == yaml.ScalarNode {
		return n, nil
	}
	if p.d.StackDepth() > maxDepth {
		return nil, fmt.Errorf("line %d: nested deeper than %d levels", n.Line, maxDepth)
	}
	for k := p.d.PeekKind(); k != '}' && k != ']'; k = p.d.PeekKind() {
		child, err := p.node()
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	_, err = p.d.ReadToken()
	return n, err
}
