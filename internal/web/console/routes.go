package console

import (
	"fmt"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/operations"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// route is a page of people, or one change on it.
type route struct {
	pattern string
	serve   func(*visit) error
	effect  operations.Effect
	// may returns the visitor of a change, and refuses others.
	may func(*visit) (provider.Person, error)
	// rule says what holds a post whose effect is [operations.Ruled].
	rule rule
}

// rule is why a post asks for neither the passkey nor the fresh login of a change.
type rule string

const (
	signsIn   rule = "it begins or ends a login"
	answers   rule = "the provider or the desk wants the passkey for an answer that gives, and any login for one that does not"
	endsOwn   rule = "it ends what is the visitor's own, for which any login is enough"
	signsKey  rule = "a passkey signs that another is added or removed"
	challenge rule = "it makes a text for the passkey, and changes nothing"
)

// peopleRoutes are the pages of people. A post without an effect is an error of [New].
func (k *Console) peopleRoutes() []route {
	gets := map[string]func(*visit) error{
		"/{$}": k.begin, "/approve": k.home, "/approve/events": k.events, "/approve/{id}": k.question, "/approved": k.approved,
		"/login": k.login, "/login/provider": k.limited(beginning, k.loginAtProvider), "/login/callback": k.limited(finishing, k.loginCallback),
		"/passkeys": k.ownPasskeys, "/sessions": k.signedIn, "/first": k.first, "/hosts": k.hosts, "/hosts/{host}/revoke": k.previewHost, "/hosts/{host}/link": k.toLink,
		"/host-agents/{agent}/revoke": k.previewAgent, "/host-agents/{agent}/grants": k.toGrant, "/activity": k.activity, "/people": k.people,
		"/registry": k.registry, "/registry/{id}": k.listing, "/map": k.delegations, "/console/{file}": k.asset, "/language": k.setLanguage,
	}
	var all []route
	for path, serve := range gets {
		all = append(all, route{pattern: "GET " + path, serve: serve})
	}
	ruled := func(pattern string, serve func(*visit) error, rule rule) {
		all = append(all, route{pattern: "POST " + pattern, serve: serve, effect: operations.Ruled, rule: rule})
	}
	ruled("/approve/{id}", k.answer, answers)
	ruled("/approve/{id}/challenge", k.answerChallenge, challenge)
	ruled("/approve/{id}/revoke", k.takeBack, endsOwn)
	ruled("/login", k.limited(finishing, k.loginByName), signsIn)
	ruled("/login/passkey/challenge", k.limited(beginning, k.loginChallenge), challenge)
	ruled("/login/passkey", k.limited(finishing, k.loginByPasskey), signsIn)
	ruled("/logout", k.logout, signsIn)
	ruled("/passkeys/challenge", k.newPasskeyChallenge, challenge)
	ruled("/passkeys", k.newPasskey, signsKey)
	ruled("/passkeys/confirm/challenge", k.confirmChallenge, challenge)
	ruled("/passkeys/remove", k.removePasskey, signsKey)
	ruled("/passkeys/remove/challenge", k.removeChallenge, challenge)
	ruled("/sessions/end", k.endSession, endsOwn)
	ruled("/sessions/end-all", k.logOutEverywhere, endsOwn)
	ruled("/first", k.limited(finishing, k.beFirst), signsIn)
	ruled("/hosts/{host}/revoke", k.revokeHost, endsOwn)
	ruled("/hosts/{host}/unlink", k.unlinkHost, endsOwn)
	ruled("/hosts/{host}/link", k.linkHost, answers)
	ruled("/hosts/{host}/link/challenge", k.linkChallenge, challenge)
	ruled("/host-agents/{agent}/revoke", k.revokeAgent, endsOwn)
	ruled("/host-agents/{agent}/forget", k.forgetAgent, endsOwn)
	ruled("/host-agents/{agent}/grants", k.addGrant, answers)
	ruled("/host-agents/{agent}/challenge", k.grantChallenge, challenge)
	ruled("/host-agents/{agent}/grants/{grant}", k.revokeGrant, endsOwn)
	return append(all,
		route{pattern: "POST /approve", serve: k.byCode, effect: operations.Asks},
		route{pattern: "POST /people/freeze", serve: k.setPerson, effect: operations.TakesAway, may: k.administering},
		route{pattern: "POST /people/remove", serve: k.setPerson, effect: operations.TakesAway, may: k.administering},
		route{pattern: "POST /people/logout", serve: k.logOutPerson, effect: operations.TakesAway, may: k.administering},
		route{pattern: "POST /people/thaw", serve: k.setPerson, effect: operations.Gives, may: k.administering},
		route{pattern: "POST /registry/{id}/accept", serve: k.acceptCard, effect: operations.Gives, may: k.accepting},
	)
}

// check refuses a route that escapes the rule for changes.
func (r route) check() error {
	if err := r.effect.Check(r.pattern); err != nil {
		return err
	}
	if r.effect.Changes() != (r.may != nil) || (r.effect == operations.Ruled) != (r.rule != "") {
		return fmt.Errorf("console: route %q: a change says who may make it, and a post of people which rule holds it", r.pattern)
	}
	return nil
}

// routes serves all pages. It is the one place that does.
func (k *Console) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	serve := func(pattern string, page func(*visit) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { k.serve(w, r, page) })
	}
	all := k.peopleRoutes()
	if k.config.Operations != nil {
		for _, of := range k.config.Operations.Routes() {
			one := route{pattern: of.Pattern, effect: of.Effect, serve: func(v *visit) error { return k.operate(v, of) }}
			if of.Effect.Changes() {
				one.may = func(v *visit) (provider.Person, error) { return k.operating(v, of) }
			}
			all = append(all, one)
		}
	}
	for _, one := range all {
		if err := one.check(); err != nil {
			return nil, err
		}
		if k.config.Directory == nil && isDirectory(one.pattern) {
			continue
		}
		if !one.effect.Changes() {
			serve(one.pattern, one.serve)
			continue
		}
		serve(one.pattern, func(v *visit) error { return k.change(v, one) })
		serve(one.pattern+"/challenge", func(v *visit) error { return k.changeChallenge(v, one) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		k.refuse(w, r, agentauth.Errorf(agentauth.CodeNotFound, "there is no such page"))
	})
	return mux, nil
}
