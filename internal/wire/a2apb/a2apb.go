// Package a2apb reads A2A's protobuf messages, of 1.0 and of 0.3, as the
// binding gRPC carries them. A message is brought into its JSON form, from which
// every binding is decided alike; the bytes that continue are those that came.
package a2apb

import (
	"errors"
	"fmt"
	"strings"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The services of the two versions.
const (
	Service1  = "/" + "lf.a2a.v1.A2AService" + "/"
	Service03 = "/" + "a2a.v1.A2AService" + "/"
)

// named03 are the methods whose name in the service of 0.3 is another one than
// in 1.0.
var named03 = map[string]a2a.Method{
	"TaskSubscription":               a2a.SubscribeToTask,
	"ListTaskPushNotificationConfig": a2a.ListPushConfigs,
	"GetAgentCard":                   a2a.GetExtendedCard,
}

// rpc is one method of a service.
type rpc struct {
	method        a2a.Method
	version       string
	input, output protoreflect.MessageType
}

// find returns the method of a path. One that is in no service has the zero
// Method.
func find(path string) (rpc, error) {
	r := rpc{version: a2a.Version1}
	name, ok := strings.CutPrefix(path, Service1)
	file := v1.File_a2av1_proto
	if !ok {
		if name, ok = strings.CutPrefix(path, Service03); !ok {
			return r, nil
		}
		r.version, file = a2a.Version03, v03.File_a2a_proto
	}
	method := file.Services().ByName("A2AService").Methods().ByName(protoreflect.Name(name))
	if method == nil {
		return r, nil
	}
	if r.method, ok = named03[name]; !ok || r.version != a2a.Version03 {
		r.method, _ = a2a.ParseMethod(name)
	}
	var err error
	if r.input, err = protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName()); err != nil {
		return r, err
	}
	r.output, err = protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	return r, err
}

// Decode reads one request: its path and its message, without the frame.
func Decode(path string, message []byte, header a2a.Header, limits powerbox.Limits) (a2a.Call, *a2a.Error) {
	r, err := find(path)
	request := a2a.GRPCRequest{Path: path, Method: r.method, Version: r.version}
	if err == nil && r.method != a2a.Unknown {
		var m protoreflect.Message
		if m, err = readRequest(r.input, message, limits); err == nil {
			if request.Message, err = written(m); err == nil {
				request.Params, err = protojson.Marshal(m.Interface())
			}
		}
	}
	if err != nil {
		wrong := &a2a.Error{Code: a2a.CodeParse, Reason: a2a.ReasonSyntax, Message: "the message cannot be read as " + path + " has it"}
		if errors.Is(err, errTooLarge) {
			wrong = &a2a.Error{Code: a2a.CodeInvalidRequest, Reason: a2a.ReasonTooLarge, Message: err.Error()}
		}
		call, _ := a2a.DecodeGRPC(a2a.GRPCRequest{Path: path, Version: r.version}, header, limits)
		call.Method = r.method
		call.Streaming = r.method == a2a.SendStreamingMessage || r.method == a2a.SubscribeToTask
		return call, wrong
	}
	// Bytes, names and escapes make the JSON form longer than the message. Controls
	// become six bytes each, and no text that people write is full of them.
	limits.Bytes *= maxGrowth
	return a2a.DecodeGRPC(request, header, limits)
}

// written is the message of a request written again from the fields that were read.
// Fields that the service does not define are gone at every level, and each singular
// field occurs once. Readers differ in which copy of a repeated one they take.
func written(m protoreflect.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
}

// maxGrowth is how many times as long as the longest message its JSON form may be: the
// cost of a call is that of its JSON form.
const maxGrowth = 2

// maxNesting is how deep messages nest.
const maxNesting = 100

