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
	Description      string               `key:"description" doc:"Description of the service in one sentence, for agents and people."`
	Modes            []string             `key:"modes" doc:"Modes that agents can register in: delegated, autonomous. Default: delegated."`
	AutonomousHosts  string               `key:"autonomous_hosts" default:"known" enum:"known,any" doc:"Whose autonomous agents have autonomous capabilities at once: known (hosts that were approved, enrolled or registered ahead) or any (every host with a key)."`
	Administrators   []string             `key:"administrators" doc:"Principals, such as user:root, that answer for every host and for autonomous agents."`
	SessionTTL       time.Duration        `key:"session_ttl" default:"30m" doc:"An agent expires after this time without a request."`
	MaximumLifetime  time.Duration        `key:"max_lifetime" default:"24h" doc:"An agent expires this long after its last activation, also if it is active."`
	AbsoluteLifetime time.Duration        `key:"absolute_lifetime" default:"168h" doc:"An agent ends this long after its registration, and cannot return."`
	Lifetimes        []AgentLifetime      `key:"lifetimes" doc:"Other times for some agents. The shortest matching time holds, or else the provider's."`
	ApprovalTime     time.Duration        `key:"approval_time" default:"10m" doc:"How long a person can answer a request."`
	CIBA             string               `key:"ciba" default:"asked" enum:"off,asked,preferred" doc:"When a known person is asked on their page instead of by a code. A person is known as the host's user or by a login_hint. off: never. asked: if the client prefers it. preferred: unless the client prefers otherwise. Use preferred for agents that can use the person's browser."`
	Retention        time.Duration        `key:"retention" default:"2160h" doc:"How long to keep names, reasons, requests and denials after an agent, grant or question ended. 0 is forever. Records follow evidence."`
	PollInterval     time.Duration        `key:"poll_interval" default:"5s" doc:"How often clients should poll for an answer."`
	MaxStream        time.Duration        `key:"max_stream" default:"1h" doc:"Longest time that a stream can be open."`
	Private          bool                 `key:"private" doc:"List no capabilities without authentication, not even public ones."`
	RequireIssuer    bool                 `key:"require_issuer" doc:"Refuse agents' tokens without iss. The protocol requires iss; its own client omits it."`
	RequireProof     bool                 `key:"require_proof" doc:"Accept agents' tokens only with a proof of possession: DPoP (cnf.jkt) or a client certificate (cnf.x5t#S256). Bound tokens always need their proof."`
	IssuerAudience   bool                 `key:"issuer_audience" doc:"Also accept the provider's URL as audience of executions at its own location."`
	Tokens           bool                 `key:"tokens" doc:"Issue attenuating tokens for grants on request. Agents narrow and delegate them offline, and present them at this agent's gateway. This is an extension of the protocol."`
	TokenLifetime    time.Duration        `key:"token_lifetime" default:"15m" doc:"Longest lifetime of such a token. It also ends when the agent's current session ends."`
	TokenDepth       int                  `key:"token_depth" default:"1" min:"0" max:"15" doc:"How often such a token may be delegated. A change holds for later grants."`
	EqOperator       bool                 `key:"eq_operator" doc:"Accept the constraint operator eq, which is not in the protocol, for an exact value."`
	Introspection    Secret               `key:"introspection_token" doc:"Bearer token of services that may introspect agents' tokens. Absent: anyone may, within limits."`
	Introspections   int                  `key:"introspections" default:"10" min:"0" max:"1000000" doc:"Introspections a second from one address while introspection_token is absent; 0 for only the limit of requests. For IPv6, here and below, a network of 64 bits counts as one address."`
	Requests         int                  `key:"requests" default:"100" min:"0" max:"1000000" doc:"Requests a second from one address; 0 for no limit."`
	UnknownHosts     int                  `key:"unknown_hosts" default:"5" min:"0" max:"1000000" doc:"Registrations of unknown hosts an hour from one address. For hosts that no person has approved, four times this number limits fetched key sets, and tokens from a clock that is ahead. 0 for no limit."`
	Questions        int                  `key:"questions" default:"60" min:"0" max:"1000000" doc:"Registrations and requests an hour by one host, also after it rotates its key. Hosts that no person has approved share this number by address. 0 for no limit."`
	Executions       int                  `key:"executions" default:"600" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no limit."`
	HostExecutions   int                  `key:"host_executions" default:"1200" min:"0" max:"1000000" doc:"Executions a minute by all agents of one host; 0 for no limit."`
	UserExecutions   int                  `key:"user_executions" default:"1200" min:"0" max:"1000000" doc:"Executions a minute by all agents of one user; 0 for no limit."`
	Capabilities     []ProviderCapability `key:"capabilities" doc:"Capabilities that agents can execute. Absent: the agent is no provider."`
}

// AnyHost is the setting of autonomous_hosts that lets anybody begin.
const AnyHost = "any"

// AgentLifetime is other times for some agents.
type AgentLifetime struct {
	Modes            []string      `key:"modes" doc:"For agents of these modes. Absent: of all."`
	Hosts            []string      `key:"hosts" doc:"For agents of these hosts, by id. Absent: of all."`
	Capabilities     []string      `key:"capabilities" doc:"For agents with one of these grants, from the grant on. Absent: for all."`
	SessionTTL       time.Duration `key:"session_ttl" doc:"As agent_auth.session_ttl. Absent: no other time."`
	MaximumLifetime  time.Duration `key:"max_lifetime" doc:"As agent_auth.max_lifetime. Absent: no other time."`
	AbsoluteLifetime time.Duration `key:"absolute_lifetime" doc:"As agent_auth.absolute_lifetime. Absent: no other time."`
}

