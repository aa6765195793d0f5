package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"
)

// ready says why calls cannot be decided now, nil where they can.
func (g *apartGateway) ready() error {
	switch {
	case g.face.Load().gateway.Draining():
		return errors.New("the gateway is being stopped")
	case g.now().Before(g.started):
		return errors.New("proofs that were made before the start are not believed, nor those of its second")
	case g.follower.Stale(false) && g.follower.Older() != "":
		return errors.New(g.follower.Older())
	case g.follower.Stale(false):
		return errors.New("what was revoked is not known")
	}
	return nil
}

// restTime is how long a gateway that ends takes to send its last records.
const restTime = 5 * time.Second

// shipRest sends what was recorded at the end: whether there is a next start nobody knows.
func (g *apartGateway) shipRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTime)
	defer cancel()
	if err := g.spool.ShipRest(ctx, g.client.Send); err != nil {
		g.log.WarnContext(ctx, "records wait for the server, and for the next start", slog.Any("error", err))
	}
}

// tellStart says what serves where, and where its clients are led to.
func (g *apartGateway) tellStart(ctx context.Context, listening net.Addr) {
	public := g.face.Load().gateway.URL(g.enrolled.Agent)
	g.log.InfoContext(ctx, "gateway", slog.String("listen", listening.String()), slog.String("id", g.enrolled.Gateway), slog.String("agent", g.enrolled.Agent),
		slog.String("url", public))
	if strings.HasPrefix(public, g.enrolled.Server+"/") {
		g.log.WarnContext(ctx, "the agent's card leads clients to the server and not here: set agents.gateway_url in the server's configuration to where this gateway is reached",
			slog.String("url", public))
	}
}
