package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// FreezeStatus is a freeze, or the thaw of one, as operators see it.
type FreezeStatus struct {
	Target   string    `json:"target"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
}

func freezeStatus(r issuer.Revocation) FreezeStatus {
	return FreezeStatus{Target: r.Target, By: r.By, Reason: r.Reason, Sequence: r.Sequence, At: r.At}
}

// freezes lists the frozen targets.
func (a *Admin) freezes(r *http.Request) (any, error) {
	out, all := []FreezeStatus{}, everywhere(r)
	for _, f := range a.Issuer.Freezes() {
		if !all {
			_, agent, err := a.Issuer.StoppedAt(r.Context(), f.Target)
			if err != nil && !errors.Is(err, issuer.ErrNotFound) {
				return nil, err
			}
			if err != nil || !at(r, agent) {
				continue
			}
		}
		out = append(out, freezeStatus(f))
	}
	return out, nil
}

// mayStop refuses a target that is not at an agent of the caller, as it refuses one that
// there is not. The lists in the errors of the issuer are not for such a caller.
func (a *Admin) mayStop(r *http.Request, thaws bool, target string) error {
	if everywhere(r) {
		return nil
	}
	stored, agent, err := a.Issuer.StoppedAt(r.Context(), target)
	switch {
	case err != nil && !errors.Is(err, issuer.ErrNotFound):
		return err
	case err != nil || !at(r, agent):
		return status{http.StatusNotFound, "there is no such agent or capability of yours; a person or a holder is for operators of every agent"}
	case thaws && !a.Issuer.Frozen(stored):
		return status{http.StatusBadRequest, strconv.Quote(target) + " is not frozen"}
	}
	return nil
}

// stop answers a freeze or a thaw.
func (a *Admin) stop(thaws bool, do func(ctx context.Context, operator, target, reason string) (issuer.Revocation, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var body stopping
		if err := decode(r, &body); err != nil {
			return nil, err
		}
		if err := a.mayStop(r, thaws, body.Target); err != nil {
			return nil, err
		}
		if !thaws && operator(r) == body.Target { // no operator might be left to thaw
			return nil, status{http.StatusBadRequest, "this is you; have another operator do it"}
		}
		event, err := do(r.Context(), operator(r), body.Target, body.Reason)
		return freezeStatus(event), err
	}
}
