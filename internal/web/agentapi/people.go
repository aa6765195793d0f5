package agentapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// People is the interface of those who answer: with their own sessions, and
// never with a token of a host or an agent.
//
//	GET  /v1/approvals               the requests that wait for the caller
//	GET  /v1/approvals/{code}        one request, by its user code or id
//	POST /v1/approvals/{code}        {"deny": true} or {"only": [...], "constraints": {...}, "reasons": {...}};
//	                                 for a request outside Agent Auth: {"deny": true} or {"operations": [...], "resources": [...], "until": ...}
//	POST /v1/approvals/{code}/revoke takes back an approval outside Agent Auth
//	GET  /v1/hosts                   hosts with their agents and grants
//	POST /v1/hosts                   {"name": ..., "public_key": ..., "user": ..., "defaults": [...]}; administrators.
//	                                 Without public_key the answer has a token by which a host brings its key, once
//	POST /v1/hosts/{host}/revoke
//	POST /v1/hosts/{host}/unlink
//	POST /v1/hosts/{host}/link       {"user": ...}; administrators
//	POST /v1/users/{user}/forget     ends all hosts of a user; administrators
//	GET  /v1/activity                the actions in the caller's name, over every protocol, and the caller's own
//	POST /v1/host-agents/{agent}/forget          erases the data of an agent that has ended
//	POST /v1/host-agents/{agent}/revoke
//	POST /v1/host-agents/{agent}/grants          {"capability": ..., "constraints": ...}
//	POST /v1/host-agents/{agent}/grants/revoke   {"capability": ...}
type People struct {
	Provider *provider.Provider
	Desk     *approval.Desk // questions of policy and configuration to people; nil without any
	// Groups are those of built-in users, by name; nil for none.
	Groups func(name string) []string
	// Who says who a person is by the session of a request.
	Who func(*http.Request) (people.Claim, error)
	// Dev reports whether there is a built-in user of a name; nil outside of
	// experiments. Anyone who is on this machine can be one, without a session.
	Dev       func(name string) bool
	BodyLimit int64
	Log       *slog.Logger
}

// PeoplePaths are the paths of the interface.
func PeoplePaths() []string {
	return []string{
		"GET /v1/approvals", "GET /v1/approvals/{code}", "POST /v1/approvals/{code}", "POST /v1/approvals/{code}/revoke", "GET /v1/activity", "GET /v1/hosts", "POST /v1/hosts",
		"POST /v1/hosts/{host}/{verb}", "POST /v1/users/{user}/forget", "POST /v1/host-agents/{agent}/{verb}", "POST /v1/host-agents/{agent}/grants/{verb}",
	}
}

