package console

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// hostView is a host with its agents.
type hostView struct {
	Host     provider.Host
	Agents   []agentView
	Linkable bool                   // the visitor can link it to a user
	Withheld []*provider.Capability // defaults that its agents have to ask for
}

// agentView is one agent with its grants.
type agentView struct {
	provider.AgentState
	Ends    time.Time // for good
	Live    bool
	Over    bool // it has ended, and can be forgotten
	Grants  []grantView
	Offered []*provider.Capability // capabilities that could be added
}

type grantView struct {
	provider.Grant
	Says, Words string
	InForce     bool
	Risky       bool
}

func (k *Console) overview(v *visit) ([]hostView, error) {
	who, err := k.person(v)
	if err != nil {
		return nil, err
	}
	all, err := k.config.Agents.Overview(v.r.Context(), who)
	var out []hostView
	for _, o := range all {
		h := hostView{Host: o.Host, Withheld: k.config.Offers.Withheld(o.Host)}
		// Only administrators see a host without a user.
		h.Linkable = o.Host.User == "" && (o.Host.Status == agentauth.Active || o.Host.Status == agentauth.Pending)
		for _, s := range o.Agents {
			h.Agents = append(h.Agents, k.agentView(v.Language, s))
		}
		out = append(out, h)
	}
	return out, err
}

func (k *Console) agentView(l *lang.Language, s provider.AgentState) agentView {
	a := agentView{AgentState: s, Ends: s.Agent.Created.Add(s.Agent.Clocks.Absolute), Live: s.Status == agentauth.Active}
	a.Over = s.Status == agentauth.Revoked || s.Status == agentauth.Rejected || s.Status == agentauth.Claimed
	held := map[string]bool{}
	for _, g := range s.Grants {
		c := k.config.Offers.Capability(g.Capability)
		one := grantView{Grant: g, Says: g.Capability, Words: inWords(l, g, c), InForce: g.Effective(k.config.Now()) && a.Live}
		if c != nil {
			one.Says, one.Risky = c.Description, c.Sensitivity != provider.Read
		}
		held[g.Capability] = held[g.Capability] || one.InForce
		a.Grants = append(a.Grants, one)
	}
	if a.Live {
		a.Offered = slices.DeleteFunc(slices.Clone(k.config.Offers.Offered()), func(c *provider.Capability) bool { return c.Blocked || held[c.Name] })
	}
	return a
}

type hostsPage struct {
	Hosts           []hostView
	Held            []issuer.Capability // by callers over A2A and MCP
	Fresh, Passkeys bool
}

func (k *Console) hosts(v *visit) error {
	all, err := k.overview(v)
	if err != nil {
		return err
	}
	who, err := k.person(v)
	if err != nil {
		return err
	}
	held, err := k.config.Activity.Held(v.r.Context(), who)
	if err != nil {
		return err
	}
	return k.show(v, "hosts", hostsPage{Hosts: all, Held: held, Fresh: k.fresh(v), Passkeys: k.passkeys != nil})
}

// preview counts the agents and grants that end with a host or an agent.
type preview struct {
	Host             bool // it is a host, and no agent
	Name, ID, Action string
	Agents           []agentView
	Grants           int    // that are in force
	Unlink, User     string // where a host is unlinked from its user, "" where it has none
}

func (p *preview) add(a agentView) {
	if slices.Contains([]agentauth.Status{agentauth.Revoked, agentauth.Rejected, agentauth.Claimed}, a.Status) {
		return
	}
	p.Agents = append(p.Agents, a)
	for _, g := range a.Grants {
		if g.InForce {
			p.Grants++
		}
	}
}

func (k *Console) previewHost(v *visit) error {
	id := v.r.PathValue("host")
	all, err := k.overview(v)
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.Host.ID == id {
			p := preview{User: h.Host.User, Host: true, Name: h.Host.Name, ID: id, Action: "/hosts/" + url.PathEscape(id) + "/revoke"}
			if p.User != "" {
				p.Unlink = "/hosts/" + url.PathEscape(id) + "/unlink"
			}
			for _, a := range h.Agents {
				p.add(a)
			}
			return k.show(v, "revoke", p)
		}
	}
	return agentauth.Errorf(agentauth.CodeHostNotFound, "you have no such host")
}

func (k *Console) previewAgent(v *visit) error {
	id := v.r.PathValue("agent")
	all, err := k.overview(v)
	if err != nil {
		return err
	}
	for _, h := range all {
		for _, a := range h.Agents {
			if a.Agent.ID == id {
				p := preview{Name: a.Agent.Name, ID: id, Action: "/host-agents/" + url.PathEscape(id) + "/revoke"}
				p.add(a)
				return k.show(v, "revoke", p)
			}
		}
	}
	return agentauth.Errorf(agentauth.CodeAgentNotFound, "you have no such agent")
}

func (k *Console) revokeHost(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if _, err := k.config.Hosts.RevokeHostAs(v.r.Context(), who, v.r.PathValue("host")); err != nil {
		return err
	}
	return v.see("/hosts")
}

// unlinkHost takes the visitor from a host (AAP-K6).
func (k *Console) unlinkHost(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if _, err := k.config.Hosts.Unlink(v.r.Context(), who, v.r.PathValue("host")); err != nil {
		return err
	}
	return v.see("/hosts")
}

func (k *Console) revokeAgent(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if err := k.config.Agents.RevokeAgentAs(v.r.Context(), who, v.r.PathValue("agent")); err != nil {
		return err
	}
	return v.see("/hosts")
}

