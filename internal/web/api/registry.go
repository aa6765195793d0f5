package api

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/trust"
)

// PathRegistry is where agents are searched for.
const PathRegistry = "/v1/registry/agents"

// openAPI describes the interface of the registry.
//
//go:embed registry.json
var openAPI []byte

// Registry serves the registry over HTTP: to sessions the entries that they may see, to
// operators everything.
type Registry struct {
	Registry *registry.Registry
	// Agreed are the cards that were in view when protected agents issued.
	Agreed *registry.Agreed
	// Admin says who operates.
	Admin *Admin
	// Caller says by its session who makes a request, and for which person: one whose
	// login counts. A person who was frozen or removed is an error.
	Caller func(*http.Request) (identity.Caller, people.Person, error)
	// Sees reports whether a caller may be granted anything of a protected agent.
	Sees func(caller identity.Caller, agent string) bool
	// Drift is the recorded behaviour of a protected agent that its card does not declare.
	Drift func(ctx context.Context, agent string) ([]Drift, error)
	Log   *slog.Logger
}

// ofRegistry gives errors of the registry their status.
func ofRegistry(err error) error {
	var no registry.Refused
	switch {
	case errors.As(err, &no):
		return status{http.StatusBadRequest, no.Error()}
	case errors.Is(err, registry.ErrUnknown):
		return status{http.StatusNotFound, err.Error()}
	}
	return err
}

// Handler returns the interface.
func (g *Registry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/registry/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI) // a client that has gone needs no description
	})
	handle := func(pattern string, needs people.Permission, keeps scope, do func(*http.Request, registry.Viewer) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 2<<20)
			by, v, err := g.viewer(r)
			if err == nil && needs != people.LoggedIn {
				err = by.may(route{needs: needs, keeps: keeps}, r.PathValue("id"))
			}
			if err == nil {
				err = checkQuery(r, map[string][]parameter{searchPattern: searchParameters}[pattern])
			}
			r = called(r, by)
			var answer any
			if err == nil {
				answer, err = do(r, v)
			}
			reply(w, r, g.Log, answer, ofRegistry(err))
		})
	}
	handle(searchPattern, people.LoggedIn, own, g.search)
	handle("GET "+PathRegistry+"/{id}", people.LoggedIn, own, g.agent)
	handle("POST "+PathRegistry, people.Administer, whole, g.register)
	handle("POST "+PathRegistry+"/{id}/refresh", people.Steer, whole, func(r *http.Request, _ registry.Viewer) (any, error) {
		return g.Registry.Refresh(r.Context(), r.PathValue("id"))
	})
	handle("POST "+PathRegistry+"/{id}/accept", people.Steer, whole, func(r *http.Request, _ registry.Viewer) (any, error) {
		digest, err := digestIn(r)
		if err != nil {
			return nil, err
		}
		return g.Registry.Accept(r.Context(), operator(r), r.PathValue("id"), digest)
	})
	handle("GET "+PathRegistry+"/{id}/consent", people.See, ofAgent, func(r *http.Request, _ registry.Viewer) (any, error) {
		digest, stopped, err := g.Agreed.Waiting(r.Context(), r.PathValue("id"))
		if err == nil && digest == "" {
			err = registry.ErrUnknown
		}
		return Consent{r.PathValue("id"), digest, append([]registry.Stopped{}, stopped...)}, err
	})
	handle("POST "+PathRegistry+"/{id}/consent", people.Steer, ofAgent, func(r *http.Request, _ registry.Viewer) (any, error) {
		digest, err := digestIn(r)
		if err != nil {
			return nil, err
		}
		stopped, err := g.Agreed.Consent(r.Context(), r.PathValue("id"), digest, operator(r))
		return Consent{r.PathValue("id"), digest, stopped}, err
	})
	handle("DELETE "+PathRegistry+"/{id}", people.Administer, whole, func(r *http.Request, _ registry.Viewer) (any, error) {
		return map[string]string{"removed": r.PathValue("id")}, g.Registry.Forget(r.Context(), operator(r), r.PathValue("id"))
	})
	return mux
}

// listed is an agent with its recorded behaviour, which is for operators alone
// (CARD-12).
type listed struct {
	registry.Entry
	Drift []Drift `json:"drift,omitempty"`
}

