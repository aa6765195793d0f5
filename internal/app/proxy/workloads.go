package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// TrustDomains are the trust domains of a configuration, and what keeps their bundles.
type TrustDomains struct {
	Domains *spiffe.Domains // nil for none
	Sources []*serve.Source // their bundle files, which were read once
	wait    func()
	stop    context.CancelFunc
}

// Following is what trust domains need to be followed.
type Following struct {
	Read func(string) ([]byte, error) // of bundle files, once; an unusable file is a domain without a bundle
	Now  func() time.Time
	Log  *slog.Logger
}

// FollowDomains reads the bundle files of a configuration and follows its Workload APIs
// until Close.
func FollowDomains(c *config.Config, f Following) (*TrustDomains, error) {
	t := &TrustDomains{wait: func() {}, stop: func() {}}
	if len(c.Identity.TrustDomains) == 0 {
		return t, nil
	}
	var err error
	if t.Domains, err = spiffe.New(c.Identity.TrustDomains); err != nil {
		return nil, err
	}
	for _, file := range t.Domains.Files() {
		t.Sources = append(t.Sources, &serve.Source{
			Setting: "identity.trust_domains, " + file.Domain, Files: []config.Path{file.Path},
			Use: func(contents [][]byte) error { return file.Use(contents[0]) }, Drop: file.Drop,
		})
		contents, err := f.Read(string(file.Path))
		if err == nil {
			err = file.Use(contents)
		}
		if err != nil {
			f.Log.Error("a trust domain has no bundle; no SVID of it is believed", slog.String("trust_domain", file.Domain), slog.Any("error", err))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	if t.wait, err = t.Domains.Watch(ctx, spiffe.Watching{Now: f.Now, Log: f.Log}); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the following.
func (t *TrustDomains) Close() {
	t.stop()
	t.wait()
}

// Believed are the domains as an authenticator takes them.
func (t *TrustDomains) Believed() identity.Domains {
	if t.Domains == nil {
		return nil
	}
	return t.Domains
}

// KeySources are the key sets of providers that are on disk, read again when they change.
func KeySources(c *config.Config, a *identity.Authenticator) []*serve.Source {
	var sources []*serve.Source
	for _, p := range c.Identity.Providers {
		if p.JWKSFile == "" {
			continue
		}
		sources = append(sources, &serve.Source{
			Setting: "identity.providers, " + p.Issuer, Files: []config.Path{p.JWKSFile},
			Use: func(contents [][]byte) error { return a.Rekey(p.Issuer, contents[0]) }, Drop: func() { a.Unkey(p.Issuer) },
		})
	}
	return sources
}

// ownFetch fetches the keys of a provider with its own authorities and token, which are
// read again for every fetch: a service account token is replaced within the hour.
type ownFetch struct{ provider config.Provider }

// FetchWith returns the Fetcher of a provider with its own authorities or token.
func FetchWith(p config.Provider) identity.Fetcher { return ownFetch{p} }

// Get implements [identity.Fetcher].
func (o ownFetch) Get(ctx context.Context, address, accept string) ([]byte, http.Header, error) {
	policy := outbound.Configured()
	if o.provider.CA != "" {
		data, err := os.ReadFile(string(o.provider.CA))
		if err != nil {
			return nil, nil, err
		}
		pool, err := outbound.Authorities(data, string(o.provider.CA))
		if err != nil {
			return nil, nil, err
		}
		policy.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	if o.provider.TokenFile != "" && address == o.provider.JWKSURL {
		data, err := os.ReadFile(string(o.provider.TokenFile))
		if err != nil {
			return nil, nil, err
		}
		policy.Bearer = strings.TrimSpace(string(data))
	}
	return outbound.New(policy).Get(ctx, address, accept)
}
