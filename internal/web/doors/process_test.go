package doors_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// buffered is how Envoy is to be set.
var buffered = &proc.ProtocolConfiguration{RequestBodyMode: filter.ProcessingMode_BUFFERED, ResponseBodyMode: filter.ProcessingMode_BUFFERED}

// headersOf are headers as ext_proc sends them, with the pseudo-headers.
func headersOf(h http.Header, pseudo ...string) *core.HeaderMap {
	m := &core.HeaderMap{}
	for n := 0; n < len(pseudo); n += 2 {
		m.Headers = append(m.Headers, &core.HeaderValue{Key: pseudo[n], RawValue: []byte(pseudo[n+1])})
	}
	for name, values := range h {
		for _, v := range values {
			m.Headers = append(m.Headers, &core.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)})
		}
	}
	return m
}

// processed is what Envoy makes of the answers to one exchange.
type processed struct {
	path     string // of the request that continues
	decision string
	body     string
	header   http.Header
	refusal  *proc.ImmediateResponse // in place of the agent's answer, or of the call
	answer   string
	back     http.Header
	trailer  http.Header // of the answer
}

// process has a call and the agent's answer processed.
func (w *town) process(t testing.TB, c call, told *proc.ProtocolConfiguration, status int, answered http.Header, answer string, trailer ...http.Header) processed {
	t.Helper()
	stream, err := proc.NewExternalProcessorClient(w.conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := processed{path: c.path, body: c.body, header: c.header.Clone(), answer: answer, back: answered.Clone()}
	if c.query != "" {
		out.path += "?" + c.query
	}
	if c.body != "" && c.header.Get("Content-Type") != typeGRPC {
		out.header.Set("Content-Length", strconv.Itoa(len(c.body)))
	}
	send := func(r *proc.ProcessingRequest, header http.Header, body *string) bool {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		a, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if id := a.GetDynamicMetadata().GetFields()["decision"].GetStringValue(); id != "" {
			out.decision = id
		}
		if out.refusal = a.GetImmediateResponse(); out.refusal != nil {
			return false
		}
		for _, c := range []*proc.CommonResponse{a.GetRequestHeaders().GetResponse(), a.GetRequestBody().GetResponse(), a.GetResponseHeaders().GetResponse(), a.GetResponseBody().GetResponse(), {HeaderMutation: a.GetResponseTrailers().GetHeaderMutation()}} {
			for _, name := range c.GetHeaderMutation().GetRemoveHeaders() {
				header.Del(name)
			}
			for _, h := range c.GetHeaderMutation().GetSetHeaders() {
				switch name, v := h.GetHeader().GetKey(), string(h.GetHeader().GetRawValue()); {
				case name == ":path":
					out.path = v
				case h.GetAppendAction() == core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
					header.Add(name, v)
				default:
					header.Set(name, v)
				}
			}
			if m := c.GetBodyMutation(); m != nil {
				*body = string(m.GetBody())
				if length := header.Get("Content-Length"); length != "" && length != strconv.Itoa(len(*body)) {
					t.Errorf("Envoy refuses a body of %d bytes with the length %s", len(*body), length)
				}
			}
		}
		return true
	}
	going := send(&proc.ProcessingRequest{ProtocolConfig: told, Request: &proc.ProcessingRequest_RequestHeaders{RequestHeaders: &proc.HttpHeaders{
		Headers: headersOf(out.header, ":method", c.method, ":path", out.path, ":authority", "edge.example.com"), EndOfStream: c.body == "",
	}}}, out.header, &out.body)
	if going && c.body != "" {
		going = send(&proc.ProcessingRequest{Request: &proc.ProcessingRequest_RequestBody{RequestBody: &proc.HttpBody{Body: []byte(c.body), EndOfStream: true}}}, out.header, &out.body)
	}
	if going && status != 0 {
		going = send(&proc.ProcessingRequest{Request: &proc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &proc.HttpHeaders{
			Headers: headersOf(answered, ":status", fmt.Sprint(status)), EndOfStream: answer == "" && len(trailer) == 0,
		}}}, out.back, &out.answer)
		if going && answer != "" {
			going = send(&proc.ProcessingRequest{Request: &proc.ProcessingRequest_ResponseBody{ResponseBody: &proc.HttpBody{Body: []byte(answer), EndOfStream: len(trailer) == 0}}}, out.back, &out.answer)
		}
		if going && len(trailer) > 0 {
			out.trailer = trailer[0].Clone()
			send(&proc.ProcessingRequest{Request: &proc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &proc.HttpTrailers{Trailers: headersOf(out.trailer)}}}, out.trailer, &out.answer)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	return out
}

var jsonAnswer = http.Header{"Content-Type": {"application/json"}, "Content-Length": {"0"}}

// answers is jsonAnswer with the length of a body.
func answers(body string) http.Header {
	h := jsonAnswer.Clone()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	return h
}

// TestExtProcForwardsWhatWasDecidedOn: the body is replaced, the headers are those of the
// allowlist, and the agent's answer is on record as the outcome.
func TestExtProcForwardsWhatWasDecidedOn(t *testing.T) {
	w := newTown(t, "scoped")
	c := w.signs(t, post("notes", strings.Replace(skill("read_note", 1), `"messageId"`, `"vendor":1,"messageId"`, 1)))
	c.header.Set("X-Forwarded-User", "admin")
	c.query = "tenant=other"
	said := w.notes.answer
	p := w.process(t, c, buffered, 200, answers(said), said)
	if p.refusal != nil {
		t.Fatalf("refused: %s", p.refusal.GetBody())
	}
	if strings.Contains(p.body, "vendor") || !strings.Contains(p.body, `"read_note"`) || p.path != "/agents/notes" {
		t.Errorf("forwarded: %s %s", p.path, p.body)
	}
	if p.header.Get("X-Forwarded-User") != "" || p.header.Get("Dpop") != "" || strings.Count(p.header.Get("Powerbox-Context"), ".") != 2 {
		t.Errorf("forwarded headers: %v", p.header)
	}
	id := p.back.Get("Powerbox-Decision")
	outcome := w.outcomes(t, id)
	if !slices.Equal(outcome, []string{"ACHIEVED"}) {
		t.Errorf("outcomes of %s: %v", id, outcome)
	}
	if got := p.back.Get(":status"); got != "" {
		t.Errorf("the status 200 becomes %s", got)
	}
	if p := w.process(t, w.signs(t, post("notes", skill("read_note", 1))), buffered, 201, answers(said), said); p.refusal != nil || p.back.Get(":status") != "200" {
		t.Errorf("ATK-136 the status 201 becomes %q: %s", p.back.Get(":status"), p.refusal.GetBody())
	}
	// The answer began a task, which is the caller's from now on.
	get := w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"task-1"}}`))
	if p := w.process(t, get, buffered, 200, answers(said), said); p.refusal != nil {
		t.Errorf("the caller's own task: %s", p.refusal.GetBody())
	}
	alien := post("notes", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"task-1"}}`)
	if p := w.process(t, alien, buffered, 200, answers(said), said); p.refusal == nil {
		t.Error("an unknown caller reads the task")
	}
}

