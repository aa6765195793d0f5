package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// AgentAuth makes an agent a provider of the Agent Auth Protocol. At most one
// agent of a configuration is one.
type AgentAuth struct {
	ProviderName     string               `key:"provider_name" doc:"Name of the provider in its discovery document. Default: the agent's id."`
	Description      string               `key:"description" doc:"What the service is, in a sentence; agents and people read it."`
	Modes            []string             `key:"modes" doc:"Modes that agents can register in: delegated, autonomous. Default: delegated."`
	AutonomousHosts  string               `key:"autonomous_hosts" default:"known" enum:"known,any" doc:"Whose autonomous agents have at once what is autonomous: those of hosts that were approved, enrolled or registered ahead, or those of whoever has a key."`
	Administrators   []string             `key:"administrators" doc:"Principals, such as user:root, who answer for every host and for autonomous agents."`
	SessionTTL       time.Duration        `key:"session_ttl" default:"30m" doc:"An agent that makes no request for so long expires."`
	MaximumLifetime  time.Duration        `key:"max_lifetime" default:"24h" doc:"An agent expires so long after its last activation, whatever it does."`
	AbsoluteLifetime time.Duration        `key:"absolute_lifetime" default:"168h" doc:"An agent ends for good so long after its registration."`
	Lifetimes        []AgentLifetime      `key:"lifetimes" doc:"Other times for some agents. Of each time the shortest that applies holds, and where none does the provider's."`
	ApprovalTime     time.Duration        `key:"approval_time" default:"10m" doc:"How long a person can answer a request."`
	CIBA             string               `key:"ciba" default:"asked" enum:"off,asked,preferred" doc:"When a person who is known, as the host's user or by a login_hint, is asked where they are and sent no code: never, where the client prefers it, or always unless it prefers otherwise. preferred is for agents that can use the person's browser."`
	Retention        time.Duration        `key:"retention" default:"2160h" doc:"How long what is kept of an agent outlives it: its names, reasons, requests and denials, and those of single grants and questions. 0 is no end. Records are kept as evidence says."`
	PollInterval     time.Duration        `key:"poll_interval" default:"5s" doc:"How often clients should ask whether a request was answered."`
	MaxStream        time.Duration        `key:"max_stream" default:"1h" doc:"How long a stream can be open."`
	Private          bool                 `key:"private" doc:"List no capabilities without authentication, not even public ones."`
	RequireIssuer    bool                 `key:"require_issuer" doc:"Refuse agents' tokens without iss. The protocol asks for it; its own client leaves it out."`
	RequireProof     bool                 `key:"require_proof" doc:"Take agents' tokens with a proof of possession alone: DPoP (cnf.jkt) or a client certificate (cnf.x5t#S256). Tokens that are bound are held to their proof in any case."`
	IssuerAudience   bool                 `key:"issuer_audience" doc:"Take the provider's URL as audience of executions at its own location, too."`
	Tokens           bool                 `key:"tokens" doc:"Issue attenuating tokens for grants to agents that ask for them, which can be narrowed and passed on offline and presented at this agent's gateway: an extension of the protocol."`
	TokenLifetime    time.Duration        `key:"token_lifetime" default:"15m" doc:"Longest lifetime of such a token; it also ends with the agent's session as it stands."`
	TokenDepth       int                  `key:"token_depth" default:"1" min:"0" max:"15" doc:"How often such a token may be passed on. It holds for what people grant from then on."`
	EqOperator       bool                 `key:"eq_operator" doc:"Take the constraint operator eq, which the protocol does not have, for an exact value."`
	Introspection    Secret               `key:"introspection_token" doc:"Bearer token of services that may introspect agents' tokens. Absent: everybody may, within limits."`
	Introspections   int                  `key:"introspections" default:"10" min:"0" max:"1000000" doc:"Introspections a second from one address while introspection_token is absent; 0 for no limit but that of requests. Of IPv6, here and below, an address is its network of 64 bits."`
	Requests         int                  `key:"requests" default:"100" min:"0" max:"1000000" doc:"Requests a second from one address; 0 for no limit."`
	UnknownHosts     int                  `key:"unknown_hosts" default:"5" min:"0" max:"1000000" doc:"Registrations of unknown hosts an hour from one address. Four times as many key sets are fetched, and tokens of a clock that is ahead are taken, for hosts that no person has approved. 0 for no limit."`
	Questions        int                  `key:"questions" default:"60" min:"0" max:"1000000" doc:"Registrations and requests an hour by one host, also after it rotates its key. Hosts that no person has approved have this number together for each address. 0 for no limit."`
	Executions       int                  `key:"executions" default:"600" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no limit."`
	HostExecutions   int                  `key:"host_executions" default:"1200" min:"0" max:"1000000" doc:"Executions a minute by all agents of one host; 0 for no limit."`
	UserExecutions   int                  `key:"user_executions" default:"1200" min:"0" max:"1000000" doc:"Executions a minute by all agents of one user; 0 for no limit."`
	Capabilities     []ProviderCapability `key:"capabilities" doc:"What agents can execute. Without any, the agent is no provider."`
}

