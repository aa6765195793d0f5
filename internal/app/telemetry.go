package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/telemetry"
)

// watch has the meter read the state of the server.
func (i *Instance) watch(log *slog.Logger) error {
	return i.telemetry.Watch(telemetry.State{
		RevocationSequence: i.Issuer.RevocationSequence, Shed: i.queue.Shed,
		Waiting: i.messages(false), Undelivered: i.messages(true),
		Unrecorded: func() int64 {
			total, _ := i.gate.Unrecorded()
			return total
		},
		Records: func() int64 {
			n, err := i.Store.Records(context.Background())
			if err != nil {
				log.Error("the records could not be counted for the metrics", slog.Any("error", err))
			}
			return n
		},
	})
}

// committed returns the function to which the store reports its commits, nil without
// metrics.
func (i *Instance) committed() func(changes int, took time.Duration) {
	if i.telemetry == nil {
		return nil
	}
	return i.telemetry.Committed
}

// Close ends the store, and then sends the remaining telemetry, with the log lines of that end.
func (i *Instance) Close() (err error) {
	i.unattend()
	if i.workloads != nil {
		i.workloads.Close()
	}
	if i.gate != nil {
		i.gate.Behind.End()
	}
	i.keepLive(&config.Config{})
	if i.Store != nil {
		err = i.Store.Close()
	}
	err = errors.Join(err, i.Ring.Close()) // the store signs until it is closed
	return errors.Join(err, serve.CloseTelemetry(i.telemetry))
}