func (k *Console) revokeGrant(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if _, err := k.config.Agents.RevokeGrantAs(v.r.Context(), who, v.r.PathValue("agent"), v.r.PathValue("grant")); err != nil {
		return err
	}
	return v.see(backFrom(v.r.PostFormValue("back")))
}

// backPages are the pages from which one grant is revoked, and to which the browser returns.
var backPages = regexp.MustCompile(`^/approved$|^/approve/[A-Za-z0-9_-]+$`)

// backFrom is the page to which a form says that the browser returns, if it is one of ours.
func backFrom(back string) string {
	if backPages.MatchString(back) {
		return back
	}
	return "/hosts"
}

// granting reads the person, the agent and the grant of a request.
func (k *Console) granting(v *visit) (provider.Person, provider.Asked, error) {
	who, err := k.person(v)
	if err != nil {
		return who, provider.Asked{}, err
	}
	if err := v.r.ParseMultipartForm(formLimit); err != nil && v.r.PostForm == nil {
		return who, provider.Asked{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form cannot be read")
	}
	if !k.fresh(v) {
		return who, provider.Asked{}, agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("your login is older than %s; log in again, and then grant", lasting(v.Language, k.config.Fresh)))
	}
	asked := provider.Asked{Name: v.r.PostForm.Get("capability")}
	if asked.Name == "" {
		return who, asked, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing is chosen: choose what the agent may do")
	}
	lasts, ok := map[string]time.Duration{"": time.Hour, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}[v.r.PostForm.Get("lasts")]
	if !ok {
		return who, asked, agentauth.Errorf(agentauth.CodeInvalidRequest, "want an hour, a day or a week")
	}
	asked.Lasts = lasts
	if c := k.config.Offers.Capability(asked.Name); c != nil {
		asked.Constraints, err = narrower(fields(v.Language, byHand(c), c), v.r.PostForm)
	}
	return who, asked, err
}

// grantPage is one capability that a person gives an agent that did not ask for it.
type grantPage struct {
	Agent                provider.Agent
	Capability, Says     string
	Risky, High          bool
	MustLimit            bool
	Fields               []field
	Fresh                bool
	Passkeys, HasPasskey bool
	Page                 string // where it is, for after another login
	typed
}

// byHand is a capability as it can be given at most: with the server's own limits.
func byHand(c *provider.Capability) provider.Grant {
	g := provider.Grant{ID: "hand", Capability: c.Name}
	if v, ok := agentauth.Constraints(c.Constraints); ok && v.Kind() != powerbox.KindNull {
		g.Constraints = v.AppendJSON(nil)
	}
	return g
}

// toGrant shows the possible limits of a grant by hand. Nothing changes by looking.
func (k *Console) toGrant(v *visit) error {
	return k.showGrant(v, http.StatusOK, "")
}

// showGrant shows the form of a grant by hand, with the typed values after a refusal.
func (k *Console) showGrant(v *visit, status int, problem string) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	all, err := k.overview(v)
	if err != nil {
		return err
	}
	id, name := v.r.PathValue("agent"), v.r.FormValue("capability")
	keys, err := k.config.Passkeys.Passkeys(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	for _, h := range all {
		for _, a := range h.Agents {
			i := slices.IndexFunc(a.Offered, func(c *provider.Capability) bool { return c.Name == name })
			if a.Agent.ID != id || i < 0 {
				continue
			}
			c := a.Offered[i]
			page := grantPage{
				Page: "/host-agents/" + url.PathEscape(id) + "/grants?" + url.Values{"capability": {name}}.Encode(), Agent: a.Agent, Capability: c.Name, Says: c.Description, Risky: c.Sensitivity != provider.Read, High: c.Sensitivity == provider.High,
				MustLimit: c.MustLimit(), Fields: fields(v.Language, byHand(c), c), Fresh: k.fresh(v), Passkeys: k.passkeys != nil, HasPasskey: len(keys) > 0,
			}
			if problem != "" {
				page.again(problem, v.r.PostForm)
			}
			for n := range page.Fields {
				page.Fields[n].typed = page.form
			}
			return k.showStatus(v, status, "grant", page)
		}
	}
	return agentauth.Errorf(agentauth.CodeNotFound, "there is no such agent of yours, or it has that capability already")
}

func (k *Console) grantChallenge(v *visit) error {
	who, asked, err := k.granting(v)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "grant", k.config.Digests.GrantDigest(who, v.r.PathValue("agent"), asked))
}

func (k *Console) addGrant(v *visit) error {
	return k.inPlace(v, k.grantByHand(v), k.showGrant)
}

func (k *Console) grantByHand(v *visit) error {
	if v.r.PostFormValue("answer") == "no" {
		return v.see("/hosts")
	}
	who, asked, err := k.granting(v)
	if err != nil {
		return err
	}
	agent := v.r.PathValue("agent")
	if v.r.PostFormValue("assertion") != "" {
		if _, err := k.signed(v, who, "grant", k.config.Digests.GrantDigest(who, agent, asked)); err != nil {
			return err
		}
		who.Present = true
	}
	if _, err := k.config.Agents.GrantAs(v.r.Context(), who, agent, asked); err != nil {
		return err
	}
	return v.see("/hosts")
}

// forgetAgent erases the data of an agent that has ended (AAP-Z3).
func (k *Console) forgetAgent(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if err := k.config.Agents.ForgetAgentAs(v.r.Context(), who, v.r.PathValue("agent")); err != nil {
		return err
	}
	return v.see("/hosts")
}