// AnyHost is the setting of autonomous_hosts that lets anybody begin.
const AnyHost = "any"

// AgentLifetime is other times for some agents.
type AgentLifetime struct {
	Modes            []string      `key:"modes" doc:"For agents of these modes. Absent: of all."`
	Hosts            []string      `key:"hosts" doc:"For agents of these hosts, by id. Absent: of all."`
	Capabilities     []string      `key:"capabilities" doc:"For agents that are given one of these, from then on. Absent: for all."`
	SessionTTL       time.Duration `key:"session_ttl" doc:"As agent_auth.session_ttl. Absent: nothing is said."`
	MaximumLifetime  time.Duration `key:"max_lifetime" doc:"As agent_auth.max_lifetime. Absent: nothing is said."`
	AbsoluteLifetime time.Duration `key:"absolute_lifetime" doc:"As agent_auth.absolute_lifetime. Absent: nothing is said."`
}

// ProviderCapability is one capability of a provider.
type ProviderCapability struct {
	Name        string                    `key:"name" required:"true" doc:"Its name: a to z, digits and _."`
	Description string                    `key:"description" required:"true" doc:"What it does, in a sentence. People decide by it."`
	Input       powerbox.Value            `key:"input" doc:"JSON Schema of its arguments, which every call is held to."`
	Output      powerbox.Value            `key:"output" doc:"JSON Schema of its result."`
	Sensitivity string                    `key:"sensitivity" default:"write" enum:"read,write,high" doc:"How strong an approval must be: what writes asks for a passkey, what is high is never granted without a person."`
	Default     bool                      `key:"default" doc:"Granted at once to agents of linked hosts that ask for nothing else. Where it changes something, whoever links a host needs a passkey."`
	Autonomous  bool                      `key:"autonomous" doc:"Granted at once to autonomous agents of hosts without a user; see autonomous_hosts."`
	Public      bool                      `key:"public" doc:"Listed without authentication."`
	Blocked     bool                      `key:"blocked" doc:"Listed, and can neither be asked for nor be a default."`
	Proof       bool                      `key:"require_proof" doc:"Execute it with a token that is bound to a key or a certificate alone."`
	Constraints powerbox.Value            `key:"constraints" doc:"Constraints of the server, which every grant is within, whenever it was given."`
	Lifetime    time.Duration             `key:"grant_lifetime" doc:"How long a grant of it is in force. Absent: as long as its agent."`
	Executions  int                       `key:"executions" default:"0" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no limit of its own."`
	Uses        int                       `key:"uses" min:"0" max:"1000000000" doc:"How often one grant of it can be used in all; 0 for no bound."`
	Sum         map[string]powerbox.Value `key:"sum" doc:"Per argument, the most that all uses of one grant may add up to."`
	Location    string                    `key:"location" format:"url" doc:"Another service where it is executed, which verifies by itself."`
	Backend     string                    `key:"backend" format:"url" doc:"Where it is executed behind the provider. Default: the agent's upstream."`
	Request     ServiceRequest            `key:"request" doc:"The request of an HTTP interface that it is, instead of a backend; powerbox agent import openapi writes it."`
	MCP         ServiceMCP                `key:"mcp" doc:"The tool of an MCP server that it is, instead of a backend; powerbox agent import mcp writes it."`
	A2A         ServiceA2A                `key:"a2a" doc:"The skill of an A2A agent that it is, instead of a backend."`
}

// ServiceRequest is a request of an HTTP interface. Every argument has one place in
// it; one that has none is refused.
type ServiceRequest struct {
	Method string   `key:"method" enum:"GET,HEAD,POST,PUT,PATCH,DELETE" default:"POST" doc:"Its method."`
	URL    string   `key:"url" doc:"Where it goes, with {name} for arguments in the path. Without one there is no request."`
	Query  []string `key:"query" doc:"Arguments in the query; a list is sent as several."`
	Header []string `key:"header" doc:"Arguments that are headers."`
	Body   []string `key:"body" doc:"Arguments that are the members of a JSON body."`
	Whole  string   `key:"body_argument" doc:"The argument that is the JSON body as it is."`
	Token  Path     `key:"token_file" doc:"File with the bearer token of the service. Absent: none is sent."`
}

// ServiceMCP is a tool of an MCP server over streamable HTTP.
type ServiceMCP struct {
	URL   string `key:"url" doc:"Where the MCP server is. Without one there is no tool."`
	Tool  string `key:"tool" doc:"Name of the tool. Default: the capability's."`
	Token Path   `key:"token_file" doc:"File with the bearer token of the server. Absent: none is sent."`
	// Stream is for tools that take their time.
	Stream bool `key:"stream" doc:"Answer with a stream: what the tool tells of its progress, and then its answer."`
}

