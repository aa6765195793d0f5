package api

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// tokenHolder is the operator on record for a call with the operator's token.
const tokenHolder = "operator"

// Operators says who calls, and what they may do.
type Operators struct {
	// Token is the shared token; at least 32 characters. "" accepts none.
	Token string
	// Person says by its session who makes a request; nil where no person can log in so.
	Person func(*http.Request) (people.Person, error)
	// Rights are what a person may do, by their roles.
	Rights func(people.Person) people.Rights
	// Login says how a person gets a session.
	Login operators.Login
	// Administrators are the people who administer the server, as far as it knows them; nil
	// for none.
	Administrators func() []string
}

// scope says how an operation keeps to the agents of its caller.
type scope int

const (
	_ scope = iota // missing
	// whole is about the server as a whole, or every agent.
	whole
	// ofAgent is about the agent in the path. Another one's is unknown.
	ofAgent
	// own is made from the caller's agents alone, by its handler.
	own
)

// says words where a permission must be held.
func (s scope) says() string {
	switch s {
	case whole:
		return ", at every agent"
	case ofAgent:
		return ", at the agent"
	case own:
	}
	return ""
}

// caller is who makes a call to one route.
type caller struct {
	name    string // on record
	rights  people.Rights
	groups  []string
	session bool // of a person in a shell, and not of the pages or the token
	fresh   bool // who has logged in just now
	needs   people.Permission
}

type callerKey struct{}

// As returns the interface for calls in this process that have been authenticated
// already, by the pages for operators. Everything that they change is on record under
// the person's name.
func (a *Admin) As(person string, rights people.Rights) http.Handler {
	routes := a.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if person == "" { // no person is not the holder of the token
			problem(w, http.StatusUnauthorized, "no person is named")
			return
		}
		routes.ServeHTTP(w, called(r, caller{name: person, rights: rights}))
	})
}

func called(r *http.Request, by caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, by))
}

// callerOf returns the caller; the zero one may do nothing.
func callerOf(r *http.Request) caller {
	by, _ := r.Context().Value(callerKey{}).(caller)
	return by
}

// operator names who makes a call, for the record.
func operator(r *http.Request) string { return callerOf(r).name }

// at reports whether the caller has what the route needs at an agent.
func at(r *http.Request, agent string) bool {
	by := callerOf(r)
	return by.rights.MayAt(by.needs, agent)
}

// agentsOf returns the agents at which the caller has what the route needs; all reports
// that it is all of them.
func agentsOf(r *http.Request) (agents []string, all bool) {
	by := callerOf(r)
	return by.rights.Agents(by.needs)
}

// everywhere reports whether the caller has what the route needs at every agent.
func everywhere(r *http.Request) bool {
	_, all := agentsOf(r)
	return all
}

// IsOperator reports whether a request has the operator's token.
func (a *Admin) IsOperator(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && len(a.Operators.Token) >= 32 && subtle.ConstantTimeCompare([]byte(given), []byte(a.Operators.Token)) == 1
}

// MayFollow reports whether a request comes with the token, or from a person who may see
// every agent: events of the feed are about all. The context that it returns ends when that
// is over.
func (a *Admin) MayFollow(r *http.Request) (context.Context, bool) {
	by, err := a.caller(r)
	if err != nil || !by.rights.May(people.See) {
		return nil, false
	}
	if !by.session {
		return r.Context(), true
	}
	r = called(r, by)
	ctx, end := context.WithCancel(r.Context())
	go func() {
		defer end()
		tick := time.NewTicker(liveBeat * liveEvery)
		defer tick.Stop()
		for a.still(r) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx, true
}

// still reports whether the caller of an answer that lasts is who they were, with the same
// rights: sessions end, people are frozen, and roles change. The pages ask for their own
// visitors.
func (a *Admin) still(r *http.Request) bool {
	by := callerOf(r)
	if !by.session {
		return true
	}
	now, err := a.caller(r)
	return err == nil && now.name == by.name && now.rights.Equal(by.rights)
}

// authenticated lets in callers with the operator's token or the session of a person.
func (a *Admin) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := a.caller(r)
		if err == nil {
			next.ServeHTTP(w, called(r, by))
			return
		}
		var s status
		if errors.As(err, &s) && s.code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		reply(w, r, a.Log, nil, err)
	})
}

// caller says who makes a request.
func (a *Admin) caller(r *http.Request) (caller, error) {
	if a.IsOperator(r) {
		return caller{name: tokenHolder, rights: people.AllRights()}, nil
	}
	o := a.Operators
	if o.Person == nil || r.Header.Get("Authorization") == "" {
		return caller{}, status{http.StatusUnauthorized, o.wanted()}
	}
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" { // a browser brings its own (ATK-47)
		return caller{}, status{http.StatusForbidden, "this is for programs; people use the pages"}
	}
	who, err := o.Person(r)
	var no *agentauth.Error
	var refused *identity.Error
	switch {
	case errors.As(err, &no):
		return caller{}, status{no.Status(), no.Message}
	case errors.As(err, &refused):
		return caller{}, status{http.StatusUnauthorized, o.wanted() + ". The given token is refused: " + refused.Message}
	case errors.Is(err, identity.ErrUnauthenticated):
		return caller{}, status{http.StatusUnauthorized, o.wanted()}
	case errors.Is(err, identity.ErrUnavailable):
		return caller{}, status{http.StatusServiceUnavailable, "who calls cannot be told now; try again in a moment"}
	case err != nil:
		return caller{}, err
	}
	return caller{name: who.Principal, groups: who.Groups, rights: o.Rights(who), session: true, fresh: who.Fresh}, nil
}

