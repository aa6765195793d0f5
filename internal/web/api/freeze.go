package api

import (
	"context"
	"net/http"
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
func (a *Admin) freezes(*http.Request) (any, error) {
	out := []FreezeStatus{}
	for _, f := range a.Issuer.Freezes() {
		out = append(out, freezeStatus(f))
	}
	return out, nil
}

// stop answers a freeze or a thaw.
func (a *Admin) stop(do func(ctx context.Context, operator, target, reason string) (issuer.Revocation, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var body stopping
		if err := decode(r, &body); err != nil {
			return nil, err
		}
		event, err := do(r.Context(), operator(r), body.Target, body.Reason)
		return freezeStatus(event), err
	}
}