// ServiceA2A is a skill of an A2A agent.
type ServiceA2A struct {
	URL     string `key:"url" doc:"Where the agent takes JSON-RPC. Without one there is no skill."`
	Skill   string `key:"skill" doc:"Id of the skill. Default: the capability's name."`
	Version string `key:"version" enum:"1.0,0.3" default:"1.0" doc:"Version of A2A that the agent speaks."`
	Token   Path   `key:"token_file" doc:"File with the bearer token of the agent. Absent: none is sent."`
	Stream  bool   `key:"stream" doc:"Answer with a stream: what the agent streams (SendStreamingMessage)."`
}

// GrantOfAgentAuth is the grant that capabilities of Agent Auth are operations of,
// for skills of the same agent.
const GrantOfAgentAuth = "agent-auth"

// granted checks a skill that is a capability of the agent's own Agent Auth.
func (k checker) granted(path, agent, operation string) {
	i := slices.IndexFunc(k.Agents, func(a Agent) bool { return a.ID == agent })
	var names []string
	if i >= 0 && k.Agents[i].AgentAuth.Tokens {
		for _, c := range k.Agents[i].AgentAuth.Capabilities {
			names = append(names, c.Name)
		}
	}
	if names == nil {
		k.place(path, "is of grant %q, and the agent issues no tokens for capabilities of Agent Auth; set agent_auth.tokens", GrantOfAgentAuth)
		return
	}
	k.known(path, "capability of Agent Auth called", operation, names)
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
		{"token_lifetime", p.TokenLifetime},
	} {
		if d.of < time.Second {
			k.place(at+"."+d.key, "%s is less than a second", d.of)
		}
	}
	if p.Retention < 0 || p.Retention > 0 && p.Retention < time.Second {
		k.place(at+".retention", "%s is less than a second; 0 is no end", p.Retention)
	}
	names := make([]string, len(p.Capabilities))
	for j, c := range p.Capabilities {
		if names[j] = c.Name; c.Lifetime < 0 || c.Lifetime > 0 && c.Lifetime < time.Second {
			k.place(fmt.Sprintf("%s.capabilities[%d].grant_lifetime", at, j), "%s is less than a second", c.Lifetime)
		}
	}
	for j, l := range p.Lifetimes {
		k.checkLifetime(fmt.Sprintf("%s.lifetimes[%d]", at, j), l, names)
	}
	k.unique(at+".capabilities", "name", len(p.Capabilities), func(j int) string { return p.Capabilities[j].Name })
	for j, c := range p.Capabilities {
		here := fmt.Sprintf("%s.capabilities[%d]", at, j)
		behind := map[string]string{"location": c.Location, "backend": c.Backend, "request": c.Request.URL, "mcp": c.MCP.URL, "a2a": c.A2A.URL}
		maps.DeleteFunc(behind, func(_, at string) bool { return at == "" })
		if len(behind) > 1 {
			k.place(here, "has %s; want one: what is executed elsewhere has no backend here", strings.Join(slices.Sorted(maps.Keys(behind)), " and "))
		}
		if c.Blocked && (c.Default || c.Autonomous) {
			k.place(here, "is blocked, and default or autonomous gives it unasked; want one or the other")
		}
		if c.Location != "" && (c.Uses > 0 || len(c.Sum) > 0) {
			k.place(here, "has location and a budget (uses or sum); what is executed elsewhere is not counted here, so give it a backend, or no budget")
		}
		for _, key := range []string{"mcp", "a2a"} {
			at, ok := behind[key]
			if u, err := url.Parse(at); ok && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http") {
				k.place(here+"."+key+".url", "%q; want an absolute http or https URL", at)
			}
		}
	}
}

// checkLifetime wants a lifetime that says something, about agents that there can be.
func (k checker) checkLifetime(at string, l AgentLifetime, capabilities []string) {
	for j, mode := range l.Modes {
		k.known(fmt.Sprintf("%s.modes[%d]", at, j), "mode", mode, []string{"delegated", "autonomous"})
	}
	for j, name := range l.Capabilities {
		k.known(fmt.Sprintf("%s.capabilities[%d]", at, j), "capability", name, capabilities)
	}
	some := false
	for _, d := range []time.Duration{l.SessionTTL, l.MaximumLifetime, l.AbsoluteLifetime} {
		if some = some || d != 0; d < 0 || d > 0 && d < time.Second {
			k.place(at, "%s is less than a second", d)
		}
	}
	if !some {
		k.place(at, "says no time; want session_ttl, max_lifetime or absolute_lifetime")
	}
}
