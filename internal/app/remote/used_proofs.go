package remote

import (
	"log/slog"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// callers makes the authenticator of callers, with the proofs of before a restart.
func (g *remoteGateway) callers(f *revision) (*identity.Authenticator, error) {
	f.began = g.started
	switch {
	case g.face.Load() != nil:
		// The proofs of earlier sessions are forgotten with the old configuration.
		f.began = g.now().Truncate(time.Second).Add(time.Second)
	case g.before != nil:
		f.began = g.before.Sessions
	}
	var err error
	if f.workloads, err = proxy.FollowDomains(f.config, proxy.Following{Read: f.read, Now: g.now, Log: g.log}); err != nil {
		return nil, err
	}
	believed, err := identity.Configured(f.config, identity.Dependencies{
		Read: f.read, Fetch: g.upstream, FetchWith: proxy.FetchWith, Domains: f.workloads.Believed(), Dev: g.options.Dev, Started: f.began,
		Missing: func(issuer string, err error) {
			g.log.Error("a key set cannot be used; no token of its issuer is believed", slog.String("issuer", issuer), slog.Any("error", err))
		},
	})
	if err != nil {
		return nil, err
	}
	believed.Own = proxy.ServerTakes(f.setup.OwnTokens)
	if len(f.setup.OAuth.Keys) > 0 {
		believed.Issued = &identity.Provider{Issuer: f.config.Issuer.URL, JWKS: f.setup.OAuth.Keys}
	}
	if f.callers, err = identity.New(believed); err != nil {
		return nil, err
	}
	if g.face.Load() == nil && g.before != nil {
		err = f.callers.Restore(g.before.Callers, g.now())
	}
	return f.callers, err
}

// keepUsed keeps which proofs were used. Nothing is served any more.
func (g *remoteGateway) keepUsed() {
	f := g.face.Load()
	u := proxy.UsedProofs{
		Began: g.started, Sessions: f.began, Ended: g.now(), Proofs: map[string]map[string]time.Time{"proof": g.replay.Used()}, Callers: f.callers.Used(),
	}
	if err := u.Keep(g.options.State); err != nil {
		g.log.Warn("used proofs are not kept: proofs from before the next start will be refused", slog.Any("error", err))
	}
}
