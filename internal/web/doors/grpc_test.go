package doors_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const (
	typeGRPC    = "application/grpc"
	serviceGRPC = "/lf.a2a.v1.A2AService/"
)

// notesGRPC is the agent "notes" by gRPC, on the stock service.
type notesGRPC struct {
	v1.UnimplementedA2AServiceServer
}

func done() *v1.Message {
	return &v1.Message{MessageId: "a", Role: v1.Role_ROLE_AGENT, Parts: []*v1.Part{{Content: &v1.Part_Text{Text: "done"}}}}
}

func (notesGRPC) SendMessage(context.Context, *v1.SendMessageRequest) (*v1.SendMessageResponse, error) {
	return &v1.SendMessageResponse{Payload: &v1.SendMessageResponse_Message{Message: done()}}, nil
}

func (notesGRPC) SendStreamingMessage(_ *v1.SendMessageRequest, s grpc.ServerStreamingServer[v1.StreamResponse]) error {
	return s.Send(&v1.StreamResponse{Payload: &v1.StreamResponse_Message{Message: done()}})
}

// speaksGRPC starts the agent and returns its address.
func speaksGRPC(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1.RegisterA2AServiceServer(s, notesGRPC{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// framed is a message in its frame.
func framed(message []byte) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// overGRPC is a call by the stock definition, of a message in its JSON form.
func overGRPC(method, message, text string) call {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("lf.a2a.v1." + message))
	if err != nil {
		panic(err)
	}
	m := kind.New().Interface()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		panic(err)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return call{method: http.MethodPost, path: serviceGRPC + method, body: framed(raw), header: http.Header{"Content-Type": {typeGRPC}, "Te": {"trailers"}}}
}

// malformedGRPC is a call that the gateway cannot read.
func malformedGRPC(r *rand.Rand, text string) call {
	c := overGRPC("SendMessage", "SendMessageRequest", text)
	switch r.IntN(7) {
	case 0:
		c.body = "\x01" + c.body[1:] // compressed
	case 1:
		c.body += c.body // two messages
	case 2:
		c.body = c.body[:len(c.body)-1]
	case 3:
		c.body += "\x00"
	case 4:
		c.body = framed([]byte{0x0a, 0x7f, 0x01})
	case 5:
		c.path = serviceGRPC + "VendorOwn"
	default:
		c.header.Set("Content-Type", "application/grpc+json")
	}
	return c
}

// grpcReason is the code of a denial in the details of a status.
func grpcReason(t testing.TB, h http.Header) string {
	t.Helper()
	raw, err := base64.RawStdEncoding.DecodeString(h.Get("Grpc-Status-Details-Bin"))
	if err != nil {
		t.Error(err)
	}
	said, info := &rpcstatus.Status{}, &errdetails.ErrorInfo{}
	if err := proto.Unmarshal(raw, said); err != nil || len(said.GetDetails()) != 1 {
		t.Errorf("details: %v, %v", said, err)
		return ""
	}
	if err := said.GetDetails()[0].UnmarshalTo(info); err != nil {
		t.Error(err)
	}
	return info.GetMetadata()["code"]
}

// asksGRPC is a message to the agent that names a skill.
func asksGRPC(name string) call {
	return overGRPC("SendMessage", "SendMessageRequest", fmt.Sprintf(`{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":{"skill":%q,"arguments":{"title":"a"}}}]}}`, name))
}

// answerGRPC is an answer as the proxy shows it.
func answerGRPC(t testing.TB, m proto.Message) string {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return framed(raw)
}

var headGRPC, good = http.Header{"Content-Type": {typeGRPC}}, http.Header{"Grpc-Status": {"0"}}

// begunGRPC is an answer that begins a task.
func begunGRPC(t testing.TB, id string) string {
	t.Helper()
	return answerGRPC(t, &v1.SendMessageResponse{Payload: &v1.SendMessageResponse_Task{Task: &v1.Task{Id: id, ContextId: "c-1", Status: &v1.TaskStatus{State: v1.TaskState_TASK_STATE_WORKING}}}})
}

// TestExtProcDecidesGRPC: the message that was decided on is forwarded, the answer's status is
// the outcome, and tasks in it are the caller's.
func TestExtProcDecidesGRPC(t *testing.T) {
	w := newTown(t, "scoped")
	c := w.signs(t, asksGRPC("read_note"))
	plain := c.body
	c.body = framed(append([]byte(plain[5:]), 0xfa, 0x3f, 0x02, 'h', 'i')) // field 1023, which no rule knows
	p := w.process(t, c, buffered, 200, http.Header{"Content-Type": {typeGRPC}, "Powerbox-Outcome": {"forged"}}, begunGRPC(t, "task-7"), http.Header{"Grpc-Status": {"0"}, "Powerbox-Receipt": {"forged"}})
	if p.refusal != nil || p.body != plain || p.path != serviceGRPC+"SendMessage" || p.header.Get("Dpop") != "" || strings.Count(p.header.Get("Powerbox-Context"), ".") != 2 {
		t.Fatalf("forwarded: %s %q %v; %v", p.path, p.body, p.header, p.refusal)
	}
	if p.back.Get("Powerbox-Decision") == "" || p.back.Get("Powerbox-Outcome") != "forwarded" || p.trailer.Get("Powerbox-Receipt") != "" || p.trailer.Get("Grpc-Status") != "0" {
		t.Errorf("the caller gets %v and %v", p.back, p.trailer)
	}
	if got := w.outcomes(t, p.decision); !slices.Equal(got, []string{"ACHIEVED"}) {
		t.Errorf("outcomes: %v", got)
	}
	get := overGRPC("GetTask", "GetTaskRequest", `{"id":"task-7"}`)
	task := answerGRPC(t, &v1.Task{Id: "task-7", Status: &v1.TaskStatus{State: v1.TaskState_TASK_STATE_COMPLETED}})
	if p := w.process(t, w.signs(t, get), buffered, 200, headGRPC, task, good); p.refusal != nil {
		t.Errorf("the caller's own task: %v", p.refusal)
	}
	if p := w.process(t, get, buffered, 200, headGRPC, task, good); p.refusal.GetGrpcStatus().GetStatus() == 0 || len(p.refusal.GetBody()) > 0 {
		t.Errorf("an unknown caller reads the task: %v", p.refusal)
	}
	list := answerGRPC(t, &v1.ListTasksResponse{Tasks: []*v1.Task{{Id: "task-7"}, {Id: "alien"}}, TotalSize: 2})
	p = w.process(t, w.signs(t, overGRPC("ListTasks", "ListTasksRequest", `{}`)), buffered, 200, headGRPC, list, good)
	if p.refusal != nil || strings.Contains(p.answer, "alien") || !strings.Contains(p.answer, "task-7") {
		t.Errorf("listed: %q %v", p.answer, p.refusal)
	}
}

// TestExtProcRecordsHowGRPCEnded: by the trailers, by headers alone, and for streams.
func TestExtProcRecordsHowGRPCEnded(t *testing.T) {
	w := newTown(t, "scoped")
	streams := asksGRPC("read_note")
	streams.path = serviceGRPC + "SendStreamingMessage"
	event := answerGRPC(t, &v1.StreamResponse{Payload: &v1.StreamResponse_Message{Message: done()}})
	failed := http.Header{"Grpc-Status": {"13"}}
	for name, c := range map[string]struct {
		call          call
		head, trailer http.Header
		answer        string
		want          []string
	}{
		"a status alone":              {asksGRPC("read_note"), http.Header{"Content-Type": {typeGRPC}, "Grpc-Status": {"13"}}, nil, "", []string{"FAILED"}},
		"a status without a message":  {asksGRPC("read_note"), headGRPC, failed, "", []string{"FAILED"}},
		"a status behind a message":   {asksGRPC("read_note"), headGRPC, failed, begunGRPC(t, "task-8"), []string{"FAILED"}},
		"trailers that are not shown": {asksGRPC("read_note"), headGRPC, nil, begunGRPC(t, "task-9"), nil},
		"a stream":                    {streams, headGRPC, good, event, []string{"ACHIEVED"}},
		"a stream that fails":         {streams, headGRPC, failed, "", []string{"FAILED"}},
	} {
		p := w.process(t, w.signs(t, c.call), buffered, 200, c.head, c.answer, slices.DeleteFunc([]http.Header{c.trailer}, func(h http.Header) bool { return h == nil })...)
		if got := w.outcomes(t, p.decision); !slices.Equal(got, c.want) || p.refusal != nil || p.answer != c.answer {
			t.Errorf("%s: outcomes %v, want %v; %q %v", name, got, c.want, p.answer, p.refusal)
		}
	}
	two := w.process(t, w.signs(t, asksGRPC("read_note")), buffered, 200, headGRPC, begunGRPC(t, "task-8"), http.Header{"Grpc-Status": {"0", "13"}})
	if two.refusal == nil || grpcReason(t, refusedBy(two.refusal)) != "outcome_unknown" || len(w.outcomes(t, two.decision)) > 0 {
		t.Errorf("an answer with two statuses reaches the caller: %q", two.answer)
	}
	alien := w.process(t, w.signs(t, asksGRPC("read_note")), buffered, 200, headGRPC, "\x01"+begunGRPC(t, "task-9")[1:], good)
	if alien.refusal == nil || grpcReason(t, refusedBy(alien.refusal)) != "outcome_unknown" {
		t.Errorf("a message that cannot be read reaches the caller: %q", alien.answer)
	}
}

// refusedBy are the headers of an answer in place of the agent's.
func refusedBy(a *proc.ImmediateResponse) http.Header {
	h := http.Header{}
	for _, v := range a.GetHeaders().GetSetHeaders() {
		h.Add(v.GetHeader().GetKey(), string(v.GetHeader().GetRawValue()))
	}
	return h
}

// TestExtAuthzForwardsNoOtherGRPC: the proxy forwards its own bytes, so these must be the
// message that was decided on, for every reader.
func TestExtAuthzForwardsNoOtherGRPC(t *testing.T) {
	w := newTown(t, "scoped")
	own := asksGRPC("read_note")
	message := []byte(own.body[5:])
	for name, c := range map[string]struct {
		body, reason string
		change       func(*auth.AttributeContext_HttpRequest)
	}{
		"as it is":             {own.body, "", nil},
		"an unknown field":     {framed(append(slices.Clone(message), 0xfa, 0x3f, 0x02, 'h', 'i')), "not_as_decided", nil},
		"a field twice":        {framed(append(slices.Clone(message), 0x12, 0x02, 0x20, 0x01)), "not_as_decided", nil},
		"a longer length":      {framed(append([]byte{0x12, message[1] | 0x80, 0x00}, message[2:]...)), "not_as_decided", nil},
		"compressed":           {"\x01" + own.body[1:], "syntax", nil},
		"two messages":         {own.body + own.body, "syntax", nil},
		"cut short":            {own.body[:20], "syntax", nil},
		"not sent":             {"", "body_not_sent", nil},
		"a part by its header": {own.body, "body_cut_short", func(h *auth.AttributeContext_HttpRequest) { h.Headers["x-envoy-auth-partial-body"] = "true" }},
		"as text":              {own.body, "body_cut_short", func(h *auth.AttributeContext_HttpRequest) { h.Body, h.RawBody = "a!b", nil }},
		"an encoded path":      {own.body, "path", func(h *auth.AttributeContext_HttpRequest) { h.Path = serviceGRPC + "Send%4dessage" }},
		"two kinds": {own.body, "", func(h *auth.AttributeContext_HttpRequest) {
			h.Headers["content-type"] = "application/grpc,application/json"
		}},
	} {
		signed := w.signs(t, own)
		signed.body = c.body
		var change []func(*auth.AttributeContext_HttpRequest)
		if c.change != nil {
			change = append(change, c.change)
		}
		a := w.check(t, signed.checkRequest(change...))
		h := http.Header{}
		for _, v := range a.GetDeniedResponse().GetHeaders() {
			h.Add(v.GetHeader().GetKey(), v.GetHeader().GetValue())
		}
		switch {
		case name == "as it is":
			if a.GetOkResponse() == nil {
				t.Errorf("%s: %v", name, a)
			}
		case name == "two kinds":
			if a.GetDeniedResponse().GetStatus().GetCode() != http.StatusUnsupportedMediaType {
				t.Errorf("%s: %v", name, a)
			}
		case a.GetDeniedResponse() == nil || h.Get("Content-Type") != typeGRPC || a.GetDeniedResponse().GetBody() != "" || grpcReason(t, h) != c.reason:
			t.Errorf("%s: %v, with the reason %q", name, a, grpcReason(t, h))
		}
	}
}
