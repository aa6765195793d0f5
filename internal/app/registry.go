package app

import (
	"context"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/trust"
)

// lookAtCards is how often the cards of registered agents are asked for again.
const lookAtCards = 10 * time.Minute

// registry makes the registry: the agents that this server protects, and those that
// operators register. It keeps nothing itself.
func (i *Instance) registry(a Assembly) (*registry.Registry, error) {
	c := registry.Config{
		Store: i.Store, Cards: outbound.New(outbound.Configured()), Record: i.Issuer.ListingRecord, Level: i.scores.Level, Scores: i.scores.Update, Now: a.Now, Log: a.Log,
	}
	if !i.asksTrust() {
		c.Level = func(string) trust.Level { return "" } // the scores are not kept up to date
	}
	c.Asked = i.scores.Level
	c.Protected = func() (all []registry.Protected) {
		for _, id := range i.agentNames() {
			all = append(all, registry.Protected{ID: id, URL: i.AgentURL(id), Card: func(ctx context.Context) ([]byte, error) { return i.gateway.Card(ctx, id) }})
		}
		return all
	}
	return registry.New(c)
}

// searcher says who searches the registry by a session, and for which person. An agent
// that an operator has frozen is refused as its person would be.
func (i *Instance) searcher(r *http.Request, now time.Time) (identity.Caller, people.Person, error) {
	caller, _, err := i.sessions.Authenticate(r, i.Config.Issuer.URL, now)
	if err != nil || caller.Principal == "" {
		return caller, people.Person{}, err
	}
	if i.Issuer.FrozenAny([]string{issuer.AgentTarget(caller.Agent), caller.Holder.ID}) {
		return caller, people.Person{}, agentauth.Errorf(agentauth.CodeUnauthorized, "an operator stopped the calling agent; asking again does not help until an operator thaws it")
	}
	who, err := provider.Book(i.Store, i.Issuer).Recognize(r.Context(), people.Claim{
		Principal: caller.Principal, Groups: caller.Groups, Login: people.BySession, Began: caller.Authenticated,
	})
	return caller, who, err
}

// list serves the registry, and looks at the cards in it from time to time.
func (i *Instance) list(ctx context.Context, a Assembly) (http.Handler, error) {
	r, err := i.registry(a)
	if err != nil {
		return nil, err
	}
	go periodic.Later(ctx, lookAtCards, r.RefreshAll)
	front := &api.Registry{
		Registry: r, Agreed: i.agreed, Admin: i.Admin, Sees: i.Issuer.Sees, Drift: i.drifts, Log: a.Log,
		Caller: func(r *http.Request) (identity.Caller, people.Person, error) { return i.searcher(r, a.Now()) },
	}
	return front.Handler(), nil
}
