package identity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// Dependencies are what a configuration needs to become one of an
// [Authenticator].
type Dependencies struct {
	Read    func(path string) ([]byte, error) // of key sets on disk; required
	Fetch   Fetcher                           // required when a provider has no key set on disk
	Dev     bool                              // serve --dev: believe the built-in users
	Started time.Time                         // required
	Domains Domains                           // nil without identity.trust_domains
	// Missing is told of a key set on disk that cannot be used. Its issuer is then believed
	// nothing. Optional: without it that is an error.
	Missing func(issuer string, err error)
	// FetchWith returns a Fetcher for a provider with its own authorities and token for its
	// key set. Required where there is one.
	FetchWith func(config.Provider) Fetcher
}

// Configured returns the Config that powerbox.yaml asks for. Built-in users
// without serve --dev are an error, not ignored: the file is not one for
// production.
func Configured(c *config.Config, s Dependencies) (Config, error) {
	if len(c.Identity.Dev) > 0 && !s.Dev {
		return Config{}, errors.New("identity.dev: there are built-in users, which anybody with the file can be; take them out, or use serve --dev on loopback")
	}
	out := Config{Fetch: s.Fetch, Callers: c.Identity.Callers, Domains: s.Domains, ProofWindow: c.Defaults.ProofWindow, Started: s.Started}
	for _, p := range c.Identity.Providers {
		provider, err := configuredProvider(p, s)
		if err != nil {
			return Config{}, err
		}
		out.Providers = append(out.Providers, provider)
	}
	out.People = people(c)
	for _, u := range c.Identity.Dev {
		out.Dev = append(out.Dev, DevUser{Name: u.Name, Token: u.Token.Reveal(), Groups: u.Groups, Roles: u.Roles, Attributes: u.Attributes})
	}
	return out, nil
}

// people says which sessions are those of people: for an audience below the server's
// URL, or by clients of people only.
func people(c *config.Config) People {
	at := strings.TrimRight(c.Issuer.URL, "/")
	out := People{Audience: cmp.Or(c.Approvals.Audience, at+"/approve"), Clients: slices.Clone(c.Approvals.Clients), Agents: at + "/agents/"}
	if l := c.Approvals.Login; l.ClientID != "" {
		out.Clients = append(out.Clients, l.ClientID, l.Issuer+"#"+l.ClientID)
	}
	if l := c.Operators.Login; l.ClientID != "" {
		out.Clients = append(out.Clients, l.ClientID, l.Issuer+"#"+l.ClientID)
		out.OperatorsIssuer, out.OperatorsClient = l.Issuer, l.ClientID
	}
	return out
}

func configuredProvider(p config.Provider, s Dependencies) (Provider, error) {
	out := Provider{
		Issuer: p.Issuer, Audiences: p.Audience, JWKSURL: p.JWKSURL, Principal: p.Principal,
		GroupsClaim: p.GroupsClaim, RolesClaim: p.RolesClaim, Attributes: p.Attributes,
		Programs: p.Subjects == "programs", MaximumLifetime: p.MaximumLifetime,
	}
	if p.CA != "" || p.TokenFile != "" {
		out.Fetch = s.FetchWith(p)
	}
	if p.JWKSFile == "" {
		return out, nil
	}
	keys, err := s.Read(string(p.JWKSFile))
	if err == nil && s.Missing != nil {
		_, err = parseKeys(keys)
	}
	if err != nil && s.Missing != nil {
		s.Missing(p.Issuer, err)
		out.Unkeyed = true
		return out, nil
	}
	if err != nil {
		return Provider{}, fmt.Errorf("identity.providers: jwks_file of %s: %w", p.Issuer, err)
	}
	out.JWKS = keys
	return out, nil
}
