package config

import (
	"slices"
	"time"
)

// Approvals is how people log in to the pages on which they answer.
type Approvals struct {
	Fresh   time.Duration `key:"fresh" default:"5m" doc:"How long after a login somebody can approve. Denying and revoking need no fresh one."`
	Session time.Duration `key:"session" default:"8h" doc:"How long a login lasts."`
	Login   Login         `key:"login" doc:"The OpenID provider that people log in at. Without one, and without serve --dev, the first start prints a URL at which an administrator registers a passkey."`
}

// Login is the client that the server is at an OpenID provider.
type Login struct {
	Issuer       string   `key:"issuer" format:"url" doc:"One of identity.providers, which says what its people are called."`
	ClientID     string   `key:"client_id" doc:"Name of this server there. Its redirect URI is issuer.url with /login/callback."`
	ClientSecret Secret   `key:"client_secret" doc:"Its secret, where it has one; PKCE is used in either case."`
	Scopes       []string `key:"scopes" doc:"Scopes to ask for besides openid."`
}

// checkApprovals wants times that are possible, and a provider that is believed.
func (k checker) checkApprovals() {
	a := k.Approvals
	if a.Fresh < time.Second {
		k.place("approvals.fresh", "%s is less than a second", a.Fresh)
	}
	if a.Session < a.Fresh {
		k.place("approvals.session", "%s is less than approvals.fresh, %s", a.Session, a.Fresh)
	}
	l := a.Login
	switch {
	case l.Issuer == "" && (l.ClientID != "" || l.ClientSecret.Reveal() != ""):
		k.place("approvals.login.issuer", "is missing; want one of identity.providers")
	case l.Issuer == "":
	case l.ClientID == "":
		k.place("approvals.login.client_id", "is missing; the provider gave this server one when it was registered")
	case !slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == l.Issuer }):
		k.place("approvals.login.issuer", "%q is none of identity.providers; put it there, which says what its people are called", l.Issuer)
	}
}
