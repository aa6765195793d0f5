package doors

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// settingProcess is how Envoy's ext_proc is made to send bodies.
const settingProcess = "set processing_mode.request_body_mode: BUFFERED in its ext_proc filter (Envoy 1.31 or newer)"

// processes answers ext_proc: the request that was decided on replaces the one that came,
// and the agent's answer goes through the gateway's reading.
type processes struct{ *Door }

// exchange is one request and its answer.
type exchange struct {
	door     *Door
	bodies   bool // whether the proxy sends bodies of requests, whole, and takes others
	results  bool // the same of answers
	question *question
	came     http.Header
	forward  *gateway.Forward // once the request was allowed
	answer   *http.Response   // as far as it came
	away     bool             // the proxy was told a path that leads nowhere
	ends     bool             // the messages of an answer over gRPC were seen, and not yet its status
	over     bool             // answered, by the agent or in its place
}

// Process implements [proc.ExternalProcessorServer].
func (p processes) Process(stream proc.ExternalProcessor_ProcessServer) error {
	x := &exchange{door: p.Door}
	for first := true; ; first = false {
		r, err := stream.Recv()
		switch {
		case err != nil && x.forward != nil && x.results && !x.over:
			x.unseen(stream.Context())
			fallthrough
		case err != nil:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if r.GetObservabilityMode() {
			return status.Error(codes.FailedPrecondition, "the proxy forwards requests whatever this door says; remove observability_mode from its ext_proc filter")
		}
		if first {
			told := r.GetProtocolConfig()
			x.bodies = told.GetRequestBodyMode() == filter.ProcessingMode_BUFFERED
			x.results = told.GetResponseBodyMode() == filter.ProcessingMode_BUFFERED
		}
		if err := stream.Send(x.step(stream, r)); err != nil {
			return err
		}
	}
}

// unseen notes that the proxy ended an exchange before it showed the whole answer.
func (x *exchange) unseen(ctx context.Context) {
	fix := ""
	if x.ends {
		fix = "set processing_mode.response_trailer_mode: SEND in its ext_proc filter"
		_ = x.answer.Body.Close() // it is in memory
	}
	x.door.Log.WarnContext(ctx, "a proxy showed no answer to a call, whose outcome is unknown", slog.String("door", x.door.Name), slog.String("record", x.forward.Decision), slog.String("fix", fix))
}

// step answers one message of the proxy.
func (x *exchange) step(stream proc.ExternalProcessor_ProcessServer, r *proc.ProcessingRequest) *proc.ProcessingResponse {
	switch m := r.GetRequest().(type) {
	case *proc.ProcessingRequest_RequestHeaders:
		x.question = questionOf(m.RequestHeaders.GetHeaders())
		x.question.from = sourceOf(r)
		if whole := m.RequestHeaders.GetEndOfStream(); !whole && x.bodies {
			return x.waits()
		} else if !whole {
			return x.refuse(codeNotSent, "the proxy did not send the body, which has to be decided on; %s", settingProcess)
		}
		return x.decide(stream, func(c *proc.CommonResponse) *proc.ProcessingResponse {
			return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_RequestHeaders{RequestHeaders: &proc.HeadersResponse{Response: c}}}
		})
	case *proc.ProcessingRequest_RequestBody:
		if x.question == nil || x.forward != nil || !x.bodies {
			return x.refuse(codeCut, "the proxy sent the body in pieces, or without its headers; %s", settingProcess)
		}
		x.question.body = m.RequestBody.GetBody()
		return x.decide(stream, func(c *proc.CommonResponse) *proc.ProcessingResponse {
			c.BodyMutation = &proc.BodyMutation{Mutation: &proc.BodyMutation_Body{Body: x.forward.Body}}
			return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_RequestBody{RequestBody: &proc.BodyResponse{Response: c}}}
		})
	case *proc.ProcessingRequest_ResponseHeaders:
		return x.answerBegins(m.ResponseHeaders)
	case *proc.ProcessingRequest_ResponseBody:
		return x.answerEnds(m.ResponseBody.GetBody())
	case *proc.ProcessingRequest_RequestTrailers:
		return x.trailers(m.RequestTrailers.GetTrailers())
	default:
		return x.answerTrailers(r.GetResponseTrailers().GetTrailers())
	}
}

// refuse denies a request of which the proxy did not show enough.
func (x *exchange) refuse(code, format string, args ...any) *proc.ProcessingResponse {
	x.over = true
	q := x.question
	if q == nil {
		q = &question{}
	}
	return immediate(answered(q, problem(code, format, args...)))
}

// undecided is below the path of a request until its body is here.
const undecided = "/powerbox-undecided"

// waits lets the proxy send the body. Envoy sends none of a request that ends with trailers
// instead, and would forward it. So the path leads nowhere until the decision puts it back.
func (x *exchange) waits() *proc.ProcessingResponse {
	x.away = true
	path, _, _ := strings.Cut(x.question.target, "?")
	m := &proc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{raw(":path", strings.TrimSuffix(path, "/")+undecided, false)}}
	return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_RequestHeaders{RequestHeaders: &proc.HeadersResponse{Response: &proc.CommonResponse{HeaderMutation: m}}}}
}

