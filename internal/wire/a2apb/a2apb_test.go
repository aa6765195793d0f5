package a2apb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

var limits = powerbox.Limits{Bytes: 1 << 20, Depth: 64}

// message reads a message of a method from its JSON form.
func message(t testing.TB, m proto.Message, text string) []byte {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const (
	callV1  = `{"message":{"messageId":"m","taskId":"t","contextId":"c","role":"ROLE_USER","parts":[{"data":{"skill":"s","arguments":{"n":1.5}}}]}}`
	callV03 = `{"message":{"messageId":"m","taskId":"t","contextId":"c","role":"ROLE_USER","parts":[{"data":{"data":{"skill":"s","arguments":{"n":1.5}}}}]}}`
)

// The methods of both services, by what they are about.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		path    string
		message []byte
		want    a2a.Call
	}{
		{Service1 + "SendMessage", message(t, &v1.SendMessageRequest{}, callV1), a2a.Call{Method: a2a.SendMessage, Task: "t", Context: "c"}},
		{Service03 + "SendMessage", message(t, &v03.SendMessageRequest{}, callV03), a2a.Call{Method: a2a.SendMessage, Task: "t", Context: "c"}},
		{Service1 + "GetTask", message(t, &v1.GetTaskRequest{}, `{"id":"t","tenant":"x"}`), a2a.Call{Method: a2a.GetTask, Task: "t", Tenant: "x"}},
		{Service03 + "GetTask", message(t, &v03.GetTaskRequest{}, `{"name":"tasks/t"}`), a2a.Call{Method: a2a.GetTask, Task: "t"}},
		{Service03 + "TaskSubscription", message(t, &v03.TaskSubscriptionRequest{}, `{"name":"tasks/t"}`), a2a.Call{Method: a2a.SubscribeToTask, Task: "t", Streaming: true}},
		{Service03 + "GetAgentCard", nil, a2a.Call{Method: a2a.GetExtendedCard}},
		{Service1 + "CreateTaskPushNotificationConfig", message(t, &v1.TaskPushNotificationConfig{}, `{"taskId":"t","url":"https://x/"}`), a2a.Call{Method: a2a.CreatePushConfig, Task: "t", Content: a2a.Content{Push: &a2a.Push{PushConfig: a2a.PushConfig{URL: "https://x/"}}}}},
		{
			Service03 + "CreateTaskPushNotificationConfig",
			message(t, &v03.CreateTaskPushNotificationConfigRequest{}, `{"parent":"tasks/t","config":{"name":"tasks/t/pushNotificationConfigs/c","pushNotificationConfig":{"url":"https://x/"}}}`),
			a2a.Call{Method: a2a.CreatePushConfig, Task: "t", Content: a2a.Content{Push: &a2a.Push{PushConfig: a2a.PushConfig{URL: "https://x/"}}}},
		},
		{Service1 + "getTask", nil, a2a.Call{}},
		{"/x/GetTask", nil, a2a.Call{}},
	} {
		call, err := Decode(c.path, c.message, a2a.Header{}, limits)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		push := call.Push == nil && c.want.Push == nil || call.Push != nil && c.want.Push != nil && call.Push.URL == c.want.Push.URL && call.Push.Places == 1
		if call.Method != c.want.Method || call.Task != c.want.Task || call.Context != c.want.Context || call.Tenant != c.want.Tenant || call.Streaming != c.want.Streaming || !push {
			t.Errorf("%s: %+v", c.path, call)
		}
		if named, found, _ := call.Naming(""); call.Method.IsMessage() && (!found || named.Skill != "s" || call.Message.Loose) {
			t.Errorf("%s: %+v names %+v", c.path, call.Message, named)
		}
	}
	// Two messages that name two tasks are one, of the later; two tasks in one
	// message of 0.3 are refused.
	_, err := Decode(Service03+"CreateTaskPushNotificationConfig", message(t, &v03.CreateTaskPushNotificationConfigRequest{},
		`{"parent":"tasks/t","config":{"name":"tasks/other/pushNotificationConfigs/c","pushNotificationConfig":{"url":"https://x/"}}}`), a2a.Header{}, limits)
	if err == nil || err.Reason != a2a.ReasonTask {
		t.Errorf("two tasks: %v", err)
	}
}

