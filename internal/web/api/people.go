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
	state, ok := map[string]people.State{"freeze": people.Frozen, "thaw": people.Active, "remove": people.Removed}[r.PathValue("verb")]
	var body personChange
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if !ok || a.People == nil {
		return nil, status{http.StatusBadRequest, "want freeze, thaw or remove, on a server at which people log in"}
	}
	if by := callerOf(r); by.session && by.name == body.Principal {
		return nil, status{http.StatusBadRequest, "this is you; have another administrator do it"}
	}
	err := a.People.SetPerson(r.Context(), operator(r), body.Principal, state, body.Reason)
	var said *agentauth.Error
	if errors.As(err, &said) {
		return nil, status{http.StatusBadRequest, said.Message}
	}
	return map[string]string{"principal": body.Principal, "state": string(state)}, err
}
