package api

import (
	"errors"
	"net/http"
	"time"
)

// gatewayToken makes a token that enrols a gateway.
func (a *Admin) gatewayToken(r *http.Request) (any, error) {
	var body gatewayTokenRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	text, expires, err := a.Issuer.GatewayToken(r.Context(), operator(r), body.Agent, time.Duration(body.TTL)*time.Second, a.FeedKey)
	return map[string]any{"token": text, "agent": body.Agent, "expires": expires}, err
}

// GatewayStatus is a gateway as operators see it.
type GatewayStatus struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Key      string     `json:"key"` // thumbprint
	Enrolled time.Time  `json:"enrolled"`
	Closed   *time.Time `json:"closed,omitempty"`
	// Heard is its last report; absent where it has made none for an hour, or since the
	// server started.
	Heard *GatewayHeard `json:"heard,omitempty"`
}

// GatewayHeard is the report that a gateway makes every few seconds.
type GatewayHeard struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"` // of its program
	Unsent  int64     `json:"unsent"`  // records that the server had not taken yet
	// Sequence is how far it enforced the feed of revocations, and Behind how many
	// events it is from the server's last.
	Sequence int64 `json:"sequence"`
	Behind   int64 `json:"behind"`
}

func (a *Admin) gateways(r *http.Request) (any, error) {
	if err := a.Gateways.gather(r.Context()); err != nil {
		return nil, err
	}
	out := []GatewayStatus{}
	last := a.Issuer.RevocationSequence()
	for _, g := range a.Gateways.Known() {
		if !at(r, g.Agent) {
			continue
		}
		s := GatewayStatus{ID: g.ID, Agent: g.Agent, Key: g.Key.ID(), Enrolled: g.Enrolled}
		if !g.Closed.IsZero() {
			s.Closed = &g.Closed
		} else if said, ok := a.Gateways.said(g.ID); ok {
			s.Heard = &GatewayHeard{said.at, said.version, said.unsent, said.sequence, max(0, last-said.sequence)}
		}
		out = append(out, s)
	}
	return out, nil
}

func (a *Admin) closeGateway(r *http.Request) (any, error) {
	g, err := a.Issuer.CloseGateway(r.Context(), operator(r), r.PathValue("id"))
	// Also where it was closed before: whether that was learnt here is not known.
	if err := errors.Join(err, a.Gateways.Load(r.Context())); err != nil {
		return nil, err
	}
	return GatewayStatus{ID: g.ID, Agent: g.Agent, Key: g.Key.ID(), Enrolled: g.Enrolled, Closed: &g.Closed}, nil
}
