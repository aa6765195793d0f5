package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// ready says why calls cannot be decided now, nil where they can.
func (g *remoteGateway) ready(ctx context.Context) (answer serve.Readiness) {
	switch {
	case g.face.Load().gateway.Draining():
		answer.Unready("gateway", "it is being stopped")
	case g.now().Before(g.started):
		answer.Unready("proofs", "proofs that were made before the start are not believed, nor those of its second")
	case g.follower.Stale(false) && g.follower.Older() != "":
		answer.Unready("feed", g.follower.Older())
	case g.follower.Stale(false):
		answer.Unready("feed", "what was revoked is not known")
	default:
		answer.By(g.writes.Look(ctx))
	}
	return answer
}

// restTime is how long a gateway that ends takes to send its last records.
const restTime = 5 * time.Second

// shipRest sends the last records at the end, because there may never be a next start.
func (g *remoteGateway) shipRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTime)
	defer cancel()
	if err := g.spool.ShipRest(ctx, Sends(g.spool, g.client)); err != nil {
		g.log.WarnContext(ctx, "records wait for the server, and for the next start", slog.Any("error", err))
	}
}

// tellStart logs which address serves which agent, and where its clients are led to.
func (g *remoteGateway) tellStart(ctx context.Context, listening net.Addr) {
	public := g.face.Load().gateway.URL(g.enrolled.Agent)
	g.log.InfoContext(ctx, "gateway", slog.String("listen", listening.String()), slog.String("id", g.enrolled.Gateway), slog.String("agent", g.enrolled.Agent),
		slog.String("url", public))
	if strings.HasPrefix(public, g.enrolled.Server+"/") {
		g.log.WarnContext(ctx, "the agent's card leads clients to the server and not here: set agents.gateway_url in the server's configuration to where this gateway is reached",
			slog.String("url", public))
	}
}

// dev takes over the built-in users, where both sides say so.
func (f *revision) dev(admit bool) error {
	if admit == (len(f.setup.Dev) > 0) {
		for _, u := range f.setup.Dev {
			attributes, err := u.Attributes.Values()
			if err != nil {
				return fmt.Errorf("the server's setup: user %s: attributes: %w", u.Name, err)
			}
			f.config.Identity.Dev = append(f.config.Identity.Dev, config.DevUser{
				Name: u.Name, Token: config.NewSecret(u.Token), Groups: u.Groups, Roles: u.Roles, Attributes: attributes,
			})
		}
		return nil
	}
	if admit {
		return errors.New("--dev: the server does not run with --dev, or has no built-in users")
	}
	return nil // without --dev the gateway admits no built-in user
}

// Sends carries records of a spool to the server with their bodies.
func Sends(from *spool.Spool, client *link.Client) spool.Send {
	return func(ctx context.Context, records [][]byte) (next int64, err error) {
		bodies, n, err := from.Bodies(records)
		if err != nil {
			return 0, err
		}
		return client.Send(ctx, records[:n], bodies)
	}
}
