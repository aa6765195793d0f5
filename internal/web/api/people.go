package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// People are those who log in to approve and administer.
type People interface {
	People(ctx context.Context) ([]provider.Known, error)
	SetPerson(ctx context.Context, by, principal string, state people.State, reason string) error
	LogOut(ctx context.Context, by, principal, reason string) error
}

// Sessions are the logins of people in browsers.
type Sessions interface {
	// Sessions returns those of a person, "" for those of all people, the newest first.
	Sessions(ctx context.Context, principal string) ([]people.Session, error)
}

// maxSessionsListed bounds one answer. The number of all is beside it.
const maxSessionsListed = 200

// OpenSessions are the logins of people in browsers that count now. The tokens that people
// use in a shell are not among them.
type OpenSessions struct {
	Count    int           `json:"count"`
	Sessions []OpenSession `json:"sessions"` // the newest 200
}

// OpenSession is one login in a browser. It has nothing that logs a reader in.
type OpenSession struct {
	Principal string    `json:"principal"`
	Login     string    `json:"login"` // provider, passkey, invite, built-in
	Began     time.Time `json:"began"`
	Ends      time.Time `json:"ends"`
}

func (a *Admin) openSessions(r *http.Request) (any, error) {
	out := OpenSessions{Sessions: []OpenSession{}}
	if a.Sessions == nil {
		return out, nil
	}
	all, err := a.Sessions.Sessions(r.Context(), r.URL.Query().Get("principal"))
	out.Count = len(all)
	for _, s := range all[:min(len(all), maxSessionsListed)] {
		out.Sessions = append(out.Sessions, OpenSession{s.Principal, string(s.Login), s.Began.UTC(), s.Ends.UTC()})
	}
	return out, err
}

// PersonStatus is a person as operators see one.
type PersonStatus struct {
	Principal     string     `json:"principal"`
	State         string     `json:"state"`
	Administrator bool       `json:"administrator"`
	Passkeys      int        `json:"passkeys"`
	Hosts         int        `json:"hosts"`
	LastUsed      *time.Time `json:"passkey_last_used,omitempty"`
	By            string     `json:"by,omitempty"`
	Reason        string     `json:"reason,omitempty"`
	Changed       *time.Time `json:"changed,omitempty"`
}

func set(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (a *Admin) people(r *http.Request) (any, error) {
	out := []PersonStatus{}
	if a.People == nil {
		return out, nil
	}
	all, err := a.People.People(r.Context())
	for _, k := range all {
		if one := r.URL.Query().Get("principal"); one == "" || one == k.Principal {
			out = append(out, PersonStatus{k.Principal, string(k.State), k.Administrator, k.Passkeys, k.Hosts, set(k.LastUsed), k.By, k.Reason, set(k.Changed)})
		}
	}
	return out, err
}

func (a *Admin) setPerson(r *http.Request) (any, error) {
	verb := r.PathValue("verb")
	state, ok := map[string]people.State{"freeze": people.Frozen, "thaw": people.Active, "remove": people.Removed, "logout": ""}[verb]
	var body personChange
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if !ok || a.People == nil {
		return nil, status{http.StatusBadRequest, "want freeze, thaw, remove or logout, on a server at which people log in"}
	}
	if by := callerOf(r); by.session && by.name == body.Principal {
		return nil, status{http.StatusBadRequest, "this is you; have another administrator do it"}
	}
	var err error
	if verb == "logout" {
		err = a.People.LogOut(r.Context(), operator(r), body.Principal, body.Reason)
	} else {
		err = a.People.SetPerson(r.Context(), operator(r), body.Principal, state, body.Reason)
	}
	var said *agentauth.Error
	if errors.As(err, &said) {
		return nil, status{http.StatusBadRequest, said.Message}
	}
	if verb == "logout" {
		return map[string]any{"principal": body.Principal, "logged_out": true}, err
	}
	return map[string]string{"principal": body.Principal, "state": string(state)}, err
}
