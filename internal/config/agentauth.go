package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// AgentAuth makes an agent a provider of the Agent Auth Protocol. At most one
// agent of a configuration is one.
type AgentAuth struct {
	ProviderName     string               `key:"provider_name" doc:"Name of the provider in its discovery document. Default: the agent's id."`
	Description      string               `key:"description" doc:"What the service is, in a sentence; agents and people read it."`
	Modes            []string             `key:"modes" doc:"Modes that agents can register in: delegated, autonomous. Default: delegated."`
	Administrators   []string             `key:"administrators" doc:"Principals, such as user:root, who answer for every host and for autonomous agents."`
	SessionTTL       time.Duration        `key:"session_ttl" default:"30m" doc:"An agent that makes no request for so long expires."`
	MaximumLifetime  time.Duration        `key:"max_lifetime" default:"24h" doc:"An agent expires so long after its last activation, whatever it does."`
	AbsoluteLifetime time.Duration        `key:"absolute_lifetime" default:"168h" doc:"An agent ends for good so long after its registration."`
	ApprovalTime     time.Duration        `key:"approval_time" default:"10m" doc:"How long a person can answer a request."`
	PollInterval     time.Duration        `key:"poll_interval" default:"5s" doc:"How often clients should ask whether a request was answered."`
	MaxStream        time.Duration        `key:"max_stream" default:"1h" doc:"How long a stream can be open."`
	Private          bool                 `key:"private" doc:"List no capabilities without authentication, not even public ones."`
	RequireIssuer    bool                 `key:"require_issuer" doc:"Refuse agents' tokens without iss. The protocol asks for it; its own client leaves it out."`
	IssuerAudience   bool                 `key:"issuer_audience" doc:"Take the provider's URL as audience of executions at its own location, too."`
	EqOperator       bool                 `key:"eq_operator" doc:"Take the constraint operator eq, which the protocol does not have, for an exact value."`
	Introspection    Secret               `key:"introspection_token" doc:"Bearer token of services that may introspect agents' tokens. Absent: everybody may, within limits."`
	Requests         int                  `key:"requests" default:"100" min:"0" max:"1000000" doc:"Requests a second from one address; 0 for no limit."`
	UnknownHosts     int                  `key:"unknown_hosts" default:"5" min:"0" max:"1000000" doc:"Registrations of unknown hosts an hour from one address; 0 for no limit."`
	Questions        int                  `key:"questions" default:"60" min:"0" max:"1000000" doc:"Registrations and requests an hour by one host; 0 for no limit."`
	Executions       int                  `key:"executions" default:"600" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no limit."`
	UserExecutions   int                  `key:"user_executions" default:"1200" min:"0" max:"1000000" doc:"Executions a minute by all agents of one user; 0 for no limit."`
	Capabilities     []ProviderCapability `key:"capabilities" doc:"What agents can execute. Without any, the agent is no provider."`
}

// ProviderCapability is one capability of a provider.
type ProviderCapability struct {
	Name        string                    `key:"name" required:"true" doc:"Its name: a to z, digits and _."`
	Description string                    `key:"description" required:"true" doc:"What it does, in a sentence. People decide by it."`
	Input       powerbox.Value            `key:"input" doc:"JSON Schema of its arguments, which every call is held to."`
	Output      powerbox.Value            `key:"output" doc:"JSON Schema of its result."`
	Sensitivity string                    `key:"sensitivity" default:"write" enum:"read,write,high" doc:"How strong an approval must be: what writes asks for a passkey, what is high is never granted without a person."`
	Default     bool                      `key:"default" doc:"Granted at once to agents of linked hosts that ask for nothing else."`
	Autonomous  bool                      `key:"autonomous" doc:"Granted at once to autonomous agents of hosts without a user."`
	Public      bool                      `key:"public" doc:"Listed without authentication."`
	Blocked     bool                      `key:"blocked" doc:"Listed, and cannot be asked for."`
	Constraints powerbox.Value            `key:"constraints" doc:"Constraints of the server, which every grant is within."`
	Executions  int                       `key:"executions" default:"0" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no limit of its own."`
	Uses        int                       `key:"uses" min:"0" max:"1000000000" doc:"How often one grant of it can be used in all; 0 for no bound."`
	Sum         map[string]powerbox.Value `key:"sum" doc:"Per argument, the most that all uses of one grant may add up to."`
	Location    string                    `key:"location" format:"url" doc:"Another service where it is executed, which verifies by itself."`
	Backend     string                    `key:"backend" format:"url" doc:"Where it is executed behind the provider. Default: the agent's upstream."`
}

// checkAgentAuth wants one provider at most, whose times are possible and which
// gives nothing away that a person has to judge.
func (k checker) checkAgentAuth() {
	first := ""
	for i, a := range k.Agents {
		at := fmt.Sprintf("agents[%d].agent_auth", i)
		if len(a.AgentAuth.Capabilities) == 0 {
			continue
		}
		if first != "" {
			k.place(at, "agent %q is the provider already; there can be one", first)
		}
		first = a.ID
		k.checkProvider(at, a.AgentAuth)
	}
}

func (k checker) checkProvider(at string, p AgentAuth) {
	for j, mode := range p.Modes {
		k.known(fmt.Sprintf("%s.modes[%d]", at, j), "mode", mode, []string{"delegated", "autonomous"})
	}
	if slices.Contains(p.Modes, "autonomous") && len(p.Administrators) == 0 {
		k.place(at+".administrators", "are missing; autonomous agents have nobody else to ask")
	}
	for _, d := range []struct {
		key string
		of  time.Duration
	}{
		{"session_ttl", p.SessionTTL},
		{"max_lifetime", p.MaximumLifetime},
		{"absolute_lifetime", p.AbsoluteLifetime},
		{"approval_time", p.ApprovalTime},
		{"poll_interval", p.PollInterval},
		{"max_stream", p.MaxStream},
	} {
		if d.of < time.Second {
			k.place(at+"."+d.key, "%s is less than a second", d.of)
		}
	}
	k.unique(at+".capabilities", "name", len(p.Capabilities), func(j int) string { return p.Capabilities[j].Name })
	for j, c := range p.Capabilities {
		here := fmt.Sprintf("%s.capabilities[%d]", at, j)
		if c.Location != "" && c.Backend != "" {
			k.place(here, "has location and backend; want one: what is executed elsewhere has no backend here")
		}
	}
}
