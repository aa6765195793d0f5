package doors

import (
	"net/http"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// The answer to a call of gRPC comes in three parts, the last of which has its status.
// Envoy holds the first two until it has our answer to the last.

// instead answers the caller in place of the agent, whose answer it must not have.
func (x *exchange) instead(a *gateway.Advice) *proc.ProcessingResponse {
	x.over, x.ends = true, false
	return immediate(*a)
}

// grpcBegins takes the headers of an answer.
func (x *exchange) grpcBegins(as func(*proc.CommonResponse) *proc.ProcessingResponse) *proc.ProcessingResponse {
	came := x.answer.Header.Clone()
	if refused := x.forward.Headers(x.answer); refused != nil {
		return x.instead(refused)
	}
	m := &proc.HeaderMutation{}
	if len(came["Content-Length"]) > 0 { // the message may change
		delete(came, "Content-Length")
		m.RemoveHeaders = []string{"content-length"}
	}
	changed := x.changed(came, 0)
	m.RemoveHeaders, m.SetHeaders = append(m.RemoveHeaders, changed.GetRemoveHeaders()...), changed.GetSetHeaders()
	return as(&proc.CommonResponse{HeaderMutation: m})
}

// grpcMessages takes its messages.
func (x *exchange) grpcMessages(body []byte) *proc.ProcessingResponse {
	if x.ends {
		return x.refuse(codeCut, "the proxy sent the messages of an answer in pieces; set processing_mode.response_body_mode: BUFFERED in its ext_proc filter")
	}
	body, refused := x.forward.Messages(x.answer, body)
	if refused != nil {
		return x.instead(refused)
	}
	x.ends = true
	return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_ResponseBody{ResponseBody: &proc.BodyResponse{Response: &proc.CommonResponse{
		BodyMutation: &proc.BodyMutation{Mutation: &proc.BodyMutation_Body{Body: body}},
	}}}}
}

// answerTrailers takes the trailers of an answer, of gRPC or not.
func (x *exchange) answerTrailers(sent *core.HeaderMap) *proc.ProcessingResponse {
	as := func(m *proc.HeaderMutation) *proc.ProcessingResponse {
		return &proc.ProcessingResponse{Response: &proc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &proc.TrailersResponse{HeaderMutation: m}}}
	}
	if x.forward == nil || x.answer == nil || x.over || !x.forward.IsGRPC() {
		return as(withoutOurs(sent, ""))
	}
	if !x.ends { // there was no message
		if first := x.grpcMessages(nil); first.GetImmediateResponse() != nil {
			return first
		}
	}
	came := http.Header{}
	for _, v := range sent.GetHeaders() {
		came.Add(v.GetKey(), valueOf(v))
	}
	x.ends, x.over = false, true
	if refused := x.forward.Ended(x.answer, came.Clone()); refused != nil {
		return x.instead(refused)
	}
	return as(mutated(came, x.answer.Trailer))
}
