package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/doors"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// DoorOptions are the flags of the address at which another gateway asks for decisions.
type DoorOptions struct {
	Listen       string // "" for no door
	Path         string // at which the other gateway has the agent; "" for /agents/ID
	Token        string // file
	Certificates bool
	GRPCOnly     bool
}

// Check reports options that do not go together.
func (o DoorOptions) Check(exec bool) error {
	host, _, err := net.SplitHostPort(o.Listen)
	ip := net.ParseIP(host)
	switch {
	case o.Listen == "" && o != DoorOptions{}:
		return errors.New("--door-path, --door-token-file, --door-peer-certificates and --door-grpc-only go with --door-listen")
	case o.Listen == "":
		return nil
	case err != nil:
		return fmt.Errorf("--door-listen: %w; want host:port", err)
	case exec:
		return errors.New("--door-listen and --mcp-exec do not go together: another gateway cannot reach a command; run the gateway with --upstream")
	case o.Token == "" && o.Certificates:
		return errors.New("--door-peer-certificates wants --door-token-file: any process of this machine could report the certificate of another caller")
	case o.Token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()):
		return fmt.Errorf("--door-listen %s is reached from other machines; name a file with a token by --door-token-file (head -c 32 /dev/urandom | base64), or listen on 127.0.0.1", o.Listen)
	case o.Path != "" && (!strings.HasPrefix(o.Path, "/") || path.Clean(o.Path) != o.Path || strings.ContainsAny(o.Path, "?#%\\;")):
		return fmt.Errorf("--door-path %q is not a plain path; want one such as /agents/notes", o.Path)
	}
	return nil
}

// door is the address at which another gateway asks, under the configuration in force.
func (g *remoteGateway) door(ctx context.Context) ([]serve.Front, error) {
	o := g.options.Door
	if o.Listen == "" {
		return nil, nil
	}
	config := g.face.Load().config
	d := &doors.Door{Name: "gateway", PeerCertificates: o.Certificates, Gateway: asked{g}, BodyLimit: int(config.Defaults.BodyLimit), BodyTime: config.Limits.BodyTime, Log: g.log}
	for _, p := range []string{strings.TrimSuffix(a2apb.Service1, "/"), strings.TrimSuffix(a2apb.Service03, "/")} {
		d.Routes = append(d.Routes, doors.Route{Path: p, Agent: g.enrolled.Agent})
	}
	at := o.Path
	if at == "" {
		at = "/agents/" + g.enrolled.Agent
	}
	d.Routes = append(d.Routes, doors.Route{Path: at, Agent: g.enrolled.Agent})
	if o.Token != "" {
		token, err := os.ReadFile(o.Token)
		if err != nil {
			return nil, fmt.Errorf("--door-token-file: %w", err)
		}
		if d.Token = string(bytes.TrimSpace(token)); d.Token == "" {
			return nil, fmt.Errorf("--door-token-file: %s is empty; want a token of at least 32 bytes", o.Token)
		}
	}
	h, err := d.Handler()
	if err != nil {
		return nil, fmt.Errorf("--door-token-file: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("--door-listen: %w", err)
	}
	// A proxy asks under the names of its callers, so no host is refused here.
	if o.GRPCOnly {
		return []serve.Front{{Listener: l, Handler: d.Admit(), GRPC: d.GRPC}}, nil
	}
	return []serve.Front{{Listener: l, Handler: h}}, nil
}

// asked is the gateway under the configuration that is in force.
type asked struct{ *remoteGateway }

// Advise implements [doors.Decider].
func (g asked) Advise(r *http.Request, c gateway.Carries) gateway.Advice {
	return g.face.Load().gateway.Advise(r, c)
}

// AdviseGRPC implements [doors.Decider].
func (g asked) AdviseGRPC(agent string, r *http.Request, c gateway.Carries) gateway.Advice {
	return g.face.Load().gateway.AdviseGRPC(agent, r, c)
}