// An answer is filtered by cutting, field by field.
func TestFilterTasks(t *testing.T) {
	list := message(t, &v1.ListTasksResponse{}, `{"tasks":[{"id":"a","contextId":"c"},{"id":"b"},{"id":"c"}],"totalSize":3,"pageSize":50,"nextPageToken":"n"}`)
	list = protowire.AppendString(protowire.AppendTag(list, 900, protowire.BytesType), "unknown")
	got, err := FilterTasks(Service1+"ListTasks", list, func(r a2a.TaskRef) bool { return r.Task == "b" })
	var m v1.ListTasksResponse
	if err == nil {
		err = proto.Unmarshal(got, &m)
	}
	if err != nil || len(m.Tasks) != 1 || m.Tasks[0].Id != "b" || m.TotalSize != 1 || m.NextPageToken != "n" || !bytes.Contains(m.ProtoReflect().GetUnknown(), []byte("unknown")) {
		t.Errorf("%v %v", &m, err)
	}
	for _, bad := range [][]byte{{0xff}, {0x08, 0x01}, {0x0a, 0x05, 0x00}, {0x0a, 0x01, 0xff}} {
		if got, err := FilterTasks(Service1+"ListTasks", bad, func(a2a.TaskRef) bool { return true }); err == nil {
			t.Errorf("%x becomes %x", bad, got)
		}
	}
	if _, err := FilterTasks(Service1+"GetTask", nil, nil); err == nil {
		t.Error("what is no list is filtered")
	}
}

func TestUnframe(t *testing.T) {
	if got, err := Unframe(Frame([]byte("abc"))); err != nil || string(got) != "abc" {
		t.Errorf("%q %v", got, err)
	}
	for want, bodies := range map[error][]string{
		ErrFrame:      {"", "\x00", "\x00\x00\x00\x00\x02a", "\x00\x00\x00\x00\x01ab"},
		ErrCompressed: {"\x01\x00\x00\x00\x01a", "\x02\x00\x00\x00\x00"},
	} {
		for _, b := range bodies {
			if _, err := Unframe([]byte(b)); !errors.Is(err, want) {
				t.Errorf("%q: %v; want %v", b, err, want)
			}
		}
	}
}

