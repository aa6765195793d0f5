package main

import (
	"context"
	"encoding/json"
	"net"
	"strings"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/open-policy-agent/opa/v1/sdk"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/powerbox-project/powerbox/bench/internal/opa"
)

const (
	verbOPA = "opa"
	synced  = "synced"  // the decision log that is on the disk before the answer
	nothing = "nothing" // no decision: OPA is not asked
)

// policy permits what Powerbox's configuration here permits.
const policy = `package powerbox

default allow := false

allow if {
	input.attributes.request.http.method == "POST"
	input.parsed_path == ["agents", "notes"]
	input.parsed_body.method == "SendMessage"
	every part in input.parsed_body.params.message.parts { part.data.skill == "read_note" }
}
`

// serveOPA is the process of OPA behind ext_authz over gRPC.
func serveOPA(ctx context.Context, listen, log string) error {
	var decides auth.AuthorizationServer = undecided{}
	if log != nothing {
		engine, err := opa.Start(ctx, opa.Settings{Policy: policy, Log: log + ".decisions", Synced: log == synced})
		if err != nil {
			return err
		}
		defer engine.Stop(context.WithoutCancel(ctx))
		decides = authorizer{engine}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	auth.RegisterAuthorizationServer(s, decides)
	context.AfterFunc(ctx, s.Stop)
	return s.Serve(l)
}

// authorizer answers ext_authz with the input that opa-envoy-plugin has.
type authorizer struct{ engine *sdk.OPA }

// Check implements [auth.AuthorizationServer].
func (a authorizer) Check(ctx context.Context, r *auth.CheckRequest) (*auth.CheckResponse, error) {
	raw, err := protojson.Marshal(r)
	if err != nil {
		return nil, err
	}
	var input map[string]any
	if err := json.Unmarshal(raw, &input); err != nil {
		return nil, err
	}
	h := r.GetAttributes().GetRequest().GetHttp()
	var body any
	if err := json.Unmarshal(h.GetRawBody(), &body); err != nil {
		return nil, err
	}
	path := []any{}
	for _, part := range strings.Split(strings.Trim(h.GetPath(), "/"), "/") {
		path = append(path, part)
	}
	input["parsed_path"], input["parsed_body"] = path, body
	d, err := a.engine.Decision(ctx, sdk.DecisionOptions{Path: "/powerbox/allow", Input: input})
	if err != nil {
		return nil, err
	}
	if d.Result != true {
		return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return allowed(), nil
}

func allowed() *auth.CheckResponse {
	return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.OK)}, HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{}}}
}

// undecided allows every request, so that the cost of gRPC alone is seen.
type undecided struct{}

// Check implements [auth.AuthorizationServer].
func (undecided) Check(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error) {
	return allowed(), nil
}
