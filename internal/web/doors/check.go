package doors

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// settingEnvoy is how Envoy's ext_authz is made to send bodies.
const settingEnvoy = "set with_request_body: {max_request_bytes: 1048576, pack_as_bytes: true} in its ext_authz filter"

// checks answers ext_authz over gRPC.
type checks struct{ *Door }

// Check implements [auth.AuthorizationServer].
func (c checks) Check(ctx context.Context, r *auth.CheckRequest) (*auth.CheckResponse, error) {
	q, wrong := c.question(r)
	if wrong != nil {
		return refused(answered(q, wrong)), nil
	}
	came := q.header.Clone()
	a := c.advise(ctx, q, gateway.Carries{Answers: true})
	if a.Forward == nil {
		return refused(a), nil
	}
	return &auth.CheckResponse{
		Status: &status.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
			Headers: changes(came, a.Forward.Header), HeadersToRemove: removed(came, a.Forward.Header),
			ResponseHeadersToAdd: []*core.HeaderValueOption{set(gateway.HeaderDecision, a.Forward.Decision, false)},
		}},
		DynamicMetadata: about(a.Forward.Decision, a.Forward.Agent),
	}, nil
}

// question is what Envoy tells of a request.
func (c checks) question(r *auth.CheckRequest) (*question, *a2a.Denial) {
	at := r.GetAttributes()
	h := at.GetRequest().GetHttp()
	q := &question{method: h.GetMethod(), host: h.GetHost(), target: h.GetPath(), header: http.Header{}, body: h.GetRawBody(), setting: settingEnvoy}
	for name, value := range h.GetHeaders() {
		q.put(name, value)
	}
	for _, v := range h.GetHeaderMap().GetHeaders() {
		if value := v.GetValue(); value != "" {
			q.put(v.GetKey(), value)
		} else {
			q.put(v.GetKey(), string(v.GetRawValue()))
		}
	}
	if h.GetBody() != "" {
		return q, problem(codeCut, "the proxy sent the body as text, in which it replaces every byte that is no UTF-8, and would forward another one; %s", settingEnvoy)
	}
	if s := at.GetSource().GetAddress().GetSocketAddress(); s != nil {
		q.from = net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
	}
	if sent := at.GetSource().GetCertificate(); sent != "" && c.PeerCertificates {
		if q.peer = certificate(sent); q.peer == nil {
			return q, problem("unauthenticated", "the proxy reports a client certificate that cannot be read")
		}
	}
	return q, nil
}

// put takes a header of a request. The names that begin with a colon are those of HTTP/2.
func (q *question) put(name, value string) {
	if name == "" || name[0] == ':' {
		return
	}
	q.header.Add(name, value)
}

// certificate reads a certificate as Envoy reports it: PEM, encoded for URLs.
func certificate(sent string) *x509.Certificate {
	text, err := url.PathUnescape(sent)
	if err != nil {
		return nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return c
}

// refused answers the caller in place of the agent.
func refused(a gateway.Advice) *auth.CheckResponse {
	denied := &auth.DeniedHttpResponse{Status: &envoytype.HttpStatus{Code: envoytype.StatusCode(a.Status)}, Body: strings.ToValidUTF8(string(a.Body), "\ufffd")}
	for name, values := range a.Header {
		if !hopByHop[name] {
			for i, v := range values {
				denied.Headers = append(denied.Headers, set(name, v, i > 0))
			}
		}
	}
	return &auth.CheckResponse{
		Status:          &status.Status{Code: int32(codes.PermissionDenied), Message: a.Header.Get(gateway.HeaderReason)},
		HttpResponse:    &auth.CheckResponse_DeniedResponse{DeniedResponse: denied},
		DynamicMetadata: about(a.Header.Get(gateway.HeaderDecision), ""),
	}
}

// changes are the headers that continue in another form. Envoy shows several lines of a
// header as one, and an exclamation mark for a byte that is no text: such values are set, so
// that the agent gets the ones that were decided on.
func changes(came, on http.Header) []*core.HeaderValueOption {
	var out []*core.HeaderValueOption
	for name, values := range on {
		told := !slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, ",!") })
		if told && slices.Equal(came[name], values) || ofRequest[name] {
			continue
		}
		for i, v := range values {
			out = append(out, set(name, v, i > 0))
		}
	}
	return out
}

// set writes a header over the one that is there, or beside it.
func set(name, value string, beside bool) *core.HeaderValueOption {
	how := core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	if beside {
		how = core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: strings.ToLower(name), Value: value}, AppendAction: how}
}

// about is what the proxy's own log may say of a decision.
func about(decision, agent string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"decision": structpb.NewStringValue(decision), "agent": structpb.NewStringValue(agent),
	}}
}