// A status survives headers: text beyond ASCII, line ends and percent signs.
func TestSetStatus(t *testing.T) {
	h := http.Header{}
	if err := SetStatus(h, a2a.RPCStatus{Code: 7, Message: "50 % of \"ä\"\r\nX: y", Reason: "R", Domain: "d", Metadata: map[string]string{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Get("Grpc-Message"), "50 %25 of \"%C3%A4\"%0D%0AX: y"; got != want || h.Get("Grpc-Status") != "7" || h.Get("Grpc-Status-Details-Bin") == "" {
		t.Errorf("%q; want %q\n%v", got, want, h)
	}
}

// The decoder finds the same values as protobuf's own reader in the same bytes.
func FuzzDecode(f *testing.F) {
	paths := []string{Service1 + "SendMessage", Service03 + "SendMessage", Service1 + "GetTask", Service03 + "GetTask", Service1 + "CancelTask", Service1 + "SendStreamingMessage"}
	f.Add(uint8(0), message(f, &v1.SendMessageRequest{}, callV1))
	f.Add(uint8(1), message(f, &v03.SendMessageRequest{}, callV03))
	f.Add(uint8(2), message(f, &v1.GetTaskRequest{}, `{"id":"t"}`))
	f.Add(uint8(3), message(f, &v03.GetTaskRequest{}, `{"name":"tasks/t"}`))
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		path := paths[int(which)%len(paths)]
		call, wrong := Decode(path, raw, a2a.Header{}, limits)
		if wrong != nil {
			if wrong.Code == 0 || wrong.Reason == "" || wrong.Message == "" {
				t.Errorf("error without code, reason or message: %+v", wrong)
			}
			return
		}
		var task string
		var text bool
		var err error
		switch path {
		case paths[0], paths[5]:
			var m v1.SendMessageRequest
			err = proto.Unmarshal(raw, &m)
			task = m.GetMessage().GetTaskId()
			text = slices.ContainsFunc(m.GetMessage().GetParts(), func(p *v1.Part) bool { return p.GetText() != "" })
		case paths[1]:
			var m v03.SendMessageRequest
			err = proto.Unmarshal(raw, &m)
			task = m.GetRequest().GetTaskId()
			text = slices.ContainsFunc(m.GetRequest().GetParts(), func(p *v03.Part) bool { return p.GetText() != "" })
		case paths[3]:
			var m v03.GetTaskRequest
			err = proto.Unmarshal(raw, &m)
			task, _, _ = strings.Cut(strings.TrimPrefix(m.GetName(), "tasks/"), "/")
			if !strings.HasPrefix(m.GetName(), "tasks/") {
				task = m.GetName()
			}
		default:
			var m v1.GetTaskRequest
			err = proto.Unmarshal(raw, &m)
			task = m.GetId()
		}
		if err != nil || task != call.Task || text && !call.Message.Loose {
			t.Errorf("%s: protobuf sees task %q, text %t, %v; we %q, %+v", path, task, text, err, call.Task, call.Message)
		}
	})
}

// A stream is split alike, in whatever pieces it comes, and its messages are
// those whose frames it has.
func FuzzFrames(f *testing.F) {
	f.Add(append(Frame([]byte("abc")), Frame(nil)...), uint8(3))
	f.Add([]byte("\x01\x00\x00\x00\x02abxx"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		split := func(n int) string {
			var seen []string
			frames := NewFrames(64, func(m []byte, whole bool) {
				b, _ := json.Marshal([]any{string(m), whole})
				seen = append(seen, string(b))
			})
			for rest := stream; len(rest) > 0; {
				k := min(n, len(rest))
				_, _ = frames.Write(rest[:k])
				rest = rest[k:]
			}
			frames.Close()
			return strings.Join(seen, " ")
		}
		if whole, pieces := split(len(stream)+1), split(int(size%16)+1); whole != pieces {
			t.Errorf("at once %s\nin pieces %s", whole, pieces)
		}
	})
}

// Cutting tasks out of a list keeps exactly those that are kept.
func FuzzFilterTasks(f *testing.F) {
	f.Add(message(f, &v1.ListTasksResponse{}, `{"tasks":[{"id":"a","contextId":"c"},{"id":"b"}],"totalSize":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := FilterTasks(Service1+"ListTasks", raw, func(r a2a.TaskRef) bool { return r.Task == "a" })
		if err != nil {
			return
		}
		var before, after v1.ListTasksResponse
		if proto.Unmarshal(raw, &before) != nil {
			return
		}
		if err := proto.Unmarshal(got, &after); err != nil {
			t.Fatalf("what is left cannot be read: %v", err)
		}
		want := slices.DeleteFunc(before.Tasks, func(task *v1.Task) bool { return task.GetId() != "a" })
		if len(want) != len(after.Tasks) || slices.ContainsFunc(after.Tasks, func(task *v1.Task) bool { return task.GetId() != "a" }) {
			t.Errorf("%d tasks are left; want %d", len(after.Tasks), len(want))
		}
	})
}

// A resource name in which readers see different tasks is refused, and each form that
// clients send is one task.
func TestATK124_NamesOfTasks(t *testing.T) {
	for method, of := range map[string]struct {
		empty  proto.Message
		params string
		push   bool
	}{
		"GetTask":                          {&v03.GetTaskRequest{}, `{"name":%q}`, false},
		"CancelTask":                       {&v03.CancelTaskRequest{}, `{"name":%q}`, false},
		"TaskSubscription":                 {&v03.TaskSubscriptionRequest{}, `{"name":%q}`, false},
		"ListTaskPushNotificationConfig":   {&v03.ListTaskPushNotificationConfigRequest{}, `{"parent":%q}`, false},
		"GetTaskPushNotificationConfig":    {&v03.GetTaskPushNotificationConfigRequest{}, `{"name":%q}`, true},
		"CreateTaskPushNotificationConfig": {&v03.CreateTaskPushNotificationConfigRequest{}, `{"config":{"name":%q,"pushNotificationConfig":{"url":"https://x/"}}}`, true},
	} {
		for name, isOne := range map[string]bool{
			"tasks/t": true, "t": true,
			"tasks/t/pushNotificationConfigs/c": of.push, "tasks/t/pushNotificationConfigs/": of.push, "tasks/t/pushNotificationConfigs": of.push,
			"tasks/t/u": false, "tasks/t/tasks/u": false, "tasks/t/": false, "tasks//u": false, "/tasks/t": false, "x/t": false, "x/tasks/t": false,
			"tasks/t/pushNotificationConfigs/c/u": false, "tasks/t/pushnotificationconfigs/u": false, "Tasks/t": false,
		} {
			call, err := Decode(Service03+method, message(t, proto.Clone(of.empty), fmt.Sprintf(of.params, name)), a2a.Header{}, limits)
			if isOne != (err == nil && call.Task == "t") || !isOne && err.Reason != a2a.ReasonVariant {
				t.Errorf("ATK-124 %s of %s: task %q, %v", method, name, call.Task, err)
			}
		}
	}
}
