package app

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/oauth"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/web/console"
	oauthweb "github.com/powerbox-project/powerbox/internal/web/oauth"
)

// tokenKey signs access tokens. In a ring of files it is derived from a secret that all
// nodes have and that no gateway has: a gateway must not be able to make a token.
func (i *Instance) tokenKey() (crypto.Signer, error) {
	own, err := i.Ring.Tokens()
	if own != nil || err != nil {
		return own, err
	}
	secret, err := i.Ring.Secret("pairwise")
	if err != nil {
		return nil, err
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "powerbox oauth access tokens", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// issuesTokens is this server as an issuer of access tokens, nil where it is none.
func (i *Instance) issuesTokens() (*identity.Provider, error) {
	if len(i.Config.OAuth.Agents) == 0 {
		return nil, nil //nolint:nilnil // none is no error
	}
	key, err := i.tokenKey()
	if err != nil {
		return nil, err
	}
	keys, err := oauth.KeySet(key)
	return &identity.Provider{Issuer: i.Config.Issuer.URL, JWKS: keys}, err
}

// oauth adds the authorization server, where any agent has OAuth clients.
func (i *Instance) oauth(a Assembly, pages *console.Console, mux *http.ServeMux) error {
	conf := i.Config.OAuth
	if len(conf.Agents) == 0 {
		return nil
	}
	c := oauth.Config{
		Issuing: i.Issuer, Desk: i.desk, URL: i.Config.Issuer.URL, Resources: i.oauthResources, Named: i.Force.Origin,
		Lifetimes: oauth.Lifetimes{Access: conf.AccessToken, Code: conf.Code}, Now: a.Now, Random: rand.Reader, Log: a.Log,
	}
	var err error
	if c.Clients, err = oauthClients(conf); err != nil {
		return err
	}
	c.Registering = conf.SelfRegistration
	if len(conf.ClientMetadataHosts) > 0 {
		strangers := outbound.New(proxy.Dialled(outbound.Strangers(), i.Config.Limits.DependencyTime))
		c.Documents = oauth.NewDocuments(conf.ClientMetadataHosts, func(ctx context.Context, address string) ([]byte, error) {
			body, _, err := strangers.Get(ctx, address, "application/json")
			if err != nil {
				a.Log.WarnContext(ctx, "the metadata document of an OAuth client cannot be fetched", slog.Any("error", err))
			}
			return body, err
		})
	}
	c.Asserting = i.asserting()
	secret, err := i.Ring.Secret("pairwise")
	if err != nil {
		return err
	}
	if c.Seal, err = proxy.SealerFor(secret, "powerbox oauth codes"); err != nil {
		return err
	}
	if c.Key, err = i.tokenKey(); err != nil {
		return err
	}
	server, err := oauth.New(c)
	if err != nil {
		return err
	}
	keys, err := oauth.KeySet(c.Key)
	if err != nil {
		return err
	}
	h, err := oauthweb.New(oauthweb.Config{
		Server: server, Person: pages.Person, Keys: keys, Now: a.Now, Log: a.Log,
		Limits: oauthweb.Limits{PerAddress: i.Config.Approvals.LoginsPerAddress, Total: i.Config.Approvals.Logins},
	})
	if err != nil {
		return err
	}
	for _, path := range oauthweb.Paths() {
		mux.Handle(path, i.inTime(h.Late, h))
	}
	return nil
}

// oauthClients are the clients of the configuration, whose redirect URIs are checked here, as
// are those of clients that register themselves.
func oauthClients(conf config.OAuth) (all []oauth.Client, err error) {
	for n, one := range conf.Clients {
		for _, uri := range one.RedirectURIs {
			if err := oauth.CheckRedirect(uri); err != nil {
				return nil, fmt.Errorf("oauth.clients[%d].redirect_uris: %w", n, err)
			}
		}
		all = append(all, oauth.Client{ID: one.ID, Name: one.Name, Redirects: one.RedirectURIs, Secret: one.Secret.Reveal(), Introspects: one.Introspects, Exchanges: one.Exchanges})
	}
	for n, uri := range conf.SelfRegistration {
		if err := oauth.CheckRedirect(uri); err != nil && uri != oauth.Loopback {
			return nil, fmt.Errorf("oauth.self_registration[%d]: %w; or write %s", n, err, oauth.Loopback)
		}
	}
	return all, nil
}

// asserting believes identity assertions, nil where no identity provider's are.
func (i *Instance) asserting() *oauth.Asserting {
	if len(i.Config.OAuth.IdentityAssertions) == 0 {
		return nil
	}
	trusted := map[string]identity.Trust{}
	for _, one := range i.Config.OAuth.IdentityAssertions {
		trusted[one.Issuer] = identity.Trust{Tenant: one.Tenant, Lifetime: one.MaximumLifetime}
	}
	return &oauth.Asserting{Read: i.sessions.Assertion, Trusted: trusted, Use: i.replays("identity assertion").Use, Since: i.began}
}

// oauthResources are the agents that OAuth clients reach, with what they offer now.
func (i *Instance) oauthResources() []oauth.Resource {
	var out []oauth.Resource
	now := i.current()
	for _, id := range i.Config.OAuth.Agents {
		if !slices.Contains(i.agentNames(), id) {
			continue
		}
		r := oauth.Resource{Agent: id, URL: i.AgentURL(id)}
		for _, o := range now.Offers[id] {
			r.Grants = append(r.Grants, oauth.Offer{ID: o.ID, Operations: now.OperationsOf(id, o)})
		}
		out = append(out, r)
	}
	return out
}

var _ oauth.Issuing = (*issuer.Issuer)(nil)
