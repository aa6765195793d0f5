package a2apb

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// PageOf is [a2a.PageOf] for an answer in protobuf.
func PageOf(path string, message []byte) (a2a.Page, error) {
	r, err := find(path)
	if err != nil || r.method != a2a.ListTasks {
		return a2a.Page{}, fmt.Errorf("answer to %s: it is no list of tasks", path)
	}
	m, err := read(r.output, message)
	if err != nil {
		return a2a.Page{}, fmt.Errorf("answer to %s: %w", path, err)
	}
	fields := m.Descriptor().Fields()
	return a2a.Page{Tasks: m.Get(fields.ByName("tasks")).List().Len(), Next: m.Get(fields.ByName("next_page_token")).String()}, nil
}

// WithNextPage is [a2a.WithNextPage] for an answer in protobuf.
func WithNextPage(path string, message []byte, token string) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.output == nil {
		return nil, fmt.Errorf("answer to %s: the method is unknown", path)
	}
	return withText(r.output.Descriptor().Fields().ByName("next_page_token"), message, token)
}

// WithParam is [a2a.WithParam] for a call in protobuf, by the name of the field.
func WithParam(path string, message []byte, field, text string) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.input == nil {
		return nil, fmt.Errorf("%s: the method is unknown", path)
	}
	return withText(r.input.Descriptor().Fields().ByName(protoreflect.Name(field)), message, text)
}

// withText sets a field of text; every other field stays as it was written.
func withText(field protoreflect.FieldDescriptor, message []byte, text string) ([]byte, error) {
	if field == nil {
		return nil, fmt.Errorf("a message without pages: %w", proto.Error)
	}
	var out []byte
	for rest := message; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number != field.Number() {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return protowire.AppendString(protowire.AppendTag(out, field.Number(), protowire.BytesType), text), nil
}