func (g *Registry) agent(r *http.Request, v registry.Viewer) (any, error) {
	e, err := g.Registry.Agent(r.Context(), v, r.PathValue("id"))
	if err != nil || !e.Protected || !callerOf(r).rights.MayAt(people.See, e.ID) {
		return e, err
	}
	drift, err := g.Drift(r.Context(), e.ID)
	return listed{e, drift}, err
}

// digestIn is the digest of the card that an operator looked at.
func digestIn(r *http.Request) (string, error) {
	var body struct {
		Digest string `json:"card_digest"`
	}
	err := decode(r, &body)
	return body.Digest, err
}

// Consent has the capabilities that stopped at a protected agent since its card widened,
// and its present card (CARD-13).
type Consent struct {
	Agent   string             `json:"agent"`
	Digest  string             `json:"card_digest"`
	Stopped []registry.Stopped `json:"stopped"`
}

// viewer returns the caller. An unauthenticated caller is told nothing.
func (g *Registry) viewer(r *http.Request) (caller, registry.Viewer, error) {
	if by, err := g.Admin.caller(r); err == nil && (by.rights.May(people.See) || !by.session) {
		return by, registry.Viewer{Operator: true}, nil
	} else if err == nil {
		as := identity.Caller{Principal: by.name, Groups: by.groups}
		return by, registry.Viewer{Principal: by.name, Groups: by.groups, Sees: func(agent string) bool { return by.rights.MayAt(people.See, agent) || g.Sees(as, agent) }}, nil
	}
	as, who, err := g.Caller(r)
	var no *agentauth.Error
	if errors.As(err, &no) {
		return caller{}, registry.Viewer{}, status{no.Status(), no.Message}
	}
	if err != nil || who.Principal == "" {
		return caller{}, registry.Viewer{}, status{http.StatusUnauthorized, "the registry is for sessions and operators; send an access token for this server, or the operator's token"}
	}
	return caller{name: who.Principal}, registry.Viewer{Principal: who.Principal, Groups: who.Groups, Sees: func(agent string) bool { return g.Sees(as, agent) }}, nil
}

func (g *Registry) register(r *http.Request, _ registry.Viewer) (any, error) {
	var o registry.Offer
	if err := decode(r, &o); err != nil {
		return nil, err
	}
	return g.Registry.Register(r.Context(), operator(r), o)
}

const searchPattern = "GET " + PathRegistry

// searchParameters are those of a search of the registry.
var searchParameters = func() (all []parameter) {
	for _, name := range []string{"text", "skill", "operation", "version", "binding", "feature", "model", "scope", "evidence", "compliance"} {
		all = append(all, parameter{name: name, many: true})
	}
	return append(all, parameter{name: "depth"}, parameter{name: "trust"})
}()

// maxWanted bounds how much one search asks for.
const maxWanted = 64

func (g *Registry) search(r *http.Request, v registry.Viewer) (any, error) {
	q, err := queryOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	found, err := g.Registry.Search(r.Context(), v, q)
	return map[string]any{"agents": found}, err
}

// queryOf reads a search, which [checkQuery] admitted.
func queryOf(values url.Values) (registry.Query, error) {
	n := 0
	for _, list := range values {
		n += len(list)
	}
	if n > maxWanted {
		return registry.Query{}, status{http.StatusBadRequest, "a search has at most 64 parameters"}
	}
	q := registry.Query{
		Text: values["text"], Skills: values["skill"], Operations: values["operation"], Versions: values["version"], Bindings: values["binding"],
		Features: values["feature"], Models: values["model"], Scopes: values["scope"], Evidence: values["evidence"], Compliance: values["compliance"],
		Trust: trust.Level(values.Get("trust")),
	}
	if depth := values.Get("depth"); depth != "" {
		var err error
		if q.Depth, err = strconv.Atoi(depth); err != nil || q.Depth < 0 || q.Depth > 16 {
			return q, status{http.StatusBadRequest, "depth is no number from 0 to 16"}
		}
	}
	if q.Trust != "" && !slices.Contains([]trust.Level{trust.High, trust.Moderate, trust.Low}, q.Trust) {
		return q, status{http.StatusBadRequest, "trust is none of HIGH, MODERATE and LOW"}
	}
	return q, nil
}
