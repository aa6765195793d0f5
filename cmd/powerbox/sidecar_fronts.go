package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// fronts are the addresses of the gateway: that of HTTP, and that of gRPC where
// it is taken. After an error none of them is open.
func (g *apartGateway) fronts(ctx context.Context, main net.Listener) ([]front, error) {
	public := g.face.Load().gateway.URL(g.enrolled.Agent)
	limits := g.face.Load().config.Limits
	proxies, err := proxiesOf(g.options.proxies)
	if err != nil {
		return nil, errors.Join(err, main.Close())
	}
	fronts := []front{{listener: g.tls.on(limited(shedding(main, g.tls != nil, g.log), proxies, limits)), handler: proxies.Handler(guardHosts(main.Addr(), g.handler(), public))}}
	if g.options.metrics != "" {
		f, err := listenTelemetry(ctx, g.telemetry, g.options.metrics, g.log)
		if err != nil {
			return nil, errors.Join(err, closeAll(fronts))
		}
		fronts = append(fronts, f)
	}
	if g.options.grpc == "" {
		return fronts, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.options.grpc)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--grpc-listen: %w", err), closeAll(fronts))
	}
	if g.options.dev && !loopback(l.Addr()) {
		return nil, errors.Join(errors.New("--dev listens on loopback addresses only"), l.Close(), closeAll(fronts))
	}
	return append(fronts, front{listener: g.tls.on(limited(shedding(l, g.tls != nil, g.log), proxies, limits), "h2"), handler: proxies.Handler(guardHosts(l.Addr(), http.HandlerFunc(g.serveGRPC), g.options.address))}), nil
}

// serveGRPC serves under the configuration that is in force.
func (g *apartGateway) serveGRPC(w http.ResponseWriter, r *http.Request) {
	h, err := g.face.Load().gateway.GRPC(g.enrolled.Agent)
	if err != nil {
		http.Error(w, "there is no such agent", http.StatusNotFound)
		return
	}
	h.ServeHTTP(w, r)
}
