package e2e

import (
	"bytes"
	"encoding/base64"
	be "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v03 "github.com/a2aproject/a2a-go/a2apb"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/powerbox-project/powerbox/token"
)

// wire is a binding and a version. The zero one is JSON-RPC as the tests write
// it.
type wire struct{ binding, version string }

func (b wire) String() string {
	if b == (wire{}) {
		return "JSON-RPC 1.0"
	}
	return b.binding + " " + b.version
}

const (
	overREST = "HTTP+JSON"
	overGRPC = "gRPC"
	overMCP  = "MCP"
	apart    = "remote gateway" // in JSON-RPC; for start alone
)

// wires are all of them.
var wires = []wire{{}, {"JSON-RPC", "0.3"}, {overREST, "1.0"}, {overREST, "0.3"}, {overGRPC, "1.0"}, {overGRPC, "0.3"}}

// everywhere runs a test over every binding and version. The test writes its
// calls in JSON-RPC, and the town that it starts on that wire says the same in
// the other form, for which it makes the proofs.
func everywhere(t *testing.T, test func(t *testing.T, on wire)) {
	for _, on := range wires {
		t.Run(on.String(), func(t *testing.T) { test(t, on) })
	}
}

// everywhereAndApart is everywhere, and the same at a remote gateway.
func everywhereAndApart(t *testing.T, test func(t *testing.T, on wire)) {
	everywhere(t, test)
	t.Run("remote gateway", func(t *testing.T) { test(t, wire{binding: apart}) })
}

// request is a call in the form of a wire.
type request struct {
	method, url string // of HTTP; for gRPC the URL that a proof must name
	dial        string // where it goes
	body        []byte // what a proof is about
	core        string // the method's name in 1.0
	reference   string // capability that the header names
}

// names03 are the names of 0.3 in JSON-RPC and in its service of gRPC, which is
// that of 1.0 where none is given.
var names03 = map[string][2]string{
	"SendMessage": {"message/send"}, "SendStreamingMessage": {"message/stream"},
	"GetTask": {"tasks/get"}, "ListTasks": {"tasks/list"}, "CancelTask": {"tasks/cancel"},
	"SubscribeToTask":                  {"tasks/resubscribe", "TaskSubscription"},
	"CreateTaskPushNotificationConfig": {"tasks/pushNotificationConfig/set"},
	"GetTaskPushNotificationConfig":    {"tasks/pushNotificationConfig/get"},
	"ListTaskPushNotificationConfigs":  {"tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfig"},
	"DeleteTaskPushNotificationConfig": {"tasks/pushNotificationConfig/delete"},
	"GetExtendedAgentCard":             {"agent/getAuthenticatedExtendedCard", "GetAgentCard"},
}

