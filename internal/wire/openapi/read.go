package openapi

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox"
)

// Bounds of a document.
const (
	MaxBytes = 16 << 20
	maxDepth = 128
	maxNodes = 1 << 20
)

// Read reads a document, JSON or YAML. Errors name the mistake in it.
func Read(data []byte) (powerbox.Value, error) {
	if len(data) > MaxBytes {
		return powerbox.Value{}, fmt.Errorf("openapi: the document has %d bytes; want at most %d", len(data), MaxBytes)
	}
	if v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: MaxBytes, Depth: maxDepth, Nodes: maxNodes}); err == nil {
		return v, nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return powerbox.Value{}, fmt.Errorf("openapi: neither JSON nor YAML: %w", err)
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return powerbox.Value{}, errors.New("openapi: the document is empty")
	}
	r := reader{nodes: maxNodes}
	return r.value(root.Content[0], maxDepth)
}

// reader makes values of YAML, with bounds on the values that aliases unfold to.
type reader struct{ nodes int }

func (r *reader) value(n *yaml.Node, depth int) (powerbox.Value, error) {
	if r.nodes--; r.nodes < 0 || depth < 0 {
		return powerbox.Value{}, errors.New("openapi: the document unfolds to more than can be read")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias, depth-1)
	case yaml.SequenceNode:
		var out []powerbox.Value
		for _, one := range n.Content {
			v, err := r.value(one, depth-1)
			if err != nil {
				return v, err
			}
			out = append(out, v)
		}
		return powerbox.List(out...), nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.ScalarNode:
		return scalar(n), nil
	case yaml.DocumentNode:
	}
	return powerbox.Value{}, fmt.Errorf("openapi: line %d: neither mapping, list nor scalar", n.Line)
}

func (r *reader) mapping(n *yaml.Node, depth int) (powerbox.Value, error) {
	seen := map[string]bool{}
	var out []powerbox.Member
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || seen[key.Value] {
			return powerbox.Value{}, fmt.Errorf("openapi: line %d: a key that is no text, is merged in, or occurs twice", key.Line)
		}
		seen[key.Value] = true
		v, err := r.value(n.Content[i+1], depth-1)
		if err != nil {
			return v, err
		}
		out = append(out, powerbox.Member{Name: key.Value, Value: v})
	}
	return powerbox.Object(out...), nil
}

// scalar is a scalar as in JSON; one without a form in JSON is a text.
func scalar(n *yaml.Node) powerbox.Value {
	switch n.Tag {
	case "!!null":
		return powerbox.Value{}
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return powerbox.Bool(b)
		}
	case "!!int", "!!float":
		if d, err := powerbox.ParseDecimal(n.Value); err == nil {
			return powerbox.Number(d)
		}
	}
	return powerbox.String(n.Value)
}
