package operations

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// agentsPage is a page of the table of agents.
type agentsPage struct {
	Text   string // that is searched for
	Agents []*agentRow
	All    int    // without the search
	Next   string // the URL of the next page, "" after the last
	First  string // the URL of the first page, "" where this is it
}

// agentRow is an agent with its last hour.
type agentRow struct {
	api.AgentStatus
	api.AgentActivity
	Used  string // how long ago, "" for not in this hour
	Level string
	Kinds string
}

// kinds are the names of the kinds of agents.
var kinds = map[string]string{"a2a": "A2A", "mcp": "MCP", "agent_auth": "Agent Auth", "local": lang.Mark("in a program")}

func (p *Pages) agents(v *Visit) (Answer, error) {
	var activity api.ActivityReport
	if err := v.API.Get(v.Context(), "/v1/summary", &activity); err != nil {
		return Answer{}, err
	}
	page := agentsPage{Text: strings.TrimSpace(v.URL.Query().Get("text")), All: activity.Served.All}
	after := v.URL.Query().Get("after")
	if after != "" {
		page.First = page.from("")
	}
	return Answer{Page: "agents", Title: v.T("Agents"), Body: &page}, page.fill(p, v, after, activity.Agents)
}

// from is the URL of the page behind an agent.
func (page *agentsPage) from(after string) string {
	return Path + "/agents?" + url.Values{"text": {page.Text}, "after": {after}}.Encode()
}

// searchedAgents is how many agents a search reads at once.
const searchedAgents = 200

// fill fills the page with the agents behind one that match.
func (page *agentsPage) fill(p *Pages, v *Visit, after string, activity []api.AgentActivity) error {
	calls := map[string]api.AgentActivity{}
	for _, one := range activity {
		calls[one.Agent] = one
	}
	limit := pageRows
	if page.Text != "" {
		limit = searchedAgents
	}
	for {
		found, next, err := v.API.agents(v.Context(), url.Values{"after": {after}}, limit)
		if err != nil {
			return err
		}
		for i := range found {
			row := p.row(v.Language, &found[i], calls[found[i].ID])
			if !row.matches(v.Language, page.Text) {
				continue
			}
			if len(page.Agents) == pageRows {
				page.Next = page.from(page.Agents[pageRows-1].ID)
				return nil
			}
			page.Agents = append(page.Agents, row)
		}
		if after = next; after == "" {
			return nil
		}
		if page.Text == "" { // the page is full
			page.Next = page.from(after)
			return nil
		}
	}
}

// agents returns a page of the agents that a query selects, and behind which the next one begins.
func (a API) agents(ctx context.Context, query url.Values, limit int) ([]api.AgentStatus, string, error) {
	if query.Get("after") == "" {
		query.Del("after")
	}
	query.Set("limit", strconv.Itoa(limit))
	var found []api.AgentStatus
	header, err := a.call(ctx, http.MethodGet, "/v1/agents?"+query.Encode(), nil, &found)
	if err != nil {
		return nil, "", err
	}
	return found, header.Get(operators.NextHeader), nil
}

// someAgents are the names of the first agents, for a form that proposes them.
func (a API) someAgents(ctx context.Context) ([]string, error) {
	found, _, err := a.agents(ctx, url.Values{}, pageRows)
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = one.ID
	}
	return names, err
}

func (p *Pages) row(l *lang.Language, s *api.AgentStatus, calls api.AgentActivity) *agentRow {
	row := &agentRow{AgentStatus: *s, AgentActivity: calls, Kinds: l.T(kinds[s.Kind])}
	if !calls.Last.IsZero() {
		row.Used = ago(l, p.config.Now().Sub(calls.Last))
	}
	if s.Enforcement != nil {
		row.Level = s.Enforcement.Level
	}
	return row
}

