package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/plugins/logs"
	"github.com/open-policy-agent/opa/v1/sdk"
	"github.com/sirupsen/logrus"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	verbOPA = "opa"
	synced  = "synced" // the decision log that is on the disk before the answer
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
	dir, err := os.MkdirTemp(".", "opa")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.rego"), []byte(policy), 0o600); err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	settings := map[string]any{"bundles": map[string]any{"p": map[string]any{"resource": "file://" + dir}}, "decision_logs": map[string]any{"console": true}}
	file, err := os.Create(log + ".decisions") //nolint:gosec // one of two names of ours
	if err != nil {
		return err
	}
	options := sdk.Options{ID: "bench", ConsoleLogger: toFile(file)}
	if log == synced {
		settings["decision_logs"], settings["plugins"] = map[string]any{"plugin": synced}, map[string]any{synced: map[string]any{}}
		options.Plugins = map[string]plugins.Factory{synced: durable{file}}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	options.Config = bytes.NewReader(text)
	engine, err := sdk.New(ctx, options)
	if err != nil {
		return err
	}
	defer engine.Stop(context.WithoutCancel(ctx))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	auth.RegisterAuthorizationServer(s, opa{engine})
	context.AfterFunc(ctx, s.Stop)
	return s.Serve(l)
}

// toFile is OPA's logger for the console, which writes JSON.
func toFile(f *os.File) logging.Logger {
	l := logging.New()
	l.SetOutput(f)
	l.SetFormatter(&logrus.JSONFormatter{}) // as opa run --log-format json
	return l
}

// opa answers ext_authz with the input that opa-envoy-plugin has.
type opa struct{ engine *sdk.OPA }

// Check implements [auth.AuthorizationServer].
func (o opa) Check(ctx context.Context, r *auth.CheckRequest) (*auth.CheckResponse, error) {
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
	d, err := o.engine.Decision(ctx, sdk.DecisionOptions{Path: "/powerbox/allow", Input: input})
	if err != nil {
		return nil, err
	}
	if d.Result != true {
		return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.OK)}, HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{}}}, nil
}

// durable makes the plugin that syncs OPA's decision log.
type durable struct{ file *os.File }

// Validate implements [plugins.Factory].
func (durable) Validate(*plugins.Manager, []byte) (any, error) { return struct{}{}, nil }

// New implements [plugins.Factory].
func (d durable) New(m *plugins.Manager, _ any) plugins.Plugin {
	m.UpdatePluginStatus(synced, &plugins.Status{State: plugins.StateOK})
	return &syncing{file: d.file}
}

// syncing writes decisions in groups: those that come while a group is on its way to the
// disk are the next one.
type syncing struct {
	file  *os.File
	mu    sync.Mutex
	group *group // that is filled
	disk  sync.Mutex
}

type group struct {
	lines bytes.Buffer
	done  chan struct{}
	err   error
}

// Log implements [logs.Logger].
func (s *syncing) Log(_ context.Context, e logs.EventV1) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	s.mu.Lock()
	g := s.group
	first := g == nil
	if first {
		g = &group{done: make(chan struct{})}
		s.group = g
	}
	g.lines.Write(append(line, '\n'))
	s.mu.Unlock()
	if !first {
		<-g.done
		return g.err
	}
	s.disk.Lock()
	s.mu.Lock()
	s.group = nil
	s.mu.Unlock()
	_, err = s.file.Write(g.lines.Bytes())
	g.err = errors.Join(err, s.file.Sync())
	s.disk.Unlock()
	close(g.done)
	return g.err
}

// Start implements [plugins.Plugin].
func (*syncing) Start(context.Context) error { return nil }

// Stop implements [plugins.Plugin].
func (*syncing) Stop(context.Context) {}

// Reconfigure implements [plugins.Plugin].
func (*syncing) Reconfigure(context.Context, any) {}
