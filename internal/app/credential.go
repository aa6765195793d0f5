package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/web/console"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// credentialTime bounds one request to a token endpoint or to Vault.
const credentialTime = 10 * time.Second

// Clients of credentials follow no redirect, which would have a secret sent elsewhere.
func credentialClient() *http.Client {
	return &http.Client{
		Transport: outbound.New(outbound.Configured()).Transport(), Timeout: credentialTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// credential is the secret that is added to calls to an agent, nil for none.
func (i *Instance) credential(c config.Agent) (*credential.Placed, error) {
	own := c.Credential
	if own.IsZero() {
		return nil, nil //nolint:nilnil // none is no error
	}
	p := &credential.Placed{}
	p.Header, p.Scheme, p.Query = own.Place()
	if own.OAuth.TokenURL != "" && own.OAuth.Grant == "refresh_token" {
		users, err := i.users(c)
		if err != nil {
			return nil, err
		}
		p.Source = &credential.Kept{Get: users.Get, Now: i.now}
		return p, nil
	}
	var err error
	p.Source, err = SourceOf(own, i.now)
	if err != nil {
		return nil, fmt.Errorf("agents, %s, credential: %w", c.ID, err)
	}
	return p, nil
}

// SourceOf is the source of a secret that is not a person's.
func SourceOf(c config.AgentCredential, now func() time.Time) (credential.Source, error) {
	switch {
	case c.File != "":
		return credential.File(c.File), nil
	case c.Env != "":
		text := os.Getenv(c.Env)
		if text == "" {
			return nil, fmt.Errorf("env: the variable %s is empty or not set", c.Env)
		}
		return credential.Static{Text: config.NewSecret(text)}, nil
	case c.Vault.Address != "":
		v := c.Vault
		return &credential.Kept{Now: now, Get: credential.Vault{
			Address: v.Address, Mount: v.Mount, Path: v.Path, Field: v.Field, Namespace: v.Namespace, TokenFile: string(v.TokenFile), Client: credentialClient(),
		}.Get}, nil
	case c.OAuth.Grant == "refresh_token":
		return nil, errors.New("oauth.grant: refresh_token needs the store of a server")
	}
	return &credential.Kept{Now: now, Get: clientOf(c.OAuth).Get}, nil
}

func clientOf(o config.CredentialOAuth) credential.Client {
	c := credential.Client{ID: o.ClientID, TokenURL: o.TokenURL, AuthorizeURL: o.AuthorizationURL, Scopes: o.Scopes, Resource: o.Resource, HTTP: credentialClient()}
	if o.ClientSecretFile != "" {
		c.Secret = credential.File(o.ClientSecretFile)
	}
	return c
}

// users are the tokens of persons at an agent.
func (i *Instance) users(c config.Agent) (*credential.Users, error) {
	secret, err := i.Ring.Secret("credentials")
	if err != nil {
		return nil, err
	}
	seal, err := SealerFor(secret, "powerbox refresh tokens")
	if err != nil {
		return nil, err
	}
	page := i.Config.Issuer.URL + connectPath + c.ID
	client := clientOf(c.Credential.OAuth)
	client.RedirectURL = page + "/done"
	return &credential.Users{Client: client, Agent: c.ID, Consents: i.Store, Seal: seal, Page: page}, nil
}

// connectPath is where persons consent, below which agents are named.
const connectPath = "/connect/"

// connect adds the pages on which persons consent that an agent is called with their
// account elsewhere.
func (i *Instance) connect(log *slog.Logger, pages *console.Console, mux *http.ServeMux) {
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error) {
		mux.Handle(pattern, i.inTime(pages.Late, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := i.connecting(w, r, pages, do); err != nil {
				pages.Refuse(w, r, err)
			}
		})))
	}
	handle("GET "+connectPath+"{agent}", func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error {
		address, err := u.Begin(r.Context(), person, i.now())
		if err != nil {
			return noConsent(log, r, err)
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, address, http.StatusSeeOther)
		return nil
	})
	handle("GET "+connectPath+"{agent}/done", func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error {
		q := r.URL.Query()
		if q.Get("code") == "" {
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the OAuth server gave no code and says %.64q; begin again", q.Get("error"))
		}
		if err := u.Finish(r.Context(), person, q.Get("state"), q.Get("code"), i.now()); err != nil {
			return noConsent(log, r, err)
		}
		return pages.Connected(w, r, u.Agent)
	})
}

// noConsent is a consent that failed, as the page says it. What the OAuth server answered is
// for the log.
func noConsent(log *slog.Logger, r *http.Request, err error) error {
	if errors.Is(err, credential.ErrAttempt) {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", credential.ErrAttempt.Error())
	}
	log.WarnContext(r.Context(), "the consent of a person failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	return agentauth.Errorf(agentauth.CodeUnavailable, "the OAuth server cannot be used now; the server's log says why")
}

// connecting finds the agent and the person of a request to these pages.
func (i *Instance) connecting(w http.ResponseWriter, r *http.Request, pages *console.Console, do func(http.ResponseWriter, *http.Request, *credential.Users, string) error) error {
	who, known, err := pages.Person(r)
	if err != nil {
		return err
	}
	if !known {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return nil
	}
	for _, c := range i.current().Agents {
		if c.ID != r.PathValue("agent") || c.Credential.OAuth.Grant != "refresh_token" || c.Credential.OAuth.TokenURL == "" {
			continue
		}
		u, err := i.users(c)
		if err != nil {
			return err
		}
		return do(w, r, u, i.Issuer.Pseudonym(c.ID, who.Principal))
	}
	return agentauth.Errorf(agentauth.CodeNotFound, "no agent here asks for an account of yours")
}