// encode says a call of JSON-RPC in the town's form. What only JSON-RPC has
// stays as it is: methods of the extension, envelopes that are no call, and what
// the other form cannot say.
func (w *town) encode(target string, body []byte) (request, bool) {
	plain := request{method: http.MethodPost, url: target, dial: target, body: body}
	var call struct {
		Method string         `json:"method"`
		Params map[string]any `json:"params"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if w.on == (wire{}) || d.Decode(&call) != nil || call.Params == nil || d.More() {
		return plain, false
	}
	if w.on.binding == overMCP {
		return w.toolCall(plain, target, call.Method, call.Params)
	}
	core := call.Method
	for name, old := range names03 {
		if old[0] == core {
			core = name
		}
	}
	if _, ok := names03[core]; !ok {
		return plain, false
	}
	switch w.on.binding {
	case overREST:
		return w.rest(target, core, call.Params)
	case overGRPC:
		if _, at := w.grpc[w.agentAt(target)]; !at {
			return plain, false // a path, which gRPC has not
		}
		if r, ok := w.grpcRequest(target, core, call.Params); ok {
			return r, true
		}
		return plain, false
	}
	if message, ok := call.Params["message"].(map[string]any); ok {
		message["kind"], message["role"] = "message", "user"
		for _, part := range parts03(message["parts"]) {
			for _, kind := range []string{"text", "data"} {
				if _, ok := part[kind]; ok {
					part["kind"] = kind
				}
			}
		}
	}
	if c, ok := call.Params["configuration"].(map[string]any); ok && c["taskPushNotificationConfig"] != nil {
		c["pushNotificationConfig"] = c["taskPushNotificationConfig"]
		delete(c, "taskPushNotificationConfig")
	}
	if core == "CreateTaskPushNotificationConfig" {
		task := call.Params["taskId"]
		delete(call.Params, "taskId")
		call.Params = map[string]any{"taskId": task, "pushNotificationConfig": call.Params}
	} else if strings.Contains(core, "Push") && call.Params["taskId"] != nil {
		call.Params = map[string]any{"id": call.Params["taskId"], "pushNotificationConfigId": call.Params["id"]}
	}
	plain.body, plain.core = rpc(names03[core][0], call.Params), core
	return plain, true
}

// agentAt is the agent whose URL that is, here or at remote gateways; something with a
// slash in it where that is below one.
func (w *town) agentAt(target string) string {
	for _, base := range []string{w.url, w.apart} {
		if agent, ok := strings.CutPrefix(target, base+"/agents/"); ok && base != "" {
			return agent
		}
	}
	return target
}

func parts03(parts any) []map[string]any {
	var out []map[string]any
	list, _ := parts.([]any)
	for _, p := range list {
		if part, ok := p.(map[string]any); ok {
			out = append(out, part)
		}
	}
	return out
}

// protobuf03 brings the message of a call into the form of 0.3's protobuf.
func protobuf03(params map[string]any) {
	if message, ok := params["message"].(map[string]any); ok && message["parts"] != nil {
		for _, part := range parts03(message["parts"]) {
			if data, ok := part["data"]; ok {
				part["data"] = map[string]any{"data": data}
			}
		}
		message["content"] = message["parts"]
		delete(message, "parts")
	}
	if c, ok := params["configuration"].(map[string]any); ok && c["taskPushNotificationConfig"] != nil {
		c["pushNotification"] = c["taskPushNotificationConfig"]
		delete(c, "taskPushNotificationConfig")
	}
}

// taskOf takes the task out of the parameters.
func taskOf(params map[string]any, names ...string) string {
	task := ""
	for _, name := range names {
		if s, ok := params[name].(string); ok {
			task = strings.TrimPrefix(s, "tasks/")
			delete(params, name)
		}
	}
	return task
}

func (w *town) rest(target, core string, params map[string]any) (request, bool) {
	r := request{method: http.MethodPost, core: core}
	old := w.on.version == "0.3"
	tenant, _ := params["tenant"].(string)
	delete(params, "tenant")
	if old {
		protobuf03(params)
	}
	switch core {
	case "SendMessage":
		r.url = "/message:send"
	case "SendStreamingMessage":
		r.url = "/message:stream"
	case "ListTasks":
		r.method, r.url = http.MethodGet, "/tasks"
	case "GetTask":
		r.method, r.url = http.MethodGet, "/tasks/"+url.PathEscape(taskOf(params, "id", "name"))
	case "SubscribeToTask":
		r.method, r.url = http.MethodGet, "/tasks/"+url.PathEscape(taskOf(params, "id", "name"))+":subscribe"
	case "CancelTask":
		r.url = "/tasks/" + url.PathEscape(taskOf(params, "id", "name")) + ":cancel"
	case "GetExtendedAgentCard":
		r.method, r.url = http.MethodGet, map[bool]string{false: "/extendedAgentCard", true: "/card"}[old]
	default:
		r.url = "/tasks/" + url.PathEscape(taskOf(params, "taskId")) + "/pushNotificationConfigs"
		switch core {
		case "CreateTaskPushNotificationConfig":
			if old {
				params = map[string]any{"config": map[string]any{"pushNotificationConfig": params}}
			}
		case "ListTaskPushNotificationConfigs":
			r.method = http.MethodGet
		default:
			r.method, r.url = http.MethodGet, r.url+"/"+url.PathEscape(fmt.Sprint(params["id"]))
			if strings.HasPrefix(core, "Delete") {
				r.method = http.MethodDelete
			}
			delete(params, "id")
		}
	}
	if tenant != "" {
		r.url = "/" + url.PathEscape(tenant) + r.url
	}
	if old {
		r.url = "/v1" + r.url
	}
	r.url = target + r.url
	if r.method == http.MethodPost {
		if len(params) > 0 {
			r.body, _ = json.Marshal(params)
		}
	} else if len(params) > 0 {
		q := url.Values{}
		for name, v := range params {
			q.Set(name, fmt.Sprint(v))
		}
		r.url += "?" + q.Encode()
	}
	r.dial = r.url
	return r, true
}

// messages are the requests and answers of both services.
var messages = map[string]map[string][2]proto.Message{
	"1.0": {
		"SendMessage":                      {&v1.SendMessageRequest{}, &v1.SendMessageResponse{}},
		"SendStreamingMessage":             {&v1.SendMessageRequest{}, &v1.StreamResponse{}},
		"GetTask":                          {&v1.GetTaskRequest{}, &v1.Task{}},
		"ListTasks":                        {&v1.ListTasksRequest{}, &v1.ListTasksResponse{}},
		"CancelTask":                       {&v1.CancelTaskRequest{}, &v1.Task{}},
		"SubscribeToTask":                  {&v1.SubscribeToTaskRequest{}, &v1.StreamResponse{}},
		"CreateTaskPushNotificationConfig": {&v1.TaskPushNotificationConfig{}, &v1.TaskPushNotificationConfig{}},
		"GetTaskPushNotificationConfig":    {&v1.GetTaskPushNotificationConfigRequest{}, &v1.TaskPushNotificationConfig{}},
		"DeleteTaskPushNotificationConfig": {&v1.DeleteTaskPushNotificationConfigRequest{}, &emptypb.Empty{}},
		"ListTaskPushNotificationConfigs":  {&v1.ListTaskPushNotificationConfigsRequest{}, &v1.ListTaskPushNotificationConfigsResponse{}},
		"GetExtendedAgentCard":             {&v1.GetExtendedAgentCardRequest{}, &v1.AgentCard{}},
	},
	"0.3": {
		"SendMessage":                      {&v03.SendMessageRequest{}, &v03.SendMessageResponse{}},
		"SendStreamingMessage":             {&v03.SendMessageRequest{}, &v03.StreamResponse{}},
		"GetTask":                          {&v03.GetTaskRequest{}, &v03.Task{}},
		"ListTasks":                        {&v03.ListTasksRequest{}, &v03.ListTasksResponse{}},
		"CancelTask":                       {&v03.CancelTaskRequest{}, &v03.Task{}},
		"SubscribeToTask":                  {&v03.TaskSubscriptionRequest{}, &v03.StreamResponse{}},
		"CreateTaskPushNotificationConfig": {&v03.CreateTaskPushNotificationConfigRequest{}, &v03.TaskPushNotificationConfig{}},
		"GetTaskPushNotificationConfig":    {&v03.GetTaskPushNotificationConfigRequest{}, &v03.TaskPushNotificationConfig{}},
		"ListTaskPushNotificationConfigs":  {&v03.ListTaskPushNotificationConfigRequest{}, &v03.ListTaskPushNotificationConfigResponse{}},
		"GetExtendedAgentCard":             {&v03.GetAgentCardRequest{}, &v03.AgentCard{}},
	},
}

func (w *town) grpcRequest(target, core string, params map[string]any) (request, bool) {
	w.t.Helper()
	agent := w.agentAt(target)
	types, ok := messages[w.on.version][core]
	if !ok || w.grpc[agent] == "" {
		w.t.Fatalf("%s at %s cannot be said in %s", core, target, w.on)
	}
	if c, ok := params["configuration"].(map[string]any); ok && c["pushNotificationConfig"] != nil {
		c["taskPushNotificationConfig"] = c["pushNotificationConfig"] // its name in JSON of 0.3
	}
	service, name := "/lf.a2a.v1.A2AService/", core
	if w.on.version == "0.3" {
		service = "/a2a.v1.A2AService/"
		if renamed := names03[core][1]; renamed != "" {
			name = renamed
		}
		protobuf03(params)
		if message, ok := params["message"].(map[string]any); ok && message["content"] != nil {
			message["parts"] = message["content"] // as the later revisions of 0.3 have it
			delete(message, "content")
		}
		switch core {
		case "GetTask", "CancelTask", "SubscribeToTask":
			params["name"] = "tasks/" + taskOf(params, "id", "name")
		case "CreateTaskPushNotificationConfig":
			task := taskOf(params, "taskId")
			params = map[string]any{"parent": "tasks/" + task, "configId": "c", "config": map[string]any{
				"name": "tasks/" + task + "/pushNotificationConfigs/c", "pushNotificationConfig": params,
			}}
		case "GetTaskPushNotificationConfig":
			params = map[string]any{"name": fmt.Sprintf("tasks/%s/pushNotificationConfigs/%v", taskOf(params, "taskId"), params["id"])}
		case "ListTaskPushNotificationConfigs":
			params = map[string]any{"parent": "tasks/" + taskOf(params, "taskId")}
		}
	} else if _, ok := params["name"]; ok {
		params["id"] = taskOf(params, "name")
	}
	raw, err := json.Marshal(params)
	m := proto.Clone(types[0])
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, m)
	}
	if err != nil && (strings.Contains(err.Error(), "invalid google.protobuf.Value") || strings.Contains(err.Error(), "oneof")) {
		return request{}, false // a number beyond float64, a part that is two things: protobuf cannot say it
	}
	var body []byte
	if err == nil {
		body, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	}
	if err != nil {
		w.t.Fatalf("%s cannot be said in %s: %v\n%s", core, w.on, err, raw)
	}
	return request{method: http.MethodPost, url: target + service + name, dial: "http://" + w.grpc[agent] + service + name, body: body, core: core}, true
}

// h2 speaks HTTP/2 without TLS.
var h2 = func() *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: p}}
}()

// deliver sends a call in the town's form and says the answer as JSON-RPC would.
func (w *town) deliver(r request, header http.Header) answer {
	w.t.Helper()
	res := w.send(r, header)
	defer res.Body.Close()
	return w.read(r, res)
}

// send sends a call in the town's form.
func (w *town) send(r request, header http.Header) *http.Response {
	w.t.Helper()
	if old := header.Get("DPoP"); old != "" {
		header.Set("DPoP", w.sign.moved(old, r.method, r.url))
	}
	body := r.body
	if w.on.binding == overGRPC {
		body = append(be.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
		header.Set("Content-Type", "application/grpc")
		header.Set("Te", "trailers")
		header.Del("Connection") // HTTP/2 has none of these
		header.Del("Upgrade")
	}
	if w.on.binding == overMCP {
		header.Set("Accept", "application/json, text/event-stream")
		if r.reference != "" {
			header.Add("Powerbox-Capability", r.reference)
		}
	} else if header.Get("A2A-Version") == "" {
		header.Set("A2A-Version", w.on.version)
	}
	req, err := http.NewRequest(r.method, r.dial, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header
	if len(body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.DefaultClient
	if w.on.binding == overGRPC {
		client = h2
	}
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// read reads an answer, or the rest of it, to its end.
func (w *town) read(r request, res *http.Response) answer {
	w.t.Helper()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{Status: res.StatusCode, Header: res.Header, Trailer: res.Trailer, Raw: raw}
	switch w.on.binding {
	case overREST:
		a.fromREST()
	case overGRPC:
		a.fromGRPC(w.t, res.Trailer, w.on.version, r.core)
	default:
		_ = json.Unmarshal(event(a), &a)
	}
	a.Result = asResult(a.Result)
	return a
}

// event is the first event of a stream, and otherwise the answer.
func event(a answer) []byte {
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		return a.Raw
	}
	for line := range bytes.Lines(a.Raw) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return bytes.TrimSpace(data)
		}
	}
	return nil
}

// asResult puts what 0.3 says by kind under its name, as 1.0 does.
func asResult(raw json.RawMessage) json.RawMessage {
	var kind struct {
		Kind   string          `json:"kind"`
		Status json.RawMessage `json:"status"`
	}
	if json.Unmarshal(raw, &kind) != nil || kind.Kind != "task" && kind.Kind != "message" {
		return raw
	}
	out, _ := json.Marshal(map[string]json.RawMessage{kind.Kind: raw})
	return out
}

// codes are JSON-RPC's codes by the reasons of the other bindings.
var codes = map[string]int{
	"UNAUTHORIZED": -31403, "UNAUTHENTICATED": -31401, "TASK_NOT_FOUND": -32001, "INVALID_PARAMS": -32602, "INVALID_REQUEST": -32600,
	"PARSE_ERROR": -32700, "METHOD_NOT_FOUND": -32601, "EXTENSION_SUPPORT_REQUIRED": -32008, "VERSION_NOT_SUPPORTED": -32009, "INTERNAL_ERROR": -32603,
}

func (a *answer) fromREST() {
	var body struct {
		Error *struct {
			Message string `json:"message"`
			Details []struct {
				Reason   string            `json:"reason"`
				Metadata map[string]string `json:"metadata"`
			} `json:"details"`
		} `json:"error"`
	}
	payload := event(*a)
	if json.Unmarshal(payload, &body) != nil || body.Error == nil {
		a.Result = payload
		return
	}
	a.Error = &rpcError{Message: body.Error.Message}
	for _, d := range body.Error.Details {
		if d.Reason != "" {
			a.Error.Code = codes[d.Reason]
			a.Error.Data = append(a.Error.Data, errorData{d.Metadata})
		}
	}
	if a.Error.Code != 0 {
		a.Status = http.StatusOK // what JSON-RPC says
	}
}

func (a *answer) fromGRPC(t *testing.T, trailer http.Header, version, core string) {
	t.Helper()
	said := trailer
	if a.Header.Get("Grpc-Status") != "" {
		said = a.Header
	}
	var all []byte
	for len(a.Raw) >= 5 {
		size := int(be.BigEndian.Uint32(a.Raw[1:5]))
		m := proto.Clone(messages[version][core][1])
		if err := proto.Unmarshal(a.Raw[5:5+size], m); err != nil {
			t.Fatal(err)
		}
		if a.Result == nil {
			a.Result, _ = protojson.Marshal(m)
		}
		one, _ := protojson.Marshal(m)
		all = append(append(all, one...), '\n')
		a.Raw = a.Raw[5+size:]
	}
	a.Raw = all
	if said.Get("Grpc-Status") == "0" {
		return
	}
	details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(said.Get("Grpc-Status-Details-Bin"), "="))
	var s status.Status
	if err == nil {
		err = proto.Unmarshal(details, &s)
	}
	if err != nil || strconv.Itoa(int(s.Code)) != said.Get("Grpc-Status") {
		t.Fatalf("status %q with details %q: %v; headers %v, trailers %v", said.Get("Grpc-Status"), &s, err, a.Header, trailer)
	}
	a.Error = &rpcError{Message: s.Message}
	for _, d := range s.Details {
		var info errdetails.ErrorInfo
		if d.UnmarshalTo(&info) == nil {
			a.Error.Code = codes[info.Reason]
			a.Error.Data = append(a.Error.Data, errorData{info.Metadata})
		}
	}
	names := make([]string, 0, len(said))
	for name := range said {
		if strings.HasPrefix(name, "Grpc-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	a.Raw = fmt.Appendf(nil, "%s %v %v", s.Message, a.Error.Data, names)
}

// grpcLines are the lines of the configuration that open gRPC for an agent.
func (w *town) grpcLines(agent string) string {
	if w.on.binding != overGRPC {
		return ""
	}
	w.grpc[agent] = "127.0.0.1:" + freePort(w.t)
	return fmt.Sprintf("    grpc: {listen: %q}\n", w.grpc[agent])
}

// proofHeader are the headers of a capability with a proof for a request.
func (w *town) proofHeader(c *caller, held granted, operation string, args map[string]any, about token.Request) http.Header {
	w.t.Helper()
	compact, err := token.SignProof([]string{held.Token}, c.key, token.Proof{
		ID: nonce(), IssuedAt: time.Now(), Operation: operation, Arguments: value(w.t, args),
		Audience: w.agentURL("documents"), Request: &about,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return http.Header{"Powerbox-Capability": {held.Token}, "Powerbox-Proof": {compact}}
}

// unmarshalJSON reads the JSON form of a message.
func unmarshalJSON(raw []byte, m proto.Message) error { return protojson.Unmarshal(raw, m) }

// proofOf is what a proof of a call must be about.
func (w *town) proofOf(target string, body []byte) *token.Request {
	r, _ := w.encode(target, body)
	return &token.Request{Method: r.method, URL: r.url, Digest: token.DigestOf(r.body)}
}
