package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/telemetry"
	"github.com/powerbox-project/powerbox/internal/version"
)

// NewTelemetry makes the meter that is asked for, nil for none.
func NewTelemetry(ctx context.Context, c config.Telemetry) (*telemetry.Telemetry, error) {
	if c == (config.Telemetry{}) {
		return nil, nil
	}
	own := version.Read()
	b := telemetry.Build{Version: own.Version, Commit: own.Commit, Go: own.Go}
	t, err := telemetry.New(b)
	if err == nil && c.Traces {
		err = t.Trace(ctx, b)
	}
	if err == nil && c.Logs {
		err = t.SendLog(ctx, b)
	}
	return t, err
}

// ListenTelemetry opens the address of the metrics. It has no TLS and asks for no token:
// the metrics name no caller.
func ListenTelemetry(ctx context.Context, t *telemetry.Telemetry, address string, log *slog.Logger) (Front, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return Front{}, fmt.Errorf("telemetry: %w", err)
	}
	if !Loopback(l.Addr()) {
		log.WarnContext(ctx, "every program that reaches their address can read the metrics; use a loopback address, or a network of your own",
			slog.String("listen", l.Addr().String()))
	}
	return Front{Listener: l, Handler: GuardHosts(l.Addr(), t.Handler()), Plain: true}, nil
}

// lastTime bounds how long the last spans and lines of the log may take to be sent.
const lastTime = 5 * time.Second

// CloseTelemetry sends the last spans and lines of the log.
func CloseTelemetry(t *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	return t.Close(ctx)
}