// ProviderCapability is one capability of a provider.
type ProviderCapability struct {
	Name        string                    `key:"name" required:"true" doc:"Name of the capability: a to z, digits and _."`
	Description string                    `key:"description" required:"true" doc:"Description in one sentence. People decide by it."`
	Input       powerbox.Value            `key:"input" doc:"JSON Schema of its arguments. Every call is checked against it."`
	Output      powerbox.Value            `key:"output" doc:"JSON Schema of its result."`
	Sensitivity string                    `key:"sensitivity" default:"write" enum:"read,write,high" doc:"How strong an approval must be: write needs a passkey; high is never granted without a person."`
	Default     bool                      `key:"default" doc:"Granted at once to agents of linked hosts that ask for nothing else. If it changes something, the person who links a host needs a passkey."`
	Autonomous  bool                      `key:"autonomous" doc:"Granted at once to autonomous agents of hosts without a user; see autonomous_hosts."`
	Public      bool                      `key:"public" doc:"Listed without authentication."`
	Blocked     bool                      `key:"blocked" doc:"Listed, but agents cannot request it, and it cannot be a default."`
	Proof       bool                      `key:"require_proof" doc:"Execute it only with a token that is bound to a key or a certificate."`
	Constraints powerbox.Value            `key:"constraints" doc:"Constraints of the server. They limit every grant, also earlier ones."`
	Lifetime    time.Duration             `key:"grant_lifetime" doc:"Lifetime of a grant of it. Absent: as long as its agent."`
	Executions  int                       `key:"executions" default:"0" min:"0" max:"1000000" doc:"Executions a minute by one agent; 0 for no separate limit."`
	Uses        int                       `key:"uses" min:"0" max:"1000000000" doc:"Total number of uses of one grant; 0 for no limit."`
	Sum         map[string]powerbox.Value `key:"sum" doc:"Per argument, the largest sum over all uses of one grant."`
	Location    string                    `key:"location" format:"url" doc:"Another service that executes it and verifies tokens."`
	Backend     string                    `key:"backend" format:"url" doc:"URL of the backend that executes it. Default: the agent's upstream."`
	Request     ServiceRequest            `key:"request" doc:"Request of an HTTP interface that executes it, instead of a backend; powerbox agent import openapi writes it."`
	MCP         ServiceMCP                `key:"mcp" doc:"Tool of an MCP server that executes it, instead of a backend; powerbox agent import mcp writes it."`
	A2A         ServiceA2A                `key:"a2a" doc:"Skill of an A2A agent that executes it, instead of a backend."`
	Yields      Yields                    `key:"yields" doc:"Label of its results (docs/how-to/data-origin.md). It counts if data.mode is not off."`
	Accepts     Accepts                   `key:"accepts" doc:"Data that may flow into its calls. It counts if data.mode is not off. An execution cannot wait for a person: where a rule asks one, it is refused."`
}

// ServiceRequest is a request of an HTTP interface. Every argument has one place in
// it; one that has none is refused.
type ServiceRequest struct {
	Method string   `key:"method" enum:"GET,HEAD,POST,PUT,PATCH,DELETE" default:"POST" doc:"HTTP method."`
	URL    string   `key:"url" doc:"URL of the request, with {name} for arguments in the path. Absent: no request."`
	Query  []string `key:"query" doc:"Arguments in the query; a list is sent as several parameters."`
	Header []string `key:"header" doc:"Arguments that are headers."`
	Body   []string `key:"body" doc:"Arguments that are the members of a JSON body."`
	Whole  string   `key:"body_argument" doc:"The argument whose value is the whole JSON body."`
	Token  Path     `key:"token_file" doc:"File with the bearer token of the service. Absent: none is sent."`
}

// ServiceMCP is a tool of an MCP server over streamable HTTP.
type ServiceMCP struct {
	URL   string `key:"url" doc:"URL of the MCP server. Absent: no tool."`
	Tool  string `key:"tool" doc:"Name of the tool. Default: the capability's."`
	Token Path   `key:"token_file" doc:"File with the bearer token of the server. Absent: none is sent."`
	// Stream is for tools that take their time.
	Stream bool `key:"stream" doc:"Answer with a stream of the tool's progress, then its answer."`
}

// ServiceA2A is a skill of an A2A agent.
type ServiceA2A struct {
	URL     string `key:"url" doc:"URL at which the agent accepts JSON-RPC. Absent: no skill."`
	Skill   string `key:"skill" doc:"Id of the skill. Default: the capability's name."`
	Version string `key:"version" enum:"1.0,0.3" default:"1.0" doc:"Version of A2A that the agent speaks."`
	Token   Path   `key:"token_file" doc:"File with the bearer token of the agent. Absent: none is sent."`
	Stream  bool   `key:"stream" doc:"Answer with the agent's stream (SendStreamingMessage)."`
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
		k.place(at+".administrators", "are missing; no person answers for autonomous agents")
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
