package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// watched compares the store with the log that the configured witnesses have cosigned,
// and makes the public part of the log.
func (i *Instance) watched(ctx context.Context, verifier string, unknown bool, log *slog.Logger) error {
	if len(i.Config.Evidence.Witnesses) == 0 || unknown {
		i.public = api.NewPublic(i.Store, nil, log)
		return nil
	}
	own, err := note.NewVerifier(verifier)
	if err != nil {
		return fmt.Errorf("evidence.origin: %w", err)
	}
	e := i.Config.Evidence
	c := witness.AskerConfig{
		Log: i.Store, Key: own, Call: outbound.New(outbound.Configured()), Quorum: e.Quorum, Period: e.WitnessPeriod,
		UnsafeStart: e.StartUnwitnessed == "unsafe", Slog: log,
	}
	for n, w := range e.Witnesses {
		key, err := evidence.ParseWitnessKey(w.Key)
		if err != nil {
			return fmt.Errorf("evidence.witnesses[%d].key: %w", n, err)
		}
		c.Witnesses = append(c.Witnesses, witness.Asked{URL: w.URL, Key: key})
	}
	if i.asker, err = witness.NewAsker(c); err != nil {
		return fmt.Errorf("evidence.witnesses: %w", err)
	}
	i.public = api.NewPublic(i.Store, i.asker.Cosign, log)
	err = i.explainStart(i.asker.Start(ctx))
	if errors.Is(err, witness.ErrUnwitnessed) {
		err = fmt.Errorf("%w\nIf a witness does not know the log yet, add the log's key there: %s", err, verifier)
	}
	return err
}

// explainStart says what to do about a store that is not served.
func (i *Instance) explainStart(err error) error {
	switch {
	case errors.Is(err, witness.ErrContradicted):
		return fmt.Errorf("the store in %s is not served: %w.\nStop whatever else uses its keys, and restore the newest copy of the directory. "+
			"If the missing part cannot be restored, begin a new log: another evidence.origin, which you add at the witnesses, and a directory of its own; "+
			"revocations since the copy are lost with the records. If the witness itself is wrong, take it out of evidence.witnesses", i.Config.Issuer.Directory, err)
	case errors.Is(err, witness.ErrUnwitnessed):
		return fmt.Errorf("the store in %s is not served: Powerbox cannot determine whether it is the latest: %w.\nBring the witnesses back, or set "+
			"evidence.start_unwitnessed: unsafe for as long as they are away", i.Config.Issuer.Directory, err)
	}
	return err
}

// witnesses are the witnesses of the log, none where none is configured.
func (i *Instance) witnesses() (out []api.WitnessStatus) {
	if i.asker == nil {
		return nil
	}
	for _, s := range i.asker.States() {
		one := api.WitnessStatus{Name: s.Name, URL: s.URL, Size: s.Size}
		if !s.At.IsZero() {
			one.At = &s.At
		}
		if s.Failure != nil {
			one.Why = s.Failure.Error()
		}
		out = append(out, one)
	}
	return out
}

// askOn asks the witnesses until ctx ends, and ends everything when they say that the
// log cannot be continued. The channel that it returns has one value.
func (i *Instance) askOn(ctx context.Context, stop context.CancelCauseFunc) <-chan error {
	ended := make(chan error, 1)
	if i.asker == nil {
		ended <- nil
		return ended
	}
	go func() {
		err := i.explainStart(i.asker.Run(ctx))
		if err != nil {
			stop(err)
		}
		ended <- err
	}()
	return ended
}
