package console

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// OpenID is the way of people through an OpenID provider: authorization code with
// PKCE and nonce (OpenID Connect Core 3.1, RFC 7636).
type OpenID struct {
	Issuer       string
	ClientID     string
	ClientSecret string   // optional
	Scopes       []string // besides openid
	// Redirect is the console's own URL of the callback.
	Redirect string
	Client   *http.Client
	// Principal names who an ID token, which has been verified, is of. An agent's
	// is an error (ATK-47).
	Principal func(ctx context.Context, idToken string) (people.Claim, error)
	// MaxAge is how long ago the provider may have authenticated the person.
	MaxAge time.Duration

	mu       sync.Mutex
	provider *oidc.Provider // once it was discovered
}

func (o *OpenID) host() string {
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return o.Issuer
	}
	return u.Host
}

// discover reads the provider's document, until that succeeds.
func (o *OpenID) discover(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		// Its keys are fetched later, with the context of the discovery.
		p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.Client), o.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("console: OpenID provider: %w", err)
		}
		o.provider = p
	}
	return o.provider, &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: o.provider.Endpoint(), RedirectURL: o.Redirect, Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}, nil
}

func (k *Console) loginAtProvider(v *visit) error {
	if k.config.Login == nil {
		return agentauth.Errorf(agentauth.CodeNotFound, "no OpenID provider is configured; approvals.login names one")
	}
	_, client, err := k.config.Login.discover(v.r.Context())
	if err != nil {
		return err
	}
	a := &attempt{next: ours(v.r.URL.Query().Get("next")), verifier: oauth2.GenerateVerifier()}
	if a.state, err = secret(k.config.Random); err != nil {
		return err
	}
	if a.nonce, err = secret(k.config.Random); err != nil {
		return err
	}
	cookie, err := k.sessions.try(a)
	if err != nil {
		return err
	}
	k.setCookie(v.w, loginCookie, cookie, loginTime)
	address := client.AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier),
		oauth2.SetAuthURLParam("max_age", fmt.Sprint(int(k.config.Login.MaxAge/time.Second))))
	v.wrote = true
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
	return nil
}

// loginCallback is where the provider sends the browser back to.
func (k *Console) loginCallback(v *visit) error {
	a := k.sessions.tried(k.cookie(v.r, loginCookie))
	query := v.r.URL.Query()
	switch {
	case k.config.Login == nil || a == nil || a.state == "" || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.state)) != 1:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this login was not begun here, or took too long; log in again")
	case query.Get("error") != "":
		return agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("the login was refused by %s", k.config.Login.host()))
	}
	who, err := k.config.Login.finish(v.r.Context(), a, query.Get("code"), k.config.Now())
	if err != nil {
		k.config.Log.WarnContext(v.r.Context(), "a login failed", "error", err.Error())
		return agentauth.Errorf(agentauth.CodeUnauthorized, "the login does not hold; log in again")
	}
	if err := k.sessions.finish(v.r.Context(), a); err != nil {
		return err
	}
	who.Login = people.ByProvider
	if err := k.logIn(v, who); err != nil {
		return err
	}
	// The strict cookie goes along when this page sends the browser to the next one, and
	// not when another site has sent it there.
	return k.show(v, "onward", a.next)
}

// finish exchanges the code, and believes the ID token that comes for it.
func (o *OpenID) finish(ctx context.Context, a *attempt, code string, now time.Time) (people.Claim, error) {
	p, client, err := o.discover(ctx)
	if err != nil {
		return people.Claim{}, err
	}
	ctx = oidc.ClientContext(ctx, o.Client)
	tokens, err := client.Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		return people.Claim{}, err
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: o.ClientID, Now: func() time.Time { return now }}).Verify(ctx, raw)
	if err != nil {
		return people.Claim{}, err
	}
	var claims struct {
		Authenticated int64 `json:"auth_time"`
	}
	if err := id.Claims(&claims); err != nil {
		return people.Claim{}, err
	}
	at := time.Unix(claims.Authenticated, 0)
	switch {
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.nonce)) != 1:
		return people.Claim{}, fmt.Errorf("the ID token is of another login: its nonce differs")
	case now.Sub(at) > o.MaxAge+time.Minute:
		return people.Claim{}, fmt.Errorf("the provider authenticated the person at %s, which is too long ago, although max_age was asked for", at.UTC().Format(time.RFC3339))
	}
	return o.Principal(ctx, raw)
}
