package server

import (
	"errors"
	"net/http"
	"time"
)

// gatewayToken makes a token that enrols a gateway.
func (a *Admin) gatewayToken(r *http.Request) (any, error) {
	var body struct {
		Agent string `json:"agent"`
		TTL   int    `json:"ttl"` // seconds
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	text, expires, err := a.Issuer.GatewayToken(r.Context(), "operator", body.Agent, time.Duration(body.TTL)*time.Second, a.FeedKey)
	return map[string]any{"token": text, "agent": body.Agent, "expires": expires}, err
}

// GatewayStatus is a gateway as operators see it.
type GatewayStatus struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Key      string     `json:"key"` // thumbprint
	Enrolled time.Time  `json:"enrolled"`
	Closed   *time.Time `json:"closed,omitempty"`
}

func (a *Admin) gateways(*http.Request) (any, error) {
	out := []GatewayStatus{}
	for _, g := range a.Gateways.Known() {
		s := GatewayStatus{ID: g.ID, Agent: g.Agent, Key: g.Key.ID(), Enrolled: g.Enrolled}
		if !g.Closed.IsZero() {
			s.Closed = &g.Closed
		}
		out = append(out, s)
	}
	return out, nil
}

func (a *Admin) closeGateway(r *http.Request) (any, error) {
	g, err := a.Issuer.CloseGateway(r.Context(), "operator", r.PathValue("id"))
	// Also where it was closed before: whether that was learnt here is not known.
	if err := errors.Join(err, a.Gateways.Load(r.Context())); err != nil {
		return nil, err
	}
	return GatewayStatus{ID: g.ID, Agent: g.Agent, Key: g.Key.ID(), Enrolled: g.Enrolled, Closed: &g.Closed}, nil
}
