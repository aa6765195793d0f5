package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// AgentStatus is an agent as operators see it.
type AgentStatus struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Upstream string `json:"upstream"`
	Mode     string `json:"mode"` // as configured; the one in force may have been set since
	Frozen   bool   `json:"frozen,omitempty"`
	// Canary is the share of callers in percent that the configured mode holds for, Rules
	// are the modes of some callers and grants; an operator's setting overrides them.
	Canary int        `json:"canary"`
	Rules  []ModeRule `json:"rules,omitempty"`
	Set    bool       `json:"set,omitempty"` // whether an operator set the mode
	// Degraded names the calls that continue while records cannot be written, "" for none.
	// Unrecorded is how many did of which the evidence does not tell yet.
	Degraded   string `json:"degraded,omitempty"`
	Unrecorded int64  `json:"unrecorded,omitempty"`
	// Kind is a2a, mcp, agent_auth for a provider of that protocol, or local for tools
	// inside a program.
	Kind   string      `json:"kind"`
	Health AgentHealth `json:"health"`
	// Enforcement is absent as long as the skills of the agent are not known.
	Enforcement *Enforcement `json:"enforcement,omitempty"`
	Key         *IssuingKey  `json:"issuing_key,omitempty"`
}

// IssuingKey is the key that an agent's capabilities are signed with now.
type IssuingKey struct {
	ID   string    `json:"id"` // thumbprint
	Made time.Time `json:"made"`
}

// AgentHealth is what the server saw when it last asked the agent for its card.
type AgentHealth struct {
	State string     `json:"state"` // answers, unreachable, unknown, or not_asked where there is nothing to ask
	Since *time.Time `json:"since,omitempty"`
	Why   string     `json:"why,omitempty"`
}

// Enforcement is how far the gateway can enforce anything at an agent: L0 caller, agent and
// method; L1 skill; L2 arguments; L3 resources.
type Enforcement struct {
	Level    string       `json:"level"` // the lowest of its skills
	FreeText string       `json:"free_text"`
	Skills   []SkillLevel `json:"skills"`
}

// SkillLevel is the level of one skill.
type SkillLevel struct {
	Skill string `json:"skill"`
	Level string `json:"level"`
	Why   string `json:"why"`
}

// AgentDetail is one agent with its recorded behaviour that its card does not declare.
type AgentDetail struct {
	AgentStatus
	Drift []Drift `json:"drift"`
	// Behind says that the log is still being read: newer behaviour may be missing.
	Behind bool `json:"behind,omitempty"`
}

// ModeRule is the mode of one caller at an agent, or of calls about one grant.
type ModeRule struct {
	Caller string `json:"caller,omitempty"`
	Grant  string `json:"grant,omitempty"`
	Mode   string `json:"mode"`
	Canary int    `json:"canary"`
}

// AgentCounts counts the agents that a reader sees.
type AgentCounts struct {
	All         int `json:"all"`
	Enforcing   int `json:"enforcing"` // in another mode than observe
	Unreachable int `json:"unreachable"`
}

// agentQuery is which agents are wanted, and in which order.
type agentQuery struct {
	first  []string // ids of those that come before the others
	health string   // "" for any
	after  string   // id of the agent before the first one
	limit  int      // 0 for none
}

func agentQueryOf(query url.Values) (q agentQuery, err error) {
	q = agentQuery{first: query["first"], health: query.Get("health"), after: query.Get("after")}
	if query.Has("limit") {
		if q.limit, err = strconv.Atoi(query.Get("limit")); err != nil || q.limit < 1 || q.limit > pageLimit {
			return q, status{http.StatusBadRequest, "limit must be a number from 1 to " + strconv.Itoa(pageLimit)}
		}
	}
	return q, nil
}

// agents answers with the agents in the order of the configuration: all, or a page of those that
// are selected.
func (a *Admin) agents(w http.ResponseWriter, r *http.Request) {
	q, err := agentQueryOf(r.URL.Query())
	var found []*AgentStatus
	if err == nil {
		var next string
		if found, next, err = a.someAgents(r, q); next != "" {
			w.Header().Set(operators.NextHeader, next)
		}
	}
	reply(w, r, a.Log, found, err)
}

