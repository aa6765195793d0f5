package operations

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// targets are the names of what can be revoked, as the interface has them, with what
// each ends.
var targets = []struct{ Name, Says string }{
	{"target", lang.Mark("The capability and everything that was narrowed from it end.")},
	{"holder", lang.Mark("Everything that this holder holds, and everything that came through it, ends.")},
	{"delegator", lang.Mark("Everything that this holder handed on to others ends. It keeps its own.")},
	{"issuer", lang.Mark("Everything that this agent has issued until now ends.")},
	{"principal", lang.Mark("Everything that was issued for this user until now ends.")},
}

// affected are the capabilities that a revocation would end.
type affected struct {
	Target string       `json:"target"`
	Dies   []api.Victim `json:"dies"`
	Count  int          `json:"count"`
	More   bool         `json:"more"` // there are more than the count: not all were looked at
}

func (a API) victims(ctx context.Context, of map[string]string) (affected, error) {
	body := map[string]any{"dry_run": true}
	for name, value := range of {
		body[name] = value
	}
	var out affected
	err := a.Do(ctx, http.MethodPost, "/v1/revocations", body, &out)
	return out, err
}

// tree has the victims under their parents.
func (d affected) tree() []*held {
	all := map[string]*held{}
	var roots []*held
	for _, c := range d.Dies {
		one := &held{Who: who(c.Requester, c.Holder), CapabilityStatus: api.CapabilityStatus{
			ID: c.ID, Agent: c.Agent, Grant: c.Grant, Principal: c.Principal, Holder: c.Holder, Requester: c.Requester, Purpose: c.Purpose, Task: c.Task, Expires: c.Expires,
		}}
		all[c.ID] = one
		if parent := all[c.Parent]; parent != nil {
			parent.Children = append(parent.Children, one)
		} else {
			roots = append(roots, one)
		}
	}
	return roots
}

// tasks are those that the victims are for.
func (d affected) tasks() []string {
	var out []string
	for _, c := range d.Dies {
		if c.Task != "" && !slices.Contains(out, c.Task) {
			out = append(out, c.Task)
		}
	}
	return out
}

// revokePage is the preview of a revocation.
type revokePage struct {
	Name, Value string // the target
	Says        string
	Tree        []*held
	Count       int
	More        int  // that are not shown
	AtLeast     bool // not all were counted
	Tasks       []string
	Agents      []string // at which capabilities end
	Others      []other  // wider things to revoke instead
	Signs       bool
	Fresh       bool
	Again       string
}

// other is another target.
type other struct{ Link, Text string }

// shownVictims is how many of the capabilities that would end are shown.
const shownVictims = 200

// target reads the target of a revocation.
func target(values url.Values) (name, value, says string, err error) {
	for _, t := range targets {
		if v := values.Get(t.Name); v != "" && value == "" {
			name, value, says = t.Name, v, t.Says
		} else if v != "" {
			return "", "", "", &Refused{http.StatusBadRequest, "more than one thing to revoke is named; want one"}
		}
	}
	if value == "" {
		return "", "", "", &Refused{http.StatusBadRequest, "nothing to revoke is named; open a capability or an agent, and revoke from there"}
	}
	return name, value, says, nil
}

func (p *Pages) previewRevoke(v *Visit) (Answer, error) {
	name, value, says, err := target(v.URL.Query())
	if err != nil {
		return Answer{}, err
	}
	dying, err := v.API.victims(v.Context(), map[string]string{name: value})
	if err != nil {
		return Answer{}, err
	}
	page := revokePage{
		Name: name, Value: value, Says: v.T(says), Count: dying.Count, Tasks: dying.tasks(), Signs: v.Signs, Fresh: v.Fresh, Again: "/login?next=" + url.QueryEscape(v.URL.RequestURI()),
	}
	for _, c := range dying.Dies {
		if !slices.Contains(page.Agents, c.Agent) {
			page.Agents = append(page.Agents, c.Agent)
		}
	}
	if name == "target" && len(dying.Dies) > 0 {
		page.Others = wider(v.Language, dying.Dies[0], v.Rights.May(people.Stop))
	}
	dying.Dies = dying.Dies[:min(len(dying.Dies), shownVictims)]
	page.AtLeast = dying.More
	page.More, page.Tree = dying.Count-len(dying.Dies), dying.tree()
	return Answer{Page: "revoke-preview", Title: v.T("Revoke"), Body: page}, nil
}

// wider are targets that end more than one capability with its descendants.
// Those of a holder and a person can be at every agent.
func wider(l *lang.Language, c api.Victim, everywhere bool) []other {
	link := func(name, value string) string { return "/admin/revoke?" + url.Values{name: {value}}.Encode() }
	holder := c.Holder
	if c.Requester != "" {
		holder = agentTarget(c.Requester)
	}
	ofAgent := other{link("issuer", c.Agent), l.T("everything that %s has issued", c.Agent)}
	if !everywhere {
		return []other{ofAgent}
	}
	return []other{
		{link("holder", holder), l.T("everything of %s", who(c.Requester, c.Holder))},
		{link("principal", c.Principal), l.T("everything for %s", c.Principal)},
		ofAgent,
	}
}

func (p *Pages) revoke(v *Visit) (Answer, error) {
	if err := v.ParseForm(); err != nil && v.PostForm == nil {
		return Answer{}, &Refused{http.StatusBadRequest, "the form cannot be read"}
	}
	name, value, _, err := target(v.PostForm)
	if err != nil {
		return Answer{}, err
	}
	var made struct {
		Sequence int64 `json:"sequence"`
	}
	if err := v.API.Do(v.Context(), http.MethodPost, "/v1/revocations", map[string]string{name: value}, &made); err != nil {
		return Answer{}, err
	}
	return Answer{Redirect: "/admin/revoke/" + strconv.FormatInt(made.Sequence, 10)}, nil
}

// revokedPage is a revocation that was made.
type revokedPage struct {
	api.Reached
	Have, All int
	Late      []lateGateway
}

// lateGateway is a gateway that does not have a revocation yet.
type lateGateway struct {
	api.GatewayReached
	Denies bool // its lease is over, so it denies
	Left   string
}

func (p *Pages) revoked(v *Visit) (Answer, error) {
	page := revokedPage{}
	if err := v.API.Get(v.Context(), "/v1/revocations/"+url.PathEscape(v.PathValue("sequence"))+"/gateways", &page.Reached); err != nil {
		return Answer{}, err
	}
	now := p.config.Now()
	for _, g := range page.Gateways {
		page.All++
		if g.Has {
			page.Have++
			continue
		}
		page.Late = append(page.Late, lateGateway{g, !now.Before(g.Over), max(0, g.Over.Sub(now)).Round(time.Second).String()})
	}
	return Answer{Page: "revoked", Title: v.T("Revoked"), Body: page}, nil
}