// TestExtProcCutsAndWithholdsAnswers as the gateway does.
func TestExtProcCutsAndWithholdsAnswers(t *testing.T) {
	w := newTown(t, "scoped")
	list := `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"id":"alien","contextId":"c-9","status":{"state":"TASK_STATE_WORKING"}}],"nextPageToken":"","pageSize":50,"totalSize":1}}`
	c := w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
	if p := w.process(t, c, buffered, 200, answers(list), list); p.refusal != nil || strings.Contains(p.answer, "alien") {
		t.Errorf("a task of another caller is listed: %s %s", p.answer, p.refusal.GetBody())
	}
	// The next page is asked for by the caller: the gateway asks the agent for nothing.
	list = strings.Replace(list, `"nextPageToken":""`, `"nextPageToken":"p2"`, 1)
	c = w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
	if p := w.process(t, c, buffered, 200, answers(list), list); p.refusal != nil || strings.Contains(p.answer, "alien") {
		t.Errorf("a page of another caller's tasks: %s %s", p.answer, p.refusal.GetBody())
	}
	if got, _ := w.notes.took(); len(got) != 0 {
		t.Errorf("the gateway called the agent: %v", got)
	}
	tools := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file","inputSchema":{}},{"name":"delete_file","inputSchema":{}}]}}`
	c = w.signs(t, post("tools", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
	if p := w.process(t, c, buffered, 200, answers(tools), tools); p.refusal != nil || strings.Contains(p.answer, "delete_file") || !strings.Contains(p.answer, "read_file") {
		t.Errorf("listed: %s %s", p.answer, p.refusal.GetBody())
	}
	c = w.signs(t, post("tools", tool("read_file")))
	packed := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	if p := w.process(t, c, buffered, 200, packed, "\x1f\x8b"); p.refusal == nil {
		t.Errorf("an answer that cannot be read reaches the caller: %q", p.answer)
	}
}

// TestExtProcDeniesWhatItDoesNotSee: bodies that the proxy does not buffer, and answers
// that it does not show.
func TestExtProcDeniesWhatItDoesNotSee(t *testing.T) {
	w := newTown(t, "scoped")
	read := w.signs(t, post("notes", skill("read_note", 1)))
	for name, told := range map[string]*proc.ProtocolConfiguration{
		"an old proxy": nil, "no bodies": {}, "bodies in pieces": {RequestBodyMode: filter.ProcessingMode_STREAMED},
	} {
		if p := w.process(t, read, told, 0, nil, ""); p.refusal == nil || reason(string(p.refusal.GetBody())) != "body_not_sent" {
			t.Errorf("%s: %v", name, p.refusal)
		}
	}
	headersOnly := &proc.ProtocolConfiguration{RequestBodyMode: filter.ProcessingMode_BUFFERED}
	shown := w.process(t, w.signs(t, post("notes", skill("read_note", 1))), headersOnly, 200, http.Header{"Powerbox-Outcome": {"forged"}, "Powerbox-Decision": {"rec_forged"}}, "")
	if shown.refusal != nil || shown.back.Get("Powerbox-Outcome") != "" || shown.back.Get("Powerbox-Decision") != shown.decision {
		t.Errorf("the caller gets %v", shown.back)
	}
	list := w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
	p := w.process(t, list, &proc.ProtocolConfiguration{RequestBodyMode: filter.ProcessingMode_BUFFERED}, 0, nil, "")
	if p.refusal == nil || reason(string(p.refusal.GetBody())) != "answer_not_seen" {
		t.Errorf("%v", p.refusal)
	}
	p = w.process(t, w.signs(t, post("notes", skill("delete_note", 1))), buffered, 0, nil, "")
	if p.refusal == nil || p.refusal.GetStatus().GetCode() != 200 || reason(string(p.refusal.GetBody())) != "outside_caller_scope" {
		t.Errorf("%v", p.refusal)
	}
}
