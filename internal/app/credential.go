package app

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/web/console"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// consented is the source of the secrets that persons consented to at an agent.
func (i *Instance) consented(c config.Agent) (credential.Source, error) {
	users, err := i.users(c)
	if err != nil {
		return nil, err
	}
	return &credential.Kept{Get: users.Get, Now: i.Now}, nil
}

// users are the tokens of persons at an agent.
func (i *Instance) users(c config.Agent) (*credential.Users, error) {
	secret, err := i.Ring.Secret("credentials")
	if err != nil {
		return nil, err
	}
	seal, err := proxy.SealerFor(secret, "powerbox refresh tokens")
	if err != nil {
		return nil, err
	}
	page := i.Config.Issuer.URL + connectPath + c.ID
	client := proxy.ClientOf(c.Credential.OAuth)
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
		address, err := u.Begin(r.Context(), person, i.Now())
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
		if err := u.Finish(r.Context(), person, q.Get("state"), q.Get("code"), i.Now()); err != nil {
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
