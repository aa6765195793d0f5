package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// Upstream is the way to one agent that has its own TLS settings. Renewed files
// make a new client; calls under way end on the one that they began on.
type Upstream struct {
	dial   time.Duration // in which a connection must be made
	Client atomic.Pointer[outbound.Client]
	public atomic.Pointer[outbound.Client] // to hosts that only the agent's card names
}

// GetChanged implements [gateway.Cards].
func (o *Upstream) GetChanged(ctx context.Context, address, accept, tag string) ([]byte, http.Header, bool, error) {
	return o.Client.Load().GetChanged(ctx, address, accept, tag)
}

// transport is a transport of whichever client is in use.
type transport func() http.RoundTripper

// RoundTrip implements [http.RoundTripper].
func (w transport) RoundTrip(r *http.Request) (*http.Response, error) { return w().RoundTrip(r) }

// Dialled bounds the time in which a connection to an agent is made.
func Dialled(p outbound.Policy, time time.Duration) outbound.Policy {
	p.Dial = time
	return p
}

// Source puts the files of an agent's TLS settings to use in its way.
func (o *Upstream) Source(agent config.Agent) *serve.Source {
	c := agent.TLS
	s := &serve.Source{Setting: serve.TLSOf(agent.ID)}
	if c.Certificate != "" {
		s.Files = append(s.Files, c.Certificate, c.Key)
	}
	if c.CA != "" {
		s.Files = append(s.Files, c.CA)
	}
	s.Use = func(contents [][]byte) error {
		settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
		if c.Certificate != "" {
			own, err := serve.KeyPair(contents)
			if err != nil {
				return err
			}
			settings.Certificates = []tls.Certificate{own}
		}
		if c.CA != "" {
			pool, err := outbound.Authorities(contents[len(contents)-1], string(c.CA))
			if err != nil {
				return fmt.Errorf("ca: %w", err)
			}
			settings.RootCAs = pool
		}
		named, public := Dialled(outbound.Configured(), o.dial), Dialled(outbound.Strangers(), o.dial)
		named.TLS, public.TLS = settings, settings
		for _, old := range []*outbound.Client{o.Client.Swap(outbound.New(named)), o.public.Swap(outbound.New(public))} {
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
func (p *Proxy) ownUpstream(agent config.Agent, out *gateway.Agent) error {
	fresh, dial := agent.Connections == "fresh", p.Config.Limits.DependencyTime
	if agent.TLS == (config.UpstreamTLS{}) {
		if fresh {
			named, public := outbound.New(Dialled(outbound.Configured(), dial)), outbound.New(Dialled(outbound.Strangers(), dial))
			out.Transport, out.HTTP2, out.Public, out.PublicHTTP2 = named.Fresh(), named.HTTP2(), public.Fresh(), public.HTTP2()
		}
		return nil
	}
	calls := (*outbound.Client).Transport
	if fresh {
		calls = (*outbound.Client).Fresh
	}
	own := &Upstream{dial: dial}
	s := own.Source(agent)
	if _, err := s.Read(true); err != nil {
		return err
	}
	if len(s.Files) > 0 {
		p.Rereads.Add(s)
	}
	out.Cards, out.Encrypted = own, true
	out.Transport = transport(func() http.RoundTripper { return calls(own.Client.Load()) })
	out.HTTP2 = transport(func() http.RoundTripper { return own.Client.Load().HTTP2() })
	out.Public = transport(func() http.RoundTripper { return calls(own.public.Load()) })
	out.PublicHTTP2 = transport(func() http.RoundTripper { return own.public.Load().HTTP2() })
	return nil
}
