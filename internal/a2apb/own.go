package a2apb

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// answerTo reads an answer of ours to a method, in the JSON form of its version.
func answerTo(path string, answer []byte) (protoreflect.Message, error) {
	r, err := find(path)
	if err != nil || r.output == nil {
		return nil, fmt.Errorf("answer to %s: the method is unknown", path)
	}
	m := r.output.New()
	if err := protojson.Unmarshal(answer, m.Interface()); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	return m, nil
}

// Encode returns an answer of ours to the method of a path as its message.
func Encode(path string, answer []byte) ([]byte, error) {
	m, err := answerTo(path, answer)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m.Interface())
}

// Normal returns an answer of ours to a method of 0.3 in the JSON form that
// HTTP+JSON has for it.
func Normal(method string, answer []byte) ([]byte, error) {
	m, err := answerTo(Service03+method, answer)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m.Interface())
}