// trailers removes the trailers of a request, which no one decides on.
func (x *exchange) trailers(sent *core.HeaderMap) *proc.ProcessingResponse {
	if x.forward == nil {
		return x.refuse(codeNotSent, "the request ends with trailers, and has no body to decide on; send it without trailers")
	}
	m := &proc.HeaderMutation{}
	for _, v := range sent.GetHeaders() {
		m.RemoveHeaders = append(m.RemoveHeaders, v.GetKey())
	}
	return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_RequestTrailers{RequestTrailers: &proc.TrailersResponse{HeaderMutation: m}}}
}

// decide has the request decided, and replaces it with the one that was decided on.
func (x *exchange) decide(stream proc.ExternalProcessor_ProcessServer, as func(*proc.CommonResponse) *proc.ProcessingResponse) *proc.ProcessingResponse {
	q := x.question
	route, _, _, wrong := x.door.routed(q)
	if wrong != nil {
		x.over = true
		return immediate(answered(q, wrong))
	}
	x.came = q.header.Clone()
	a := x.door.advise(stream.Context(), q, gateway.Carries{Answers: true, Bodies: x.bodies, Results: x.results})
	if a.Forward == nil {
		x.over = true
		return immediate(a)
	}
	x.forward = a.Forward
	on := a.Forward.Header.Clone()
	if len(x.came["Content-Length"]) > 0 {
		on.Set("Content-Length", strconv.Itoa(len(a.Forward.Body)))
	}
	mutation := mutated(x.came, on)
	path, _, _ := strings.Cut(q.target, "?")
	if a.Forward.Path != "" {
		path = strings.TrimSuffix(route.Path, "/") + a.Forward.Path
	}
	if a.Forward.Query != "" {
		path += "?" + a.Forward.Query
	}
	if path != q.target || x.away {
		mutation.SetHeaders = append(mutation.SetHeaders, raw(":path", path, false))
	}
	out := as(&proc.CommonResponse{HeaderMutation: mutation})
	out.DynamicMetadata = about(a.Forward.Decision, a.Forward.Agent)
	return out
}

// answerBegins takes the headers of the agent's answer.
func (x *exchange) answerBegins(h *proc.HttpHeaders) *proc.ProcessingResponse {
	as := func(c *proc.CommonResponse) *proc.ProcessingResponse {
		return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &proc.HeadersResponse{Response: c}}}
	}
	code := 0 // none, which is no status
	for _, v := range h.GetHeaders().GetHeaders() {
		if v.GetKey() == ":status" {
			code, _ = strconv.Atoi(valueOf(v))
		}
	}
	switch {
	case x.over: // ours
		return as(&proc.CommonResponse{})
	case x.forward == nil && x.question == nil && code >= http.StatusMultipleChoices: // a refusal by the proxy, before it asked
		return as(&proc.CommonResponse{})
	case x.forward == nil:
		x.door.Log.Warn("a proxy has forwarded a request that was not decided", slog.String("door", x.door.Name))
		return x.refuse(codeNotSent, "the proxy shows an answer to a request that it did not show; set processing_mode.request_header_mode: SEND in its ext_proc filter")
	case !x.results:
		x.over = true
		m := withoutOurs(h.GetHeaders(), "powerbox-decision")
		m.SetHeaders = append(m.SetHeaders, raw(gateway.HeaderDecision, x.forward.Decision, false))
		return as(&proc.CommonResponse{HeaderMutation: m})
	}
	header := http.Header{}
	for _, v := range h.GetHeaders().GetHeaders() {
		if name := v.GetKey(); name != "" && name[0] != ':' {
			header.Add(name, valueOf(v))
		}
	}
	x.answer = &http.Response{StatusCode: code, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Body: http.NoBody}
	switch {
	case !h.GetEndOfStream() && x.forward.IsGRPC():
		return x.grpcBegins(as)
	case !h.GetEndOfStream():
		return as(&proc.CommonResponse{})
	}
	x.answer.ContentLength = 0
	return x.finish(func(c *proc.CommonResponse, body []byte) *proc.ProcessingResponse {
		if len(body) > 0 {
			c.BodyMutation, c.Status = &proc.BodyMutation{Mutation: &proc.BodyMutation_Body{Body: body}}, proc.CommonResponse_CONTINUE_AND_REPLACE
		}
		return as(c)
	})
}

// withoutOurs removes the agent's headers under our names, except for one that is written over.
func withoutOurs(sent *core.HeaderMap, but string) *proc.HeaderMutation {
	m := &proc.HeaderMutation{}
	for _, v := range sent.GetHeaders() {
		if name := strings.ReplaceAll(strings.ToLower(v.GetKey()), "_", "-"); strings.HasPrefix(name, "powerbox-") && strings.ToLower(v.GetKey()) != but {
			m.RemoveHeaders = append(m.RemoveHeaders, v.GetKey())
		}
	}
	return m
}

