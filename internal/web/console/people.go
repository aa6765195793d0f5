package console

import (
	"path"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

type peoplePage struct {
	People []provider.Known
	// Sessions says how many are open, by person.
	Sessions map[string]int
	Me       string
	Fresh    bool
	Signs    bool
}

// administering returns the visitor of a page that is for administrators alone.
func (k *Console) administering(v *visit) (provider.Person, error) {
	who, err := k.person(v)
	if err == nil && !k.config.People.Administrator(who) {
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "this page is for administrators")
	}
	return who, err
}

// people lists the people who can log in here.
func (k *Console) people(v *visit) error {
	who, err := k.administering(v)
	if err != nil {
		return err
	}
	all, err := k.config.People.People(v.r.Context())
	if err != nil {
		return err
	}
	open, err := k.Sessions(v.r.Context(), "")
	if err != nil {
		return err
	}
	page := peoplePage{People: all, Sessions: map[string]int{}, Me: who.Principal, Fresh: who.Fresh, Signs: k.passkeys != nil}
	for _, s := range open {
		page.Sessions[s.Principal]++
	}
	return k.show(v, "people", page)
}

// setPerson freezes, removes or lets back someone, as the path says.
func (k *Console) setPerson(v *visit) error {
	who, err := k.administering(v)
	if err != nil {
		return err
	}
	who.Fresh = true // a passkey signed the change, or the login is fresh
	state := map[string]people.State{"freeze": people.Frozen, "thaw": people.Active, "remove": people.Removed}[path.Base(v.r.URL.Path)]
	if err := k.config.People.SetPersonAs(v.r.Context(), who, v.r.PostFormValue("person"), state, v.r.PostFormValue("reason")); err != nil {
		return err
	}
	return v.see("/people")
}
