package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// ownWay is the way to one agent that has TLS settings of its own. Renewed files
// make a new client; calls under way end on the one that they began on.
type ownWay struct {
	dial   time.Duration // in which a connection must be made
	client atomic.Pointer[outbound.Client]
	public atomic.Pointer[outbound.Client] // to hosts that only the agent's card names
}

// GetChanged implements [gateway.Cards].
func (o *ownWay) GetChanged(ctx context.Context, address, accept, tag string) ([]byte, http.Header, bool, error) {
	return o.client.Load().GetChanged(ctx, address, accept, tag)
}

// way is a transport of whichever client is in use.
type way func() http.RoundTripper

// RoundTrip implements [http.RoundTripper].
func (w way) RoundTrip(r *http.Request) (*http.Response, error) { return w().RoundTrip(r) }

// upstreamPolicy is for addresses that the operator names: of the agents behind, of
// the server, of witnesses.
func upstreamPolicy() outbound.Policy {
	return outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()}
}

// dialled bounds the time in which a connection to an agent is made.
func dialled(p outbound.Policy, time time.Duration) outbound.Policy {
	p.Dial = time
	return p
}

// strangersPolicy is for addresses that the card of an agent names and the operator
// does not (ATK-15).
func strangersPolicy() outbound.Policy { return outbound.Policy{} }

// tlsOf names the TLS settings of an agent.
func tlsOf(agent string) string { return fmt.Sprintf("agents, %s, tls", agent) }

// source puts the files of an agent's TLS settings to use in its way.
func (o *ownWay) source(agent config.Agent) *source {
	c := agent.TLS
	s := &source{setting: tlsOf(agent.ID)}
	if c.Certificate != "" {
		s.files = append(s.files, c.Certificate, c.Key)
	}
	if c.CA != "" {
		s.files = append(s.files, c.CA)
	}
	s.use = func(contents [][]byte) error {
		settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
		if c.Certificate != "" {
			own, err := keyPair(contents)
			if err != nil {
				return err
			}
			settings.Certificates = []tls.Certificate{own}
		}
		if c.CA != "" {
			pool, err := authorities(contents[len(contents)-1], string(c.CA))
			if err != nil {
				return fmt.Errorf("ca: %w", err)
			}
			settings.RootCAs = pool
		}
		named, public := dialled(upstreamPolicy(), o.dial), dialled(strangersPolicy(), o.dial)
		named.TLS, public.TLS = settings, settings
		for _, old := range []*outbound.Client{o.client.Swap(outbound.New(named)), o.public.Swap(outbound.New(public))} {
			if old != nil {
				old.Transport().CloseIdleConnections()
				old.HTTP2().CloseIdleConnections()
			}
		}
		return nil
	}
	return s
}

// ownUpstream gives an agent with TLS settings, or with a connection for every call, its
// own way.
func (i *instance) ownUpstream(agent config.Agent, out *gateway.Agent) error {
	fresh, dial := agent.Connections == "fresh", i.config.Limits.DependencyTime
	if agent.TLS == (config.UpstreamTLS{}) {
		if fresh {
			named, public := outbound.New(dialled(upstreamPolicy(), dial)), outbound.New(dialled(strangersPolicy(), dial))
			out.Transport, out.HTTP2, out.Public, out.PublicHTTP2 = named.Fresh(), named.HTTP2(), public.Fresh(), public.HTTP2()
		}
		return nil
	}
	calls := (*outbound.Client).Transport
	if fresh {
		calls = (*outbound.Client).Fresh
	}
	own := &ownWay{dial: dial}
	s := own.source(agent)
	if _, err := s.read(true); err != nil {
		return err
	}
	if len(s.files) > 0 {
		i.rereads.add(s)
	}
	out.Cards, out.Encrypted = own, true
	out.Transport = way(func() http.RoundTripper { return calls(own.client.Load()) })
	out.HTTP2 = way(func() http.RoundTripper { return own.client.Load().HTTP2() })
	out.Public = way(func() http.RoundTripper { return calls(own.public.Load()) })
	out.PublicHTTP2 = way(func() http.RoundTripper { return own.public.Load().HTTP2() })
	return nil
}
