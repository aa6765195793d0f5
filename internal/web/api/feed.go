package api

import (
	"context"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
)

// Events are the issuer's revocations, freezes and thaws for the feed: users
// by their pseudonyms, without who did it and why.
type Events struct {
	Issuer *issuer.Issuer
	Store  issuer.Store
}

// Changed implements [feed.Source].
func (e Events) Changed() <-chan struct{} { return e.Issuer.Changed() }

// Events implements [feed.Source].
func (e Events) Events(ctx context.Context, after int64) ([]feed.Event, error) {
	var out []feed.Event
	err := e.Store.View(ctx, func(r issuer.Reader) error {
		all, err := r.Revocations(after)
		for _, one := range all {
			out = append(out, e.outside(one))
		}
		return err
	})
	return out, err
}

// outside is an event as it is told outside the server.
func (e Events) outside(r issuer.Revocation) feed.Event {
	out := feed.Event{Sequence: r.Sequence, Kind: feed.Kind(r.Kind), Name: r.Target}
	if !r.Until.IsZero() {
		out.Until = r.Until.Unix()
	}
	if r.Kind == issuer.KindEpoch {
		out.Of, out.Name, out.Targets = e.Issuer.OutsideBulk(r)
		out.Before = r.At.Unix()
	}
	if r.Kind == issuer.KindFreeze || r.Kind == issuer.KindThaw {
		out.Name, out.Targets = e.Issuer.Outside(r.Target)
	}
	return out
}

// Feed serves the feed to anyone who may follow it, for as long as the context that may
// returns. Its contents are signed, so any relay can pass them on. Who may have it from
// this server is a separate question.
func Feed(p *feed.Publisher, may func(*http.Request) (context.Context, bool)) http.Handler {
	handler := p.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, ok := may(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "the feed is for enrolled gateways and operators")
			return
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// extend answers an operator's extension of the lease.
func (a *Admin) extend(r *http.Request) (any, error) {
	var body extension
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	event, err := a.Issuer.Extend(r.Context(), operator(r), body.Until, body.Reason)
	return map[string]any{"until": event.Until, "by": event.By, "reason": event.Reason, "sequence": event.Sequence, "at": event.At}, err
}

// feedKey returns the key that followers of the feed pin.
func (a *Admin) feedKey(*http.Request) (any, error) {
	return map[string]any{"issuer": a.URL, "key": a.FeedKey, "sequence": a.Issuer.RevocationSequence()}, nil
}
