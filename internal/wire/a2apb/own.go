package a2apb

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// answerTo reads our own answer to a method, in the JSON form of its version.
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

// Encode returns our own answer to the method of a path as its message.
func Encode(path string, answer []byte) ([]byte, error) {
	m, err := answerTo(path, answer)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m.Interface())
}

// Normal returns our own answer to a method of 0.3 in the JSON form that
// HTTP+JSON has for it.
func Normal(method string, answer []byte) ([]byte, error) {
	m, err := answerTo(Service03+method, answer)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m.Interface())
}

// WithTasks puts the tasks of our own answer in front of those of an answer to
// ListTasks, and counts them.
func WithTasks(path string, message, listed []byte) ([]byte, error) {
	own, err := answerTo(path, listed)
	if err != nil {
		return nil, err
	}
	r, err := find(path)
	if err != nil {
		return nil, err
	}
	theirs, err := read(r.output, message)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	fields := own.Descriptor().Fields()
	tasks, total := fields.ByName("tasks"), fields.ByName("total_size")
	if tasks == nil {
		return nil, fmt.Errorf("answer to %s: it has no list of tasks", path)
	}
	n := own.Get(tasks).List().Len()
	own.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Number() != tasks.Number() {
			own.Clear(f)
		}
		return true
	})
	// Of two messages in one the lists are joined, and the last number counts.
	out, err := proto.Marshal(own.Interface())
	if err != nil {
		return nil, err
	}
	out = append(out, message...)
	if total != nil && theirs.Has(total) {
		out = protowire.AppendTag(out, total.Number(), protowire.VarintType)
		out = protowire.AppendVarint(out, uint64(theirs.Get(total).Int()+int64(n)))
	}
	return out, nil
}
