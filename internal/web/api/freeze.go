package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
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

// mayFreeze refuses to freeze people for whom no one might be left to thaw: the caller, and
// administrators unless the caller is one. A freeze of a person ends their login, too, and
// administrators are who can take the role from a caller.
func (a *Admin) mayFreeze(r *http.Request, target string) error {
	by := callerOf(r)
	if a.Issuer.Means(target, by.name) {
		return status{http.StatusBadRequest, "this is you; have another operator do it"}
	}
	if by.rights.May(people.Administer) || a.Operators.Administrators == nil {
		return nil
	}
	for _, principal := range a.Operators.Administrators() {
		if a.Issuer.Means(target, principal) {
			return status{http.StatusForbidden, target + " administers this server, and a freeze ends their login. This needs the permission " + people.Administer.String() + ". You can freeze agents, and revoke what a person's agents have"}
		}
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
		if !thaws {
			if err := a.mayFreeze(r, body.Target); err != nil {
				return nil, err
			}
		}
		event, err := do(r.Context(), operator(r), body.Target, body.Reason)
		return freezeStatus(event), err
	}
}