// wanted says what lets a caller in.
func (o Operators) wanted() string {
	session, shared := "the session of a person, which powerbox login gets", "the operator's token, which is in keys/operator.secret of the server's issuer.directory"
	switch {
	case o.Login.ClientID != "" && o.Token == "":
		return "send " + session + "; the shared operator token is switched off here"
	case o.Login.ClientID != "":
		return "send " + session + ", or " + shared
	case o.Token == "":
		return "operate on the pages: the shared operator token is switched off here, and operators.login has no client for powerbox login"
	}
	return "the operator's token is missing or wrong; it is in keys/operator.secret of the server's issuer.directory"
}

// guarded lets callers in who have what the route needs.
func (a *Admin) guarded(of route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := callerOf(r)
		by.needs = of.needs
		if err := by.may(of, r.PathValue("agent")); err != nil {
			reply(w, r, a.Log, nil, err)
			return
		}
		if err := checkQuery(r, of.query); err != nil {
			reply(w, r, a.Log, nil, err)
			return
		}
		of.serve(w, called(r, by))
	}
}

// may says why the caller may not use a route. Of an agent that the caller may not know,
// it says what it says of one that there is not.
func (c caller) may(of route, agent string) error {
	held := ""
	for _, role := range people.Roles() {
		if role.May.Any(of.needs) {
			held += ", " + role.Name
		}
	}
	held = strings.TrimPrefix(held, ", ")
	forbidden := func(where string) error {
		return status{http.StatusForbidden, fmt.Sprintf("this needs the permission %s%s, of the roles %s; %s has %s. An administrator gives roles in operators.roles", of.needs, where, held, c.name, c.roles())}
	}
	switch {
	case c.name != "" && of.needs == people.LoggedIn:
		return nil
	case of.keeps == ofAgent && c.rights.Somewhere(of.needs) && !c.rights.MayAt(everything, agent):
		return status{http.StatusNotFound, unknownAgent(agent)}
	case of.keeps == whole && c.rights.Somewhere(of.needs) && !c.rights.May(of.needs):
		return forbidden(" at every agent, and not at some,")
	case of.keeps == ofAgent && !c.rights.MayAt(of.needs, agent), !c.rights.Somewhere(of.needs):
		return forbidden("")
	case c.session && of.needs.NeedsFresh() && !c.fresh:
		return status{http.StatusForbidden, "this gives authority and takes a login of just now: run powerbox login again, and repeat it. If this is refused again, your identity provider does not tell when you logged in (auth_time); use the pages"}
	}
	return nil
}

// everything is what lets a caller know of an agent.
const everything = people.See | people.Evidence | people.Contents | people.Stop | people.Steer | people.Administer

func unknownAgent(agent string) string { return fmt.Sprintf("no agent %q is protected here", agent) }

// roles are the caller's, in words.
func (c caller) roles() string {
	if all := c.rights.Roles(); len(all) > 0 {
		return strings.Join(all, ", ")
	}
	return "no role"
}

// Check reports a route that does not say what it needs, or where.
func (a *Admin) Check() error { return complete(a.table()) }

func complete(table []route) error {
	for _, r := range table {
		names := strings.Contains(r.pattern, "{agent}")
		switch {
		case r.needs == 0:
			return fmt.Errorf("api: %s needs no permission", r.pattern)
		case r.keeps == 0 || names != (r.keeps == ofAgent):
			return fmt.Errorf("api: %s does not say how it keeps to the agents of its caller", r.pattern)
		}
	}
	return nil
}

// WhoAmI is the caller, as the server knows it.
type WhoAmI struct {
	Name        string     `json:"name"`  // as in records
	Roles       []string   `json:"roles"` // at all agents, or at some
	Permissions []string   `json:"permissions"`
	Agents      []AgentMay `json:"agents"` // where more is permitted than everywhere
	Fresh       bool       `json:"fresh"`  // logged in just now
}

// AgentMay is what the caller may do at one agent.
type AgentMay struct {
	Agent       string   `json:"agent"`
	Permissions []string `json:"permissions"`
}

func (a *Admin) whoAmI(r *http.Request) (any, error) {
	by := callerOf(r)
	out := WhoAmI{Name: by.name, Roles: append([]string{}, by.rights.Roles()...), Agents: []AgentMay{}, Fresh: by.fresh || !by.session}
	var here people.Permission
	for _, one := range people.Permissions() {
		agents, all := by.rights.Agents(one)
		if all {
			here |= one
		}
		for _, agent := range agents {
			n := slices.IndexFunc(out.Agents, func(m AgentMay) bool { return m.Agent == agent })
			if n < 0 {
				n = len(out.Agents)
				out.Agents = append(out.Agents, AgentMay{Agent: agent})
			}
			out.Agents[n].Permissions = append(out.Agents[n].Permissions, one.Names()...)
		}
	}
	out.Permissions = here.Names()
	return out, nil
}

// LoginInfo answers how people log in. It is public, as the provider's own documents are.
func (a *Admin) LoginInfo(w http.ResponseWriter, r *http.Request) {
	if a.Operators.Login.ClientID == "" {
		reply(w, r, a.Log, nil, status{http.StatusNotFound, "people cannot log in here from a shell; an administrator sets operators.login in the configuration"})
		return
	}
	reply(w, r, a.Log, a.Operators.Login, nil)
}

// ofOwn is a capability on record at an agent of the caller. Another one is unknown.
func (a *Admin) ofOwn(r *http.Request, id string) (issuer.Capability, error) {
	c, err := a.Issuer.Capability(r.Context(), id)
	if err == nil && !at(r, c.Agent) {
		return issuer.Capability{}, issuer.ErrNotFound
	}
	return c, err
}