// answerEnds takes the body of the agent's answer, whole.
func (x *exchange) answerEnds(body []byte) *proc.ProcessingResponse {
	if x.forward == nil || x.answer == nil || x.over {
		return x.refuse(codeCut, "the proxy sent an answer without its headers, or in pieces; set processing_mode.response_header_mode: SEND and response_body_mode: BUFFERED in its ext_proc filter")
	}
	if x.forward.IsGRPC() {
		return x.grpcMessages(body)
	}
	x.answer.Body, x.answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return x.finish(func(c *proc.CommonResponse, body []byte) *proc.ProcessingResponse {
		c.BodyMutation = &proc.BodyMutation{Mutation: &proc.BodyMutation_Body{Body: body}}
		return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_ResponseBody{ResponseBody: &proc.BodyResponse{Response: c}}}
	})
}

// finish has the gateway look at the whole answer, and record the outcome.
func (x *exchange) finish(as func(*proc.CommonResponse, []byte) *proc.ProcessingResponse) *proc.ProcessingResponse {
	x.over = true
	came, status := x.answer.Header.Clone(), x.answer.StatusCode
	err := x.forward.Answer(x.answer)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(x.answer.Body)
		err = errors.Join(err, x.answer.Body.Close())
	}
	if err != nil {
		return immediate(x.forward.Unanswered(err, true))
	}
	m := x.changed(came, len(body))
	if x.answer.StatusCode != status {
		m.SetHeaders = append(m.SetHeaders, raw(":status", strconv.Itoa(x.answer.StatusCode), false))
	}
	return as(&proc.CommonResponse{HeaderMutation: m}, body)
}

// changed are the headers of the answer as the caller gets them.
func (x *exchange) changed(came http.Header, length int) *proc.HeaderMutation {
	on := x.answer.Header.Clone()
	on.Set(gateway.HeaderDecision, x.forward.Decision)
	on.Set(gateway.HeaderOutcome, "forwarded")
	for name := range hopByHop {
		if values, had := came[name]; had {
			on[name] = values
		} else {
			delete(on, name)
		}
	}
	if len(came["Content-Length"]) > 0 {
		on.Set("Content-Length", strconv.Itoa(length))
	}
	return mutated(came, on)
}

// questionOf is what ext_proc tells of a request.
func questionOf(headers *core.HeaderMap) *question {
	q := &question{header: http.Header{}, setting: settingProcess}
	pseudo := map[string]*string{":method": &q.method, ":authority": &q.host, ":path": &q.target}
	for _, v := range headers.GetHeaders() {
		if at := pseudo[v.GetKey()]; at != nil {
			*at = valueOf(v)
		} else {
			q.put(v.GetKey(), valueOf(v))
		}
	}
	return q
}

func valueOf(v *core.HeaderValue) string {
	if value := v.GetRawValue(); len(value) > 0 {
		return string(value)
	}
	return v.GetValue()
}

// sourceOf is the address of the client, where the proxy is set to tell it.
func sourceOf(r *proc.ProcessingRequest) string {
	return r.GetAttributes()["envoy.filters.http.ext_proc"].GetFields()["source.address"].GetStringValue()
}

// immediate answers the caller in place of the agent.
func immediate(a gateway.Advice) *proc.ProcessingResponse {
	h := &proc.HeaderMutation{}
	for name, values := range a.Header {
		if !hopByHop[name] {
			for i, v := range values {
				h.SetHeaders = append(h.SetHeaders, raw(name, v, i > 0))
			}
		}
	}
	return &proc.ProcessingResponse{
		Response: &proc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &proc.ImmediateResponse{
			Status: &envoytype.HttpStatus{Code: envoytype.StatusCode(a.Status)}, Headers: h, Body: a.Body, Details: a.Header.Get(gateway.HeaderReason), GrpcStatus: statusOf(a.Header),
		}},
		DynamicMetadata: about(a.Header.Get(gateway.HeaderDecision), ""),
	}
}

// statusOf is the status of gRPC in an answer without a message, nil for an answer that is
// none of gRPC. Envoy takes it from its own member, and others from the headers.
func statusOf(h http.Header) *proc.GrpcStatus {
	code, err := strconv.ParseUint(h.Get("Grpc-Status"), 10, 32)
	if err != nil {
		return nil
	}
	return &proc.GrpcStatus{Status: uint32(code)}
}

// mutated is what has to change for one set of headers to become the other.
func mutated(came, on http.Header) *proc.HeaderMutation {
	m := &proc.HeaderMutation{RemoveHeaders: removed(came, on)}
	for name, values := range on {
		if !slices.Equal(came[name], values) {
			for i, v := range values {
				m.SetHeaders = append(m.SetHeaders, raw(name, v, i > 0))
			}
		}
	}
	return m
}

// raw is set for ext_proc, which takes bytes.
func raw(name, value string, beside bool) *core.HeaderValueOption {
	v := set(name, "", beside)
	v.Header.RawValue = []byte(value)
	return v
}