func (a *Admin) someAgents(r *http.Request, q agentQuery) (found []*AgentStatus, next string, err error) {
	all, found := a.Agents(), []*AgentStatus{}
	wanted := make([]*AgentStatus, len(q.first), len(q.first)+len(all))
	for n := range all {
		if !at(r, all[n].ID) {
			continue
		}
		if place := slices.Index(q.first, all[n].ID); place >= 0 {
			wanted[place] = &all[n]
		} else {
			wanted = append(wanted, &all[n])
		}
	}
	untold, begun := a.Unrecorded(), q.after == ""
	for _, one := range wanted {
		if one == nil {
			continue
		}
		if !begun {
			begun = one.ID == q.after
			continue
		}
		if q.health != "" {
			if a.Looked(one, false); one.Health.State != q.health {
				continue
			}
		}
		if q.limit > 0 && len(found) == q.limit {
			return found, found[len(found)-1].ID, nil
		}
		if err := a.complete(one, untold); err != nil {
			return nil, "", err
		}
		found = append(found, one)
	}
	if !begun {
		return nil, "", status{http.StatusBadRequest, "after names no agent; want the id of one, from the page before"}
	}
	return found, "", nil
}

// complete fills in what the configuration does not say of an agent.
func (a *Admin) complete(one *AgentStatus, untold map[string]int64) error {
	one.Unrecorded = untold[one.ID]
	if err := a.inForce(one); err != nil {
		return err
	}
	one.Frozen = a.Issuer.Frozen(issuer.AgentTarget(one.ID))
	if keys, ok := a.Issuing(one.ID); ok {
		now := keys.Current()
		one.Key = &IssuingKey{now.Key.Public().Thumbprint(), now.Made}
	}
	a.Looked(one, true)
	return nil
}

// inForce fills in the mode in force.
func (a *Admin) inForce(one *AgentStatus) error {
	set := a.Issuer.Mode(one.ID)
	mode, err := gate.ParseMode(cmp.Or(set, one.Mode))
	one.Mode, one.Set = string(mode), set != ""
	return err
}

// counts counts the agents that the caller sees.
func (a *Admin) counts(r *http.Request) (n AgentCounts, err error) {
	all := a.Agents()
	for i := range all {
		one := &all[i]
		if !at(r, one.ID) {
			continue
		}
		if err := a.inForce(one); err != nil {
			return n, err
		}
		a.Looked(one, false)
		n.All++
		if one.Mode != string(gate.Observe) {
			n.Enforcing++
		}
		if one.Health.State == "unreachable" {
			n.Unreachable++
		}
	}
	return n, nil
}

// agent answers with one agent.
func (a *Admin) agent(r *http.Request) (any, error) {
	id := r.PathValue("agent")
	all := a.Agents()
	for n := range all {
		if all[n].ID != id {
			continue
		}
		if err := a.complete(&all[n], a.Unrecorded()); err != nil {
			return nil, err
		}
		out := AgentDetail{AgentStatus: all[n], Drift: []Drift{}}
		seen, behind, err := a.Scores.Drifts(r.Context(), id)
		out.Drift, out.Behind = append(out.Drift, seen...), behind
		return out, err
	}
	return nil, status{http.StatusNotFound, unknownAgent(id)}
}

// ModeSet reports whether an operator set the mode of an agent.
func (a *Admin) ModeSet(_ context.Context, agent string) (bool, error) {
	return a.Issuer.Mode(agent) != "", nil
}

// ModeConfigured takes back a mode that an operator set.
const ModeConfigured = "configured"

// Overridden returns the agents whose mode an operator set to another one than
// the configuration has, with both.
func (a *Admin) Overridden() (map[string][2]string, error) {
	out := map[string][2]string{}
	for _, s := range a.Agents() {
		mode, err := gate.ParseMode(cmp.Or(a.Issuer.Mode(s.ID), s.Mode))
		if err != nil {
			return nil, err
		}
		if string(mode) != s.Mode {
			out[s.ID] = [2]string{string(mode), s.Mode}
		}
	}
	return out, nil
}

func (a *Admin) setMode(r *http.Request) (any, error) {
	var body modeChange
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	agent := r.PathValue("agent")
	if _, ok := a.Issuer.Agent(agent); !ok {
		return nil, status{http.StatusNotFound, unknownAgent(agent)}
	}
	set := body.Mode
	if set == ModeConfigured {
		set = ""
	} else if _, err := gate.ParseMode(set); err != nil {
		return nil, status{http.StatusBadRequest, err.Error() + ", or " + ModeConfigured + " to use the mode in the configuration"}
	}
	before, err := a.Mode(r.Context(), agent)
	if err != nil {
		return nil, err
	}
	if err := a.Issuer.SetMode(r.Context(), operator(r), agent, set); err != nil {
		return nil, err
	}
	mode, err := a.Mode(r.Context(), agent)
	return modeChanged{agent, string(mode), string(before)}, err
}
