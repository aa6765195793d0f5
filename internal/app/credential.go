package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/web/console"
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
func (i *Instance) connect(pages *console.Console, mux *http.ServeMux) {
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error) {
		late := func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the server is busy", http.StatusServiceUnavailable)
		}
		mux.Handle(pattern, i.inTime(late, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			if err := i.connecting(w, r, pages, do); err != nil {
				status := http.StatusBadGateway
				if errors.Is(err, credential.ErrAttempt) {
					status = http.StatusBadRequest
				}
				http.Error(w, err.Error(), status)
			}
		})))
	}
	handle("GET "+connectPath+"{agent}", func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error {
		address, err := u.Begin(r.Context(), person, i.Now())
		if err != nil {
			return err
		}
		http.Redirect(w, r, address, http.StatusSeeOther)
		return nil
	})
	handle("GET "+connectPath+"{agent}/done", func(w http.ResponseWriter, r *http.Request, u *credential.Users, person string) error {
		q := r.URL.Query()
		if q.Get("code") == "" {
			return fmt.Errorf("%w. The OAuth server says %.64q", credential.ErrAttempt, q.Get("error"))
		}
		if err := u.Finish(r.Context(), person, q.Get("state"), q.Get("code"), i.Now()); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "Connected. Calls for you to %s now have your account. You can close this page.\n", u.Agent)
		return nil
	})
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
	http.NotFound(w, r)
	return nil
}
