package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/app/serve"
)

// fronts are the addresses of the gateway: that of HTTP, that of its metrics, that of its
// door and that of gRPC. After an error none of them is open.
func (g *remoteGateway) fronts(ctx context.Context, main net.Listener) ([]serve.Front, error) {
	public := g.face.Load().gateway.URL(g.enrolled.Agent)
	proxies, err := serve.ProxiesOf(g.options.Proxies)
	if err != nil {
		return nil, errors.Join(err, main.Close())
	}
	edge := serve.Edge{TLS: g.tls, Proxies: proxies, Limits: g.face.Load().config.Limits, Log: g.log}
	fronts := []serve.Front{{Listener: main, Handler: serve.GuardHosts(main.Addr(), g.handler(), public)}}
	if g.options.Telemetry.Listen != "" {
		f, err := serve.ListenTelemetry(ctx, g.telemetry, g.options.Telemetry.Listen, g.log)
		if err != nil {
			return nil, errors.Join(err, serve.CloseAll(fronts))
		}
		fronts = append(fronts, f)
	}
	door, err := g.door(ctx)
	if err != nil {
		return nil, errors.Join(err, serve.CloseAll(fronts))
	}
	fronts = append(fronts, door...)
	if g.options.GRPC == "" {
		return edge.Before(fronts), nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.options.GRPC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--grpc-listen: %w", err), serve.CloseAll(fronts))
	}
	if g.options.Dev && !serve.Loopback(l.Addr()) {
		return nil, errors.Join(errors.New("--dev listens on loopback addresses only"), l.Close(), serve.CloseAll(fronts))
	}
	return edge.Before(append(fronts, serve.Front{Listener: l, Handler: serve.GuardHosts(l.Addr(), http.HandlerFunc(g.serveGRPC), g.options.Address)})), nil
}

// serveGRPC serves under the configuration that is in force.
func (g *remoteGateway) serveGRPC(w http.ResponseWriter, r *http.Request) {
	h, err := g.face.Load().gateway.GRPC(g.enrolled.Agent)
	if err != nil {
		http.Error(w, "there is no such agent", http.StatusNotFound)
		return
	}
	h.ServeHTTP(w, r)
}
