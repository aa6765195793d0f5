package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OAuth makes the server an OAuth 2.1 authorization server for clients that know no other
// way to get a capability.
type OAuth struct {
	Agents              []string      `key:"agents" doc:"Agents that clients can reach by OAuth (docs/how-to/oauth.md). Empty: OAuth is off."`
	Clients             []OAuthClient `key:"clients" doc:"Clients that are known."`
	ClientMetadataHosts []string      `key:"client_metadata_hosts" doc:"Hosts whose clients are known by a metadata document, whose https URL is the client id. The server fetches it from public addresses only. * is every host. Empty: none."`
	SelfRegistration    []string      `key:"self_registration" doc:"Redirect URIs with which clients may register themselves (RFC 7591), compared byte for byte. loopback is http on the person's machine, with every port and path. Empty: clients cannot register themselves."`
	AccessToken         time.Duration `key:"access_token" default:"1h" doc:"Longest lifetime of an access token. It also ends with its capabilities, and a revocation ends it at once. Clients get a refresh token if they ask for the scope offline_access."`
	Code                time.Duration `key:"code" default:"1m" doc:"Lifetime of an authorization code; at most 10m."`
	IdentityAssertions  []Assertion   `key:"identity_assertions" doc:"Identity providers that let clients act for people without a page, by identity assertions (ID-JAG, which MCP calls enterprise-managed authorization). Policies still decide. Empty: none."`
}

// Assertion is one identity provider whose identity assertions are believed.
type Assertion struct {
	Issuer          string        `key:"issuer" required:"true" format:"url" doc:"Its issuer, one of identity.providers, which also says how its keys are found and which claim names the person."`
	Tenant          string        `key:"tenant" doc:"Tenant of the issuer whose people are meant: the claim tenant must be this text. Absent: an assertion with a tenant is refused."`
	MaximumLifetime time.Duration `key:"maximum_lifetime" default:"10m" doc:"An assertion that is valid for longer, from iat to exp, is refused; at most 1h."`
}

// OAuthClient is one client that is known.
type OAuthClient struct {
	ID           string   `key:"id" required:"true" doc:"Its client id."`
	Name         string   `key:"name" doc:"Its name, for the approval page. Default: its id."`
	RedirectURIs []string `key:"redirect_uris" doc:"URIs to which the browser may be sent back, compared byte for byte: https, http on loopback (with any port), or a private scheme with a dot."`
	Secret       Secret   `key:"secret" doc:"Its secret, at least 16 bytes. Absent: a public client, as on people's machines."`
	Introspects  bool     `key:"introspects" doc:"Whether it may introspect the tokens of other clients. It needs a secret."`
	Exchanges    bool     `key:"exchanges" doc:"Whether it may exchange access tokens of other clients for narrower ones of its own. It needs a secret, and the grant a maximum_depth."`
}

const (
	minimumSecret = 16
	maximumCode   = 10 * time.Minute
	// maximumAssertion bounds for how long the use of an assertion is remembered.
	maximumAssertion = time.Hour
)

// checkAssertions wants identity providers of people that are known, each once.
func (k checker) checkAssertions() {
	all := k.OAuth.IdentityAssertions
	k.unique("oauth.identity_assertions", "issuer", len(all), func(i int) string { return all[i].Issuer })
	for n, one := range all {
		at := fmt.Sprintf("oauth.identity_assertions[%d]", n)
		i := slices.IndexFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == one.Issuer })
		switch {
		case i < 0:
			k.place(at+".issuer", "%q is none of identity.providers; add it there", one.Issuer)
		case k.Identity.Providers[i].Subjects == "programs":
			k.place(at+".issuer", "%q has tokens of programs only (subjects: programs), and an assertion is about a person", one.Issuer)
		case one.MaximumLifetime < time.Second || one.MaximumLifetime > maximumAssertion:
			k.place(at+".maximum_lifetime", "is %s; want 1s to %s", one.MaximumLifetime, shortDuration(maximumAssertion))
		case len(k.OAuth.Agents) == 0:
			k.place(at, "stands without oauth.agents, so that there is nothing to get; name agents there")
		}
	}
}

// checkOAuth wants agents that there are, and clients that can be told apart. Whether a
// redirect URI is one the authorization server says, where it is used.
func (k checker) checkOAuth() {
	o := k.OAuth
	for n, id := range o.Agents {
		i := slices.IndexFunc(k.Agents, func(a Agent) bool { return a.ID == id })
		at := fmt.Sprintf("oauth.agents[%d]", n)
		switch {
		case i < 0:
			k.place(at, "there is no agent %q", id)
		case len(k.Offers[id]) == 0:
			k.place(at, "agent %q has no offers, so there is no scope to ask for; add some to offers", id)
		}
	}
	if o.AccessToken < time.Second || o.Code < time.Second || o.Code > maximumCode {
		k.place("oauth.access_token", "access_token is %s and code %s; want at least a second each, and code at most %s", o.AccessToken, o.Code, maximumCode)
	}
	k.checkAssertions()
	k.unique("oauth.clients", "id", len(o.Clients), func(i int) string { return o.Clients[i].ID })
	for n, c := range o.Clients {
		at := fmt.Sprintf("oauth.clients[%d]", n)
		secret := c.Secret.Reveal()
		switch {
		case secret != "" && len(secret) < minimumSecret:
			k.place(at+".secret", "has %d bytes; want at least %d", len(secret), minimumSecret)
		case secret == "" && (c.Introspects || c.Exchanges):
			k.place(at, "client %q has no secret, so anybody could be it; give it one", c.ID)
		}
		if strings.HasPrefix(c.ID, "https://") {
			k.place(at+".id", "%q is the URL of a metadata document; list its host in oauth.client_metadata_hosts", c.ID)
		}
	}
}
