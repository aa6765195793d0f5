package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/powerbox-project/powerbox/internal/telemetry"
)

// newTelemetry makes the meter that is asked for, nil for none.
func newTelemetry(ctx context.Context, listen string, traces bool) (*telemetry.Telemetry, error) {
	if listen == "" && !traces {
		return nil, nil
	}
	own := readBuild()
	b := telemetry.Build{Version: own.Version, Commit: own.Commit, Go: own.Go}
	t, err := telemetry.New(b)
	if err == nil && traces {
		err = t.Trace(ctx, b)
	}
	return t, err
}

// watch has the meter read the state of the server.
func (i *instance) watch(log *slog.Logger) error {
	return i.telemetry.Watch(telemetry.State{
		RevocationSequence: i.issuer.RevocationSequence, Shed: i.queue.Shed,
		Waiting: i.messages(false), Undelivered: i.messages(true),
		Unrecorded: func() int64 {
			total, _ := i.gate.Unrecorded()
			return total
		},
		Records: func() int64 {
			n, err := i.store.Records(context.Background())
			if err != nil {
				log.Error("the records could not be counted for the metrics", slog.Any("error", err))
			}
			return n
		},
	})
}

// committed returns what the store tells of its commits, nil for nobody.
func (i *instance) committed() func(changes int, took time.Duration) {
	if i.telemetry == nil {
		return nil
	}
	return i.telemetry.Committed
}

// listenTelemetry opens the address of the metrics. It has no TLS and asks for
// no token: what is told there names nobody.
func listenTelemetry(ctx context.Context, t *telemetry.Telemetry, address string, log *slog.Logger) (front, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return front{}, fmt.Errorf("telemetry: %w", err)
	}
	if !loopback(l.Addr()) {
		log.WarnContext(ctx, "the metrics can be read by whoever reaches their address; use a loopback address, or a network of your own",
			slog.String("listen", l.Addr().String()))
	}
	return front{listener: l, handler: guardHosts(l.Addr(), t.Handler()), plain: true}, nil
}

// spanTime bounds how long the last spans may take to be sent.
const spanTime = 5 * time.Second

// Close sends what telemetry still has, and ends the store.
func (i *instance) Close() error {
	i.unattend()
	ctx, cancel := context.WithTimeout(context.Background(), spanTime)
	defer cancel()
	err := i.telemetry.Close(ctx)
	if i.store != nil {
		err = errors.Join(err, i.store.Close())
	}
	return err
}