// readRequest reads a caller's request, within bounds and without unknown fields, which
// protobuf says are ignored. limits bound the fields and the JSON form further where
// they are not 0.
func readRequest(t protoreflect.MessageType, message []byte, limits powerbox.Limits) (protoreflect.Message, error) {
	if err := bounded(t.Descriptor(), message, limits); err != nil {
		return nil, err
	}
	m := t.New()
	err := proto.UnmarshalOptions{RecursionLimit: maxNesting, DiscardUnknown: true}.Unmarshal(message, m.Interface())
	return m, err
}

func read(t protoreflect.MessageType, message []byte) (protoreflect.Message, error) {
	m := t.New()
	err := proto.UnmarshalOptions{RecursionLimit: maxNesting}.Unmarshal(message, m.Interface())
	return m, err
}

// JSON returns an answer of a method in its JSON form, for [a2a.Told]. An
// answer that cannot be read is an error.
func JSON(path string, message []byte) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.method == a2a.Unknown {
		return nil, err
	}
	m, err := read(r.output, message)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	return protojson.Marshal(m.Interface())
}

// FilterTasks is [a2a.FilterTasks] for an answer in protobuf: tasks are cut out
// and the total is set, every other field stays as it was written.
func FilterTasks(path string, message []byte, keep func(a2a.TaskRef) bool) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.output == nil {
		return nil, fmt.Errorf("answer to %s: the method is unknown", path)
	}
	fields := r.output.Descriptor().Fields()
	tasks, total := fields.ByName("tasks"), fields.ByName("total_size")
	if tasks == nil {
		return nil, fmt.Errorf("answer to %s: it has no list of tasks", path)
	}
	var out []byte
	left, counted := 0, false
	for rest := message; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, fmt.Errorf("answer to %s: %w", path, protowire.ParseError(n))
		}
		field := rest[:n]
		rest = rest[n:]
		switch {
		case number == tasks.Number():
			mine, err := keptTask(field, kind, tasks, keep)
			if err != nil {
				return nil, fmt.Errorf("answer to %s: tasks: %w", path, err)
			}
			if mine {
				out, left = append(out, field...), left+1
			}
		case total != nil && number == total.Number():
			counted = true
		default:
			out = append(out, field...)
		}
	}
	if counted {
		out = protowire.AppendTag(out, total.Number(), protowire.VarintType)
		out = protowire.AppendVarint(out, uint64(left))
	}
	return out, nil
}

// keptTask reports whether the task in a field is kept.
func keptTask(field []byte, kind protowire.Type, of protoreflect.FieldDescriptor, keep func(a2a.TaskRef) bool) (bool, error) {
	if kind != protowire.BytesType {
		return false, fmt.Errorf("a task of wire type %d", kind)
	}
	_, _, n := protowire.ConsumeTag(field)
	inner, _ := protowire.ConsumeBytes(field[n:])
	t, err := protoregistry.GlobalTypes.FindMessageByName(of.Message().FullName())
	if err != nil {
		return false, err
	}
	m, err := read(t, inner)
	if err != nil {
		return false, err
	}
	names := m.Descriptor().Fields()
	ref := a2a.TaskRef{Task: m.Get(names.ByName("id")).String(), Context: m.Get(names.ByName("context_id")).String()}
	return ref.Task != "" && keep(ref), nil
}

// RewriteCard changes the card in an answer, in its JSON form, as rewrite does. Fields
// that are not in the definition of a card stay.
func RewriteCard(path string, message []byte, rewrite func(card []byte) ([]byte, error)) ([]byte, error) {
	r, err := find(path)
	if err != nil || r.method != a2a.GetExtendedCard {
		return nil, fmt.Errorf("answer to %s: it is no card", path)
	}
	m, err := read(r.output, message)
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	raw, err := protojson.Marshal(m.Interface())
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	card, err := rewrite(raw)
	if err != nil {
		return nil, err
	}
	rewritten := r.output.New()
	// A member of the card that protobuf has no field for is of JSON alone.
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(card, rewritten.Interface()); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", path, err)
	}
	rewritten.SetUnknown(m.GetUnknown())
	return proto.Marshal(rewritten.Interface())
}
