package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/doors"
)

// DoorFront is where another gateway asks for decisions.
type DoorFront struct {
	Name, Listen string
	Handler      http.Handler
	GRPC         func(admit http.Handler, within ...grpc.ServerOption) *grpc.Server // as in [serve.Front]
}

// openDoors makes the doors that are configured.
func (i *Instance) openDoors(log *slog.Logger) error {
	for n, c := range i.Config.Doors {
		at := fmt.Sprintf("doors[%d]", n)
		d := &doors.Door{Name: c.Name, PeerCertificates: c.PeerCertificates, Routes: doorRoutes(c.Routes), Gateway: i.gateway, BodyLimit: int(i.Config.Defaults.BodyLimit), BodyTime: i.Config.Limits.BodyTime, Log: log}
		if c.TokenFile != "" {
			token, err := i.ReadFile(string(c.TokenFile))
			if err != nil {
				return fmt.Errorf("%s.token_file: %w", at, err)
			}
			if d.Token = string(bytes.TrimSpace(token)); d.Token == "" {
				return fmt.Errorf("%s.token_file: %s is empty; want a token of at least 32 bytes", at, c.TokenFile)
			}
		}
		handler, err := d.Handler()
		if err != nil {
			return fmt.Errorf("%s.token_file: %w", at, err)
		}
		front := DoorFront{Name: c.Name, Listen: c.Listen, Handler: i.caughtUp(handler)}
		if c.GRPCOnly {
			if i.shared != nil {
				d.Current = func(ctx context.Context) error { return i.follower.Within(ctx) }
			}
			front.Handler, front.GRPC = d.Admit(), d.GRPC
		}
		i.Doors = append(i.Doors, front)
	}
	return nil
}

func doorRoutes(c []config.DoorRoute) []doors.Route {
	out := make([]doors.Route, len(c))
	for n, r := range c {
		out[n] = doors.Route(r)
	}
	return out
}

// Gateway is the gateway of the instance, which doors ask.
func (i *Instance) Gateway() *gateway.Gateway { return i.gateway }