// ServeHTTP implements [http.Handler].
func (p *People) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, p.BodyLimit)
	out, err := p.serve(r)
	asProgramsRead(w)
	var e *agentauth.Error
	switch {
	case err == nil:
		_ = json.NewEncoder(w).Encode(out) // the client has gone: there is no caller to tell
		return
	case errors.Is(err, identity.ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", "Bearer")
		e = agentauth.Errorf(agentauth.CodeUnauthenticated, "want the session of a person; powerbox login gets one%s", because(err))
	case errors.Is(err, identity.ErrUnavailable):
		e = agentauth.Errorf(agentauth.CodeUnavailable, "who calls cannot be told now; try again in a moment")
	case errors.As(err, &e):
	case errors.Is(err, evidence.ErrUnavailable):
		p.Log.ErrorContext(r.Context(), "the store did not answer", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = late(r)
	default:
		p.Log.ErrorContext(r.Context(), "a call failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = agentauth.Errorf(agentauth.CodeInternal, "the call failed; the server's log says why")
	}
	tell(w, e)
}

// Late answers a request that the store did not answer in time.
func (p *People) Late(w http.ResponseWriter, r *http.Request) {
	shed.LogLate(p.Log, r)
	asProgramsRead(w)
	tell(w, late(r))
}

func asProgramsRead(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func tell(w http.ResponseWriter, e *agentauth.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(e.JSON().AppendJSON(nil), '\n')) // the client has gone: there is no caller to tell
}

// because is why a session was refused, in words that repeat no part of it.
func because(err error) string {
	var e *identity.Error
	if !errors.As(err, &e) {
		return ""
	}
	return ": " + e.Message
}

// claim finds out who says to ask. A browser brings cookies and an Origin of its own:
// neither has a place here (ATK-47).
func (p *People) claim(r *http.Request) (people.Claim, error) {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return people.Claim{}, agentauth.Errorf(agentauth.CodeUnauthorized, "this is for programs; people use the page")
	}
	if name := r.Header.Get(operators.DevUserHeader); name != "" && p.Dev != nil {
		if !p.Dev(name) {
			return people.Claim{}, agentauth.Errorf(agentauth.CodeUnauthorized, "there is no built-in user %q", name)
		}
		who := people.Claim{Principal: "user:" + name, Login: people.ByName, Began: p.Provider.Now(), Fresh: true, Unsafe: true} // there is no login
		if p.Groups != nil {
			who.Groups = p.Groups(name)
		}
		return who, nil
	}
	who, err := p.Who(r)
	who.Unsafe = p.Dev != nil
	return who, err
}

func (p *People) serve(r *http.Request) (any, error) {
	c, err := p.claim(r)
	if err != nil {
		return nil, err
	}
	c.Address = peer.Of(r).Network()
	who, err := p.Provider.Recognize(r.Context(), c)
	if err != nil {
		return nil, err
	}
	v, err := body(r)
	if err != nil {
		return nil, err
	}
	switch r.Pattern {
	case "GET /v1/approvals":
		return p.open(r, who)
	case "GET /v1/approvals/{code}":
		if p.atDesk(r) {
			return p.deskQuestion(r, who)
		}
		q, err := p.find(r, who)
		return p.question(q), err
	case "POST /v1/approvals/{code}":
		if p.atDesk(r) {
			return p.deskAnswer(r, who, v)
		}
		return p.answer(r, who, v)
	case "POST /v1/approvals/{code}/revoke":
		return p.takeBack(r, who)
	case "GET /v1/activity":
		return p.activity(r, who)
	case "GET /v1/hosts":
		return p.hosts(r, who)
	case "POST /v1/hosts":
		return p.preRegister(r, who, v)
	case "POST /v1/hosts/{host}/{verb}":
		return p.host(r, who, v)
	case "POST /v1/users/{user}/forget":
		n, err := p.Provider.ForgetUser(r.Context(), who, r.PathValue("user"))
		return map[string]any{"user_id": r.PathValue("user"), "hosts_revoked": n}, err
	case "POST /v1/host-agents/{agent}/grants/{verb}":
		if r.PathValue("verb") != "revoke" {
			return nil, agentauth.Errorf(agentauth.CodeNotFound, "want .../grants/revoke")
		}
		name, err := text(v, "capability")
		if err != nil || name == "" {
			return nil, errors.Join(err, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability is missing"))
		}
		n, err := p.Provider.RevokeGrantAs(r.Context(), who, r.PathValue("agent"), name)
		return map[string]any{"agent_id": r.PathValue("agent"), "capability": name, "revoked": n}, err
	}
	return p.agent(r, who, v)
}

func (p *People) open(r *http.Request, who provider.Person) (any, error) {
	qs, err := p.Provider.Questions(r.Context(), who)
	out := make([]any, 0, len(qs))
	for _, q := range qs {
		out = append(out, p.question(q))
	}
	all := map[string]any{"approvals": out}
	if err == nil {
		err = p.onDesk(r, who, all)
	}
	return all, err
}

// find finds a request by its id or its user code.
func (p *People) find(r *http.Request, who provider.Person) (provider.Question, error) {
	name := r.PathValue("code")
	if strings.HasPrefix(name, "apr_") {
		return p.Provider.Question(r.Context(), who, name)
	}
	return p.Provider.ByCode(r.Context(), who, name)
}

// question is a request as a person sees it. The provider's words about the capabilities
// and the agent's words about itself stand in separate members.
func (p *People) question(q provider.Question) any {
	capabilities := make([]map[string]any, 0, len(q.Grants))
	for _, g := range q.Grants {
		one := map[string]any{"grant": g.ID, "capability": g.Capability, "status": g.Status}
		if c := p.Provider.Capability(g.Capability); c != nil {
			one["description"], one["sensitivity"] = c.Description, c.Sensitivity
		}
		if g.Constraints != nil {
			one["constraints"] = g.Constraints
		}
		if g.Status == agentauth.Pending && !p.Provider.Remains(g) {
			one["nothing_remains"] = true
		}
		capabilities = append(capabilities, one)
	}
	held := make([]string, 0, len(q.Held))
	for _, g := range q.Held {
		held = append(held, g.Capability)
	}
	slices.Sort(held)
	claims := make([]map[string]string, 0, len(q.Claimed))
	for _, a := range q.Claimed {
		claims = append(claims, map[string]string{"agent_id": a.ID, "name": a.Name})
	}
	out := map[string]any{
		"id": q.Approval.ID, "kind": q.Approval.Kind, "method": q.Approval.Method, "status": q.Approval.Status, "agent_id": q.Agent.ID, "host_id": q.Host.ID, "mode": q.Agent.Mode,
		"host_known": q.Host.Status == agentauth.Active, "expires_at": stamp(q.Approval.Expires), "capabilities": capabilities, "holds": slices.Compact(held), "claims": claims,
		"from": q.Approval.From, "host_from": q.Host.From,
		"in_its_own_words": map[string]string{"name": q.Agent.Name, "host_name": q.Host.Name, "reason": q.Approval.Reason, "message": q.Approval.Message},
	}
	if why := p.Provider.Over(q); why != "" {
		out["ended"] = why
	}
	return out
}

// answer reads a person's word: anything that is not named is denied, and with neither deny
// nor only everything is approved.
func (p *People) answer(r *http.Request, who provider.Person, v powerbox.Value) (any, error) {
	q, err := p.find(r, who)
	if err != nil {
		return nil, err
	}
	var answer provider.Answer
	if answer.Reason, err = text(v, "reason"); err != nil {
		return nil, err
	}
	deny, _ := v.Get("deny")
	answer.Deny, _ = deny.Truth()
	only, narrowed := v.Get("only")
	names, isList := only.Elements()
	if narrowed && !isList {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "only is JSON %s; want an array of capabilities", only.Kind())
	}
	chosen := map[string]bool{}
	for _, n := range names {
		name, _ := n.Text()
		chosen[name] = true
	}
	constraints, _ := v.Get("constraints")
	reasons, _ := v.Get("reasons")
	for _, g := range q.Grants {
		d := provider.Decision{Grant: g.ID, Approve: !answer.Deny && (!narrowed || chosen[g.Capability] || chosen[g.ID])}
		d.Constraints, _ = constraints.Get(g.Capability)
		if d.Reason, err = text(reasons, g.Capability); err != nil {
			return nil, err
		}
		answer.Decisions = append(answer.Decisions, d)
		delete(chosen, g.Capability)
		delete(chosen, g.ID)
	}
	for name := range chosen {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability %q is not asked for in this request", name)
	}
	s, err := p.Provider.Answer(r.Context(), who, q.Approval.ID, answer)
	if err != nil {
		return nil, err
	}
	return p.standing(s), nil
}

func (p *People) standing(s provider.AgentState) map[string]any {
	a := API{config: Config{Provider: p.Provider}}
	return a.detailed(s)
}

func (p *People) hosts(r *http.Request, who provider.Person) (any, error) {
	all, err := p.Provider.Overview(r.Context(), who)
	out := make([]any, 0, len(all))
	for _, o := range all {
		agents := make([]any, 0, len(o.Agents))
		for _, s := range o.Agents {
			agents = append(agents, p.standing(s))
		}
		asked := make([]string, 0)
		for _, c := range p.Provider.Withheld(o.Host) {
			asked = append(asked, c.Name)
		}
		out = append(out, map[string]any{
			"asked_for": asked,
			"host_id":   o.Host.ID, "name": o.Host.Name, "user_id": o.Host.User, "status": o.Host.Status, "created_at": stamp(o.Host.Created), "agents": agents,
		})
	}
	return map[string]any{"hosts": out}, err
}

// activity returns the actions of a person's agents, newest first (AAP-Z3).
func (p *People) activity(r *http.Request, who provider.Person) (any, error) {
	all, err := p.Provider.Activity(r.Context(), who)
	out := make([]any, 0, len(all))
	for _, a := range all {
		r := a.Record
		one := map[string]any{
			"record": r.ID, "at": stamp(r.Time), "by": a.By, "agent": r.AgentID, "what": cmp.Or(a.Executed, audit.WhatOf(r)), "executed": a.Executed != "",
			"allowed": r.Decision == evidence.Allow, "waits": audit.Waits(r.Decision, r.Details.Reasons),
		}
		for name, text := range map[string]string{"name": a.Name, "outcome": string(a.Outcome), "why": firstReason(r)} {
			if text != "" {
				one[name] = text
			}
		}
		out = append(out, one)
	}
	return map[string]any{"activity": out}, err
}

// firstReason is the message of the first reason of a decision.
func firstReason(r evidence.Record) string {
	for _, reason := range r.Details.Reasons {
		return reason.Message
	}
	return ""
}

// preRegister makes a host known before it has an agent (AAP-U6).
func (p *People) preRegister(r *http.Request, who provider.Person, v powerbox.Value) (any, error) {
	var name, user string
	if err := texts(v, map[string]*string{"name": &name, "user": &user}); err != nil {
		return nil, err
	}
	var defaults []string
	list, _ := v.Get("defaults")
	names, given := list.Elements()
	for _, n := range names {
		d, _ := n.Text()
		defaults = append(defaults, d)
	}
	if given && defaults == nil {
		defaults = []string{}
	}
	jwk, given := v.Get("public_key")
	if !given {
		return p.invited(r, who, name, user, defaults)
	}
	key, err := agentauth.ParseKey(jwk)
	if err != nil {
		return nil, err
	}
	h, err := p.Provider.PreRegister(r.Context(), who, name, user, key, defaults)
	return map[string]any{"host_id": h.ID, "user_id": h.User, "status": h.Status}, err
}

func (p *People) host(r *http.Request, who provider.Person, v powerbox.Value) (any, error) {
	id := r.PathValue("host")
	switch r.PathValue("verb") {
	case "revoke":
		n, err := p.Provider.RevokeHostAs(r.Context(), who, id)
		return map[string]any{"host_id": id, "status": agentauth.Revoked, "agents_revoked": n}, err
	case "unlink":
		n, err := p.Provider.Unlink(r.Context(), who, id)
		return map[string]any{"host_id": id, "agents_revoked": n}, err
	case "link":
		user, err := text(v, "user")
		if err != nil || user == "" {
			return nil, errors.Join(err, agentauth.Errorf(agentauth.CodeInvalidRequest, "user is missing"))
		}
		return p.link(r, who, id, user)
	}
	return nil, agentauth.Errorf(agentauth.CodeNotFound, "want .../revoke, .../unlink or .../link")
}

// link links a host and returns the capabilities that its agents have at once from then
// on. Agents ask for those that change something, since no person is present here,
// except in experiments (AAP-U4).
func (p *People) link(r *http.Request, who provider.Person, id, user string) (any, error) {
	l, err := p.Provider.LinkHost(r.Context(), who, provider.Link{Host: id, User: user, AtOnce: who.Unsafe})
	if err != nil {
		return nil, err
	}
	atOnce, asked := []string{}, []string{}
	for _, g := range l.Reads {
		atOnce = append(atOnce, g.Capability)
	}
	for _, g := range l.Changes {
		if who.Unsafe {
			atOnce = append(atOnce, g.Capability)
		} else {
			asked = append(asked, g.Capability)
		}
	}
	return map[string]any{"host_id": id, "user_id": user, "at_once": atOnce, "asked_for": asked, "agents_claimed": len(l.Claimed), "page": p.Provider.URL() + "/hosts/" + url.PathEscape(id) + "/link"}, nil
}

func (p *People) agent(r *http.Request, who provider.Person, v powerbox.Value) (any, error) {
	id := r.PathValue("agent")
	switch r.PathValue("verb") {
	case "forget":
		return map[string]any{"agent_id": id, "forgotten": true}, p.Provider.ForgetAgentAs(r.Context(), who, id)
	case "revoke":
		return map[string]any{"agent_id": id, "status": agentauth.Revoked}, p.Provider.RevokeAgentAs(r.Context(), who, id)
	case "grants":
		name, err := text(v, "capability")
		if err != nil {
			return nil, err
		}
		asked := provider.Asked{Name: name}
		asked.Constraints, _ = v.Get("constraints")
		g, err := p.Provider.GrantAs(r.Context(), who, id, asked)
		return map[string]any{"agent_id": id, "capability": name, "grant": g.ID}, err
	}
	return nil, agentauth.Errorf(agentauth.CodeNotFound, "want .../revoke or .../grants")
}
