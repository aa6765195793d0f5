package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
)

// listen opens the addresses of the agents that take gRPC, and puts TLS on all
// of them and on the main one. After an error none of them is open.
func (i *Instance) listen(ctx context.Context, main net.Listener, log *slog.Logger) ([]serve.Front, error) {
	fronts := []serve.Front{{Listener: main, Handler: serve.GuardHosts(main.Addr(), i.Handler, i.Config.Issuer.URL)}}
	for _, g := range i.grpc {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("agents, %s, grpc.listen: %w", g.agent, err), serve.CloseAll(fronts))
		}
		fronts = append(fronts, serve.Front{Listener: l, Handler: serve.GuardHosts(l.Addr(), g.handler, g.address)})
	}
	for _, d := range i.Doors {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.Listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("doors, %s, listen: %w", d.Name, err), serve.CloseAll(fronts))
		}
		// A proxy asks under the names of its callers, so no host is refused here.
		fronts = append(fronts, serve.Front{Listener: l, Handler: d.Handler, GRPC: d.GRPC})
	}
	if i.Config.Telemetry.Listen != "" {
		f, err := serve.ListenTelemetry(ctx, i.telemetry, i.Config.Telemetry.Listen, log)
		if err != nil {
			return nil, errors.Join(err, serve.CloseAll(fronts))
		}
		fronts = append(fronts, f)
	}
	settings, err := serve.NewTLS("issuer.tls", i.Config.Issuer.TLS, func() *spiffe.Domains { return i.workloads.Domains })
	if err != nil {
		return nil, errors.Join(err, serve.CloseAll(fronts))
	}
	if settings != nil {
		i.Rereads.Add(settings.Source)
	}
	proxies, err := serve.ProxiesOf(i.Config.Proxies)
	if err != nil {
		return nil, errors.Join(err, serve.CloseAll(fronts))
	}
	return serve.Edge{TLS: settings, Proxies: proxies, Limits: i.Config.Limits, Log: log}.Before(fronts), nil
}

// Server is how the server serves.
func (i *Instance) Server(log *slog.Logger) serve.Server {
	c := i.Config
	return serve.Server{
		Limits: c.Limits, Notice: c.Defaults.DrainNotice, Drain: c.Defaults.Drain, Streams: i.gateway,
		Sources: i.Rereads.All, Reload: i.reloads.told, Log: log,
	}
}
