package e2e

import (
	"maps"
	"net/http"
	"strings"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

const opTaskRead = "a2a.task.read"

// takes are the calls that are taped on a wire.
func takes(on wire) []take {
	switch on.binding {
	case overREST:
		return restTakes(on)
	case overGRPC:
		return grpcTakes(on)
	default:
		return rpcTakes(on)
	}
}

// strange are headers that proxies in between need not know.
func strange(on wire, kind string) http.Header {
	version := on.version
	if version == "" {
		version = "1.0"
	}
	return http.Header{
		"Content-Type": {kind}, "A2a-Version": {version}, "A2a-Extensions": {"https://example.org/a/v1,https://example.org/b/v1", "https://example.org/c/v1"},
		"X-Custom": {"one", "two"}, "X-Empty": {""}, "User-Agent": {"tape/1"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"Accept": {"application/json, text/event-stream;q=0.5"}, "Cookie": {"a=b; c=d"},
	}
}

// answering are headers of an answer.
func answering(kind string) http.Header {
	return http.Header{
		"Content-Type": {kind}, "X-Agent": {"one", "two"}, "A2a-Extensions": {"https://example.org/a/v1"}, "Cache-Control": {"no-store"},
		"Set-Cookie": {"a=b; Path=/", "c=d"}, "Etag": {`W/"7"`},
	}
}

// What today's protocol does not know, in forms that a second writer would lose.
const (
	unknown = `"futureField" : {"large": 9007199254740993, "exact":0.1000000000000000055, "no":false,"none":null, "list":[ ] , "exp":1E+2}`
	message = ` { "messageId":"m-1", "role" :"ROLE_USER","parts":[ {"text":"\u00fc \/ <&> ü","futurePart":18446744073709551616} ],` + unknown +
		`, "metadata":{"https://example.org/x": {` + unknown + `}}}`
	message03 = ` { "kind":"message", "messageId":"m-1", "role" :"user","parts":[ {"kind":"text","text":"\u00fc \/ <&> ü","futurePart":18446744073709551616} ],` + unknown +
		`, "metadata":{"https://example.org/x": {` + unknown + `}}}`
	params = ` "configuration":{"returnImmediately":false,"historyLength":0 },"metadata":{ "https://example.org/y":[9007199254740993]},` + unknown

	working     = `{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"},` + unknown + `}`
	working03   = `{"kind":"task","id":"t-1","contextId":"c-1","status":{"state":"working"},` + unknown + `}`
	completed   = `{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_INPUT_REQUIRED"},` + unknown + `}`
	completed03 = `{"kind":"status-update","taskId":"t-1","contextId":"c-1","final":true,"status":{"state":"input-required"},` + unknown + `}`
)

// sse says events in every way that the format has, and stops between them, and
// within.
func sse(first, second string) []string {
	return []string{
		": hello\n\n", "retry: 500\nid: 1\nevent: message\nfuture: x\ndata: " + first[:20], first[20:] + "\n", "\n",
		":keep-alive\r\n\r\n", "id:2\r\ndata:" + second + "\r\n\r\n", ": bye\n\n", "id\ndata: " + second + "\n\n", ": end\n\n",
	}
}

func rpcTakes(on wire) []take {
	unary, streaming, get, said, bare, task, event := "SendMessage", "SendStreamingMessage", "GetTask", message, working, `{"task":`+working+`}`, `{"statusUpdate":`+completed+`}`
	if on.version == "0.3" {
		unary, streaming, get, said, bare, task, event = "message/send", "message/stream", "tasks/get", message03, working03, working03, completed03
	}
	call := func(method, params string) string {
		return ` { "params" : ` + params + `,"id" : 12345678901234567890 , "jsonrpc":"2.0", "method" : "` + method + `" } ` + "\n"
	}
	result := func(r string) string {
		return `{ "id" : 12345678901234567890,"result": ` + r + ` ,"jsonrpc":"2.0"}`
	}
	asked, answered := strange(on, "application/json; charset=utf-8"), answering("application/json;charset=UTF-8")
	fault := ` {"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":-32099,"message":"theirs","data":[{` + unknown + `}]}}`
	sent := call(unary, `{"message":`+said+`,`+params+`}`)
	return []take{
		{name: "a message", header: asked, body: sent, answer: answered, pieces: []string{result(task) + " \n"}},
		{name: "a message with a trailer", header: asked, body: sent, answer: answered, pieces: []string{result(task)}, trailer: http.Header{"X-Checksum": {"abc"}, "Powerbox-Decision": {"rec_x"}}},
		{name: "a stream", header: asked, body: call(streaming, `{"message":`+said+`,`+params+`}`), answer: answering("text/event-stream; charset=utf-8"), pieces: sse(result(task), result(event)), trailer: http.Header{"X-Checksum": {"abc"}, "Powerbox-Decision": {"rec_x"}}},
		{name: "a task", header: asked, body: call(get, `{"id":"t-1","historyLength":0,`+unknown+`}`), operation: opTaskRead, arguments: map[string]any{"task": "t-1"}, answer: answered, pieces: []string{result(bare)}},
		{name: "an error", header: asked, body: sent, answer: answered, pieces: []string{fault}},
		{name: "an error of HTTP", header: asked, body: sent, status: http.StatusServiceUnavailable, answer: http.Header{"Content-Type": {"text/plain"}, "Retry-After": {"7"}}, pieces: []string{"come back\n"}},
		{name: "a method that nobody knows", observe: true, header: asked, body: call("theirs/method", `{`+unknown+`}`), answer: answered, pieces: []string{result("{}")}},
		{name: "a batch", observe: true, header: asked, body: "[" + sent + "," + sent + "]", answer: answered, pieces: []string{"[" + result(task) + "]"}},
		{name: "a notification", observe: true, header: asked, body: strings.Replace(sent, `"id" :`, `"noid":`, 1), status: http.StatusAccepted, answer: http.Header{"X-Agent": {"one"}}},
		{name: "a name twice", observe: true, header: asked, body: strings.Replace(sent, `"id" :`, `"method":"GetTask","id":`, 1), answer: answered, pieces: []string{result(task)}},
		{name: "no JSON", observe: true, header: strange(on, "text/plain"), body: "hello \xff", status: http.StatusBadRequest, answer: http.Header{"Content-Type": {"text/html"}}, pieces: []string{"<p>no</p>"}},
	}
}

func restTakes(on wire) []take {
	below, said, task, event := "", message, `{"task":`+working+`}`, `{"statusUpdate":`+completed+`}`
	if on.version == "0.3" {
		below, said = "/v1", strings.Replace(message, `"parts"`, `"content"`, 1)
	}
	kind := "application/a2a+json"
	asked, answered := strange(on, kind), answering(kind)
	body := `{"message":` + said + `,` + params + "}\n"
	reading := maps.Clone(asked)
	delete(reading, "Content-Type")
	read := take{method: http.MethodGet, header: reading, operation: opTaskRead, arguments: map[string]any{"task": "t-1"}, path: below + "/tasks/t-1?historyLength=0"}
	missing, gone := read, read
	read.name, read.answer, read.pieces = "a task", answered, []string{working}
	missing.name, missing.answer, missing.status, missing.pieces = "an error", answered, http.StatusNotFound, []string{`{"error": {"code": 404,"status":"NOT_FOUND","message":"theirs","details":[{` + unknown + `}]}}`}
	gone.name, gone.answer, gone.status = "no answer but its headers", http.Header{"X-Agent": {"one"}}, http.StatusNoContent
	return []take{
		{name: "a message", path: below + "/message:send", header: asked, body: body, answer: answered, pieces: []string{task + "\n"}},
		{name: "a message with a trailer", path: below + "/message:send", header: asked, body: body, answer: answered, pieces: []string{task}, trailer: http.Header{"X-Checksum": {"abc"}, "Powerbox-Decision": {"rec_x"}}},
		{name: "a stream", path: below + "/message:stream", header: asked, body: body, answer: answering("text/event-stream"), pieces: sse(task, event), trailer: http.Header{"X-Checksum": {"abc"}, "Powerbox-Decision": {"rec_x"}}},
		{name: "a path that nobody knows", observe: true, path: below + "/future:thing?x=%2F&x=1", header: strange(on, "application/octet-stream"), body: "hello \xff", status: http.StatusTeapot, answer: answered, pieces: []string{"{}"}},
		read, missing, gone,
	}
}

func grpcTakes(on wire) []take {
	service, said, task, update := "/lf.a2a.v1.A2AService/", proto.Message(&v1.SendMessageRequest{Message: &v1.Message{MessageId: "m-1", Role: v1.Role_ROLE_USER, Parts: []*v1.Part{{Content: &v1.Part_Text{Text: "ü"}}}}}),
		proto.Message(&v1.Task{Id: "t-1", ContextId: "c-1", Status: &v1.TaskStatus{State: v1.TaskState_TASK_STATE_WORKING}}),
		proto.Message(&v1.StreamResponse{Payload: &v1.StreamResponse_StatusUpdate{StatusUpdate: &v1.TaskStatusUpdateEvent{TaskId: "t-1", ContextId: "c-1", Status: &v1.TaskStatus{State: v1.TaskState_TASK_STATE_INPUT_REQUIRED}}}})
	read := proto.Message(&v1.GetTaskRequest{Id: "t-1"})
	if on.version == "0.3" {
		service, said = "/a2a.v1.A2AService/", &v03.SendMessageRequest{Request: &v03.Message{MessageId: "m-1", Role: v03.Role_ROLE_USER, Parts: []*v03.Part{{Part: &v03.Part_Text{Text: "ü"}}}}}
		task = &v03.Task{Id: "t-1", ContextId: "c-1", Status: &v03.TaskStatus{State: v03.TaskState_TASK_STATE_WORKING}}
		update = &v03.StreamResponse{Payload: &v03.StreamResponse_StatusUpdate{StatusUpdate: &v03.TaskStatusUpdateEvent{TaskId: "t-1", ContextId: "c-1", Status: &v03.TaskStatus{State: v03.TaskState_TASK_STATE_INPUT_REQUIRED}}}}
		read = &v03.GetTaskRequest{Name: "tasks/t-1"}
	}
	asked := strange(on, "application/grpc+proto")
	asked["Te"], asked["Grpc-Timeout"], asked["X-Key-Bin"] = []string{"trailers"}, []string{"29500m"}, []string{"AAEC/w", "/w"}
	answered, ended := answering("application/grpc+proto"), http.Header{"Grpc-Status": {"0"}, "Grpc-Message": {""}, "X-End": {"one", "two"}, "X-End-Bin": {"AAEC/w"}, "Powerbox-Decision": {"rec_x"}}
	wrapped := inOneof(task)
	broken := http.Header{"Grpc-Status": {"14"}, "Grpc-Message": {"theirs %C3%BC"}, "Grpc-Status-Details-Bin": {"CA4SBnRoZWlycw"}, "X-End": {"one"}}
	pressed := maps.Clone(asked)
	pressed["Grpc-Encoding"] = []string{"theirs"}
	alone := maps.Clone(answered)
	maps.Copy(alone, broken)
	return []take{
		{name: "a message", path: service + "SendMessage", header: asked, body: framed(future(said)), answer: answered, pieces: []string{framed(wrapped)}, trailer: ended},
		{name: "a stream", path: service + "SendStreamingMessage", header: asked, body: framed(future(said)), answer: answered, pieces: []string{framed(wrapped)[:3], framed(wrapped)[3:9], framed(wrapped)[9:], framed(future(update)) + framed(future(update))[:1], framed(future(update))[1:]}, trailer: ended},
		{name: "a stream that breaks", path: service + "SendStreamingMessage", header: asked, body: framed(future(said)), answer: answered, pieces: []string{framed(wrapped)}, trailer: broken},
		{name: "a task", path: service + "GetTask", header: asked, body: framed(future(read)), operation: opTaskRead, arguments: map[string]any{"task": "t-1"}, answer: answered, pieces: []string{framed(future(task))}, trailer: ended},
		{name: "a method that nobody knows", observe: true, path: service + "Future", header: asked, body: framed("\xff\xff"), answer: answered, pieces: []string{framed("\xff")}, trailer: ended},
		{name: "a compressed message", observe: true, path: service + "SendMessage", header: pressed, body: "\x01" + framed("\xff\xff")[1:], answer: answered, pieces: []string{framed(wrapped)}, trailer: ended},
		{name: "several messages", observe: true, path: service + "SendMessage", header: asked, body: framed(future(said)) + framed(future(said)), answer: answered, pieces: []string{framed(wrapped)}, trailer: ended},
		{name: "an error", path: service + "SendMessage", header: asked, body: framed(future(said)), answer: answered, trailer: broken},
		{name: "nothing but an error", path: service + "SendMessage", header: asked, body: framed(future(said)), answer: alone},
		{name: "a stream that is nothing but an error", path: service + "SendStreamingMessage", header: asked, body: framed(future(said)), answer: alone},
	}
}

// future is a message with fields that no reader knows, and a known one written
// as no writer would.
func future(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return "\xba\x3e\x03new" + string(b) + "\xc0\x3e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
}

// inOneof is the answer to a message that holds a task, which both versions
// number 1.
func inOneof(task proto.Message) string {
	b := future(task)
	return "\x0a" + string(rune(len(b))) + b
}