// matches reports whether every word of a search is in the row.
func (r *agentRow) matches(l *lang.Language, text string) bool {
	has := []string{r.ID, r.Mode, r.Kinds, r.Level, r.Health.State}
	if r.Frozen {
		has = append(has, "frozen", l.T("frozen"))
	}
	if r.Health.State == "unreachable" {
		has = append(has, l.T("unreachable"))
	}
	all := strings.ToLower(strings.Join(append(has, r.Callers...), "\n"))
	for _, word := range strings.Fields(strings.ToLower(text)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// agentPage is one agent.
type agentPage struct {
	*agentRow
	Seen     []api.Drift
	Held     []*held // the capabilities that this agent issued, as trees
	More     bool    // there are more than are shown
	Denials  []denial
	Modes    []string
	FrozenBy *api.FreezeStatus

	MayStop, MaySteer bool // the visitor
}

// held is a capability with those that were narrowed from it.
type held struct {
	api.CapabilityStatus
	Who      string // the holder, by its name where it has one
	Orphan   bool   // its parent is not among the shown ones
	Children []*held
}

// denial is a denied call.
type denial struct {
	ID, Caller, Operation, Code, Message string
	At                                   time.Time
}

const (
	// treeLimit is how many capabilities a tree has, denialLimit how many denials are
	// listed.
	treeLimit   = 100
	denialLimit = 8
)

func (p *Pages) agent(v *Visit) (Answer, error) {
	ctx, id := v.Context(), v.PathValue("id")
	var detail api.AgentDetail
	if err := v.API.Get(ctx, "/v1/agents/"+url.PathEscape(id), &detail); err != nil {
		return Answer{}, err
	}
	var activity api.ActivityReport
	if err := v.API.Get(ctx, "/v1/summary", &activity); err != nil {
		return Answer{}, err
	}
	page := agentPage{Seen: detail.Drift, Modes: []string{"observe", "scoped", "prefer", "require"}, MayStop: v.Rights.MayAt(people.Stop, id), MaySteer: v.Rights.MayAt(people.Steer, id)}
	i := slices.IndexFunc(activity.Agents, func(a api.AgentActivity) bool { return a.Agent == id })
	if i >= 0 {
		page.agentRow = p.row(v.Language, &detail.AgentStatus, activity.Agents[i])
	} else {
		page.agentRow = p.row(v.Language, &detail.AgentStatus, api.AgentActivity{})
	}
	found, next, err := v.API.capabilities(ctx, url.Values{"agent": {id}}, treeLimit)
	if err != nil {
		return Answer{}, err
	}
	page.Held, page.More = trees(found), next != ""
	if page.Denials, err = v.denials(id); err != nil {
		return Answer{}, err
	}
	if page.FrozenBy, err = v.API.freeze(ctx, agentTarget(id)); err != nil {
		return Answer{}, err
	}
	return Answer{Page: "agent", Title: id, Body: page}, nil
}

// agentTarget names an agent in a freeze.
func agentTarget(id string) string { return "agent:" + id }

// trees puts every capability under the one that it was narrowed from.
func trees(found []api.CapabilityStatus) []*held {
	all := make(map[string]*held, len(found))
	for _, c := range found {
		all[c.ID] = &held{CapabilityStatus: c, Who: who(c.Requester, c.Holder)}
	}
	var roots []*held
	for _, c := range slices.Backward(found) { // a parent was issued before its children
		one := all[c.ID]
		if n := len(c.Ancestors); n > 0 {
			if parent := all[c.Ancestors[n-1]]; parent != nil {
				parent.Children = append(parent.Children, one)
				continue
			}
			one.Orphan = true
		}
		roots = append(roots, one)
	}
	return roots
}

// who names a holder: by the name that the configuration has for it, if there is one,
// and otherwise by the ends of its id.
func who(name, holder string) string {
	if name != "" {
		return name
	}
	const begin, end = 10, 4
	if len(holder) <= begin+end+1 {
		return holder
	}
	return holder[:begin] + "\u2026" + holder[len(holder)-end:]
}

// capabilities returns a page of capabilities in force, and what the next one begins before.
func (a API) capabilities(ctx context.Context, query url.Values, limit int) ([]api.CapabilityStatus, string, error) {
	query.Set("limit", strconv.Itoa(limit))
	var found []api.CapabilityStatus
	header, err := a.call(ctx, "GET", "/v1/capabilities?"+query.Encode(), nil, &found)
	if err != nil {
		return nil, "", err
	}
	return found, header.Get(operators.NextHeader), nil
}

// denials are the last denied calls at an agent.
func (v *Visit) denials(agent string) ([]denial, error) {
	records, _, err := v.API.Records(v.Context(), url.Values{"agent": {agent}, "decision": {string(evidence.Deny)}, "limit": {strconv.Itoa(denialLimit)}})
	out := make([]denial, 0, len(records))
	for _, s := range records {
		r := s.Record()
		d := denial{ID: r.ID, Caller: r.Details.Requester, Operation: audit.SubjectOf(r), At: r.Time}
		if len(r.Details.Reasons) > 0 {
			d.Code, d.Message = r.Details.Reasons[0].Code, v.Language.Said(r.Details.Reasons[0].Message)
		}
		out = append(out, d)
	}
	return out, err
}

// freeze is the freeze of a target that is in force, nil for none.
func (a API) freeze(ctx context.Context, target string) (*api.FreezeStatus, error) {
	var all []api.FreezeStatus
	err := a.Get(ctx, "/v1/freezes", &all)
	for i := range all {
		if all[i].Target == target {
			return &all[i], err
		}
	}
	return nil, err
}
