package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
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

func (a *Admin) agents(r *http.Request) (any, error) {
	all, err := a.statuses()
	return slices.DeleteFunc(all, func(one AgentStatus) bool { return !at(r, one.ID) }), err
}

func (a *Admin) statuses() ([]AgentStatus, error) {
	out, untold := append([]AgentStatus{}, a.Agents()...), a.Unrecorded()
	for i := range out {
		out[i].Unrecorded = untold[out[i].ID]
		set := a.Issuer.Mode(out[i].ID)
		mode, err := gate.ParseMode(cmp.Or(set, out[i].Mode))
		if err != nil {
			return nil, err
		}
		out[i].Mode, out[i].Set, out[i].Frozen = string(mode), set != "", a.Issuer.Frozen(issuer.AgentTarget(out[i].ID))
		if keys, ok := a.Issuing(out[i].ID); ok {
			now := keys.Current()
			out[i].Key = &IssuingKey{now.Key.Public().Thumbprint(), now.Made}
		}
		a.Looked(&out[i])
	}
	return out, nil
}

// agent answers with one agent.
func (a *Admin) agent(r *http.Request) (any, error) {
	all, err := a.statuses()
	if err != nil {
		return nil, err
	}
	id := r.PathValue("agent")
	for _, one := range all {
		if one.ID != id {
			continue
		}
		out := AgentDetail{AgentStatus: one, Drift: []Drift{}}
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
