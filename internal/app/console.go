package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/console"
	"github.com/powerbox-project/powerbox/internal/web/operations"
)

// firstAdministrator is the administrator where the configuration names none.
const firstAdministrator = "user:admin"

// loginByPasskey reports whether passkeys are the only way to log in.
func (i *Instance) loginByPasskey(dev bool) bool {
	return i.Config.Approvals.Login.Issuer == "" && (!dev || len(i.Config.Identity.Dev) == 0)
}

// console adds the pages on which people answer.
func (i *Instance) console(ctx context.Context, a Assembly, p *provider.Provider, agent config.Agent, mux *http.ServeMux) error {
	conf := i.Config.Approvals
	c := console.Config{
		Provider: console.Of(p), URL: p.URL(), Name: cmp.Or(agent.AgentAuth.ProviderName, agent.ID), Fresh: conf.Fresh, Session: conf.Session,
		Limits: console.Limits{PerAddress: conf.LoginsPerAddress, Total: conf.Logins},
		Rights: i.rights(a.Dev), Now: a.Now, Random: rand.Reader, Log: a.Log, Done: ctx.Done(),
	}
	if i.desk != nil {
		c.Desk, c.Approvals = i.desk, i.desk
	}
	handleKey, err := i.Ring.Secret("handles")
	if err != nil {
		return err
	}
	if c.Seal, err = proxy.SealerFor(handleKey, "powerbox logins that were begun"); err != nil {
		return err
	}
	if c.Directory, err = i.directory(a); err != nil {
		return err
	}
	if c.Operations, err = operations.New(operations.Config{V1: i.Admin.As, Now: a.Now}); err != nil {
		return err
	}
	if i.shared != nil {
		c.Keeper = i.shared
	}
	if a.Dev {
		c.Groups = i.devGroups()
		for _, u := range i.Config.Identity.Dev {
			c.Users = append(c.Users, u.Name)
		}
	}
	if l := conf.Login; l.Issuer != "" {
		c.Login = &console.OpenID{
			Issuer: l.Issuer, ClientID: l.ClientID, ClientSecret: l.ClientSecret.Reveal(), Scopes: l.Scopes, Redirect: p.URL() + "/login/callback",
			Client: &http.Client{Transport: outbound.New(outbound.Configured()).Transport(), Timeout: backendTime}, MaxAge: conf.Fresh, Principal: i.principal(l.ClientID, a),
		}
	}
	if i.loginByPasskey(a.Dev) && i.expectsPeople(agent, a.Dev) {
		if err := i.firstPasskey(ctx, p, a.Dev, &c); err != nil {
			return err
		}
	}
	k, err := console.New(c)
	if err != nil {
		return err
	}
	i.Admin.Sessions, i.pages = k, i.inTime(k.Late, k)
	for _, path := range console.Paths() {
		mux.Handle(path, i.pages)
	}
	i.connect(a.Log, k, mux)
	return i.oauth(a, k, mux)
}

// lost has the console answer a browser that opens a URL which nothing here has. Programs get the
// plain error.
func (i *Instance) lost(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			if _, pattern := mux.Handler(r); pattern == "" {
				i.pages.ServeHTTP(w, r)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// expectsPeople reports whether the configuration has anything for people to do. Otherwise
// no URL is printed by which a reader of the server's output would become one.
func (i *Instance) expectsPeople(agent config.Agent, dev bool) bool {
	return i.desk != nil || len(agent.AgentAuth.Capabilities) > 0 || len(i.Config.Approvals.Operators) > 0 || i.namesAdministrator(dev)
}

// firstPasskey makes the URL at which the first administrator registers a
// passkey, as long as there is none.
func (i *Instance) firstPasskey(ctx context.Context, p *provider.Provider, dev bool, c *console.Config) error {
	c.First = i.first(dev)
	keys, err := p.Passkeys(ctx, c.First)
	if err != nil {
		return fmt.Errorf("passkeys of %s: %w", c.First, err)
	}
	if len(keys) > 0 {
		c.First = ""
		return nil
	}
	c.FirstSecret = rand.Text()
	i.invitation = fmt.Sprintf("No person can log in to approve yet. The first person who opens this URL becomes %s; it holds until then, or until the server ends:\n  %s/first?secret=%s\n",
		c.First, p.URL(), url.QueryEscape(c.FirstSecret))
	return nil
}

// principal names the owner of an ID token, by the same rules as for every session. A
// token whose client is an agent has no owner (ATK-47).
func (i *Instance) principal(client string, a Assembly) func(context.Context, string) (people.Claim, error) {
	return func(ctx context.Context, idToken string) (people.Claim, error) {
		caller, err := i.sessions.IDToken(ctx, idToken, client, a.Now())
		if err != nil {
			return people.Claim{}, err
		}
		return people.Claim{Principal: caller.Principal, Groups: caller.Groups}, nil
	}
}
