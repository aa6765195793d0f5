package proxy

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// checkHeaders wants headers that can pass to an agent.
func checkHeaders(c config.Agent) error {
	for _, name := range c.Headers {
		if err := gateway.CheckHeader(name); err != nil {
			return fmt.Errorf("agents: %s: headers: %q: %w", c.ID, name, err)
		}
	}
	return nil
}

// FrontOf returns the settings of an agent's gateway that its configuration alone
// decides.
func FrontOf(c config.Agent, agent *issuer.Agent) gateway.Agent {
	return gateway.Agent{
		ID: c.ID, URL: agent.URL, Local: c.Protocol == "local",
		Behind: gateway.Behind{
			Upstream: c.Upstream, UpstreamHosts: c.UpstreamHosts, Headers: c.Headers, GRPC: c.GRPC.Address, GRPCUpstream: c.GRPC.Upstream, ReadsTenants: c.GRPCTenants == "read",
		},
		Identities: gateway.Identities{Signer: agent.Signer, Drift: gateway.Drift(c.Drift)},
		Offered: gateway.Offered{
			Skills: map[string]gateway.Skill{}, Methods: c.UnknownMethods, InvokeNative: c.Invoke == "native", LegacyMember: c.CardLegacyMember,
			EnforcesContext: c.Enforces == "context" || c.Protocol == "local", NoContext: c.Context == "none",
		},
		Enforced: gateway.Enforced{
			Trust: trust.Level(c.Trust), AdmitFreeText: c.AdmitFreeText == "unsafe", RefuseAmbient: c.RefuseUndeclared, NeedsExtension: c.NeedsExtension,
			Canary: c.Canary, DenyStatus: c.DenyStatus, ClientContexts: c.ClientContexts, Detach: detached(c),
			Degraded: gate.Degraded{Reads: c.Degraded.Calls == "reads", For: c.Degraded.For},
		},
		Events: gateway.Events{PushHosts: c.Push.Hosts, PushPrivate: c.Push.Private, Relay: gateway.Relay{On: c.Push.Relay, Via: c.Push.RelayVia}},
	}
}

// GatewayAgent is a configured agent as the gateway takes it.
func (p *Proxy) GatewayAgent(c config.Agent, agent *issuer.Agent) (gateway.Agent, error) {
	if err := checkHeaders(c); err != nil {
		return gateway.Agent{}, err
	}
	out := FrontOf(c, agent)
	if slices.Contains(p.Config.OAuth.Agents, c.ID) {
		out.Metadata = link.ResourceMetadata(agent.URL)
	}
	var err error
	if out.Scopes, err = p.scopesOf(c); err != nil {
		return gateway.Agent{}, err
	}
	if err := p.behind(c, &out); err != nil {
		return gateway.Agent{}, err
	}
	if out.MCP, err = mcpOf(c); err != nil {
		return gateway.Agent{}, fmt.Errorf("agents, %s: %w", c.ID, err)
	}
	for _, root := range c.TrustRoots {
		data, err := p.ReadFile(string(root.JWKSFile))
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("agents, %s, trust_roots: %w", c.ID, err)
		}
		keys, err := token.ParseKeySet(data)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("agents, %s, trust_roots, %s: %w", c.ID, root.JWKSFile, err)
		}
		if out.Foreign == nil {
			out.Foreign = map[string]token.KeySet{}
		}
		out.Foreign[root.Issuer] = keys
	}
	for _, s := range p.Config.Skills[c.ID] {
		op, err := powerbox.ParseOperation(issuer.Qualify(c.ID, s.Grant, s.Operation))
		if err != nil {
			return gateway.Agent{}, err
		}
		shape, err := declaredShape(s)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
		}
		out.Skills[s.Skill] = gateway.Skill{Operation: op, Handle: s.Handle, Write: s.Effect != "read", Shape: shape, Trust: trust.Level(s.Trust), Approval: s.Approval}
	}
	for _, g := range agent.Grants {
		out.Grants = append(out.Grants, a2a.CardGrant{
			ID: g.ID, Description: g.Description, Operations: g.Operations, Attenuable: g.Attenuable, Requires: g.Requires, Legacy: g.Legacy,
		})
	}
	for _, name := range c.Required {
		op, err := powerbox.ParseOperation(c.ID + "/" + name)
		if err != nil {
			return gateway.Agent{}, err
		}
		out.Required = append(out.Required, op)
	}
	return out, nil
}

// mcpOf returns the protected parts of an MCP server beside its tools, nil for an agent
// of A2A.
func mcpOf(c config.Agent) (*gateway.MCP, error) {
	if c.Protocol == "local" {
		return &gateway.MCP{}, nil // which has nothing but its card and its issuing methods
	}
	if c.Protocol != "mcp" {
		if len(c.MCP.Methods) > 0 || len(c.MCP.ServerRequests) > 0 {
			return nil, errors.New("mcp: the agent's protocol is a2a; want protocol: mcp")
		}
		return nil, nil //nolint:nilnil // none is no error
	}
	if c.GRPC.Listen != "" || c.NeedsExtension || c.CardKeys != "" || c.Authorization.EvidenceRequired {
		return nil, errors.New("an MCP server has no card and no gRPC, and its clients ask for no extensions; leave out grpc, extension_required, card_keys and authorization.evidence_required")
	}
	out := &gateway.MCP{Methods: map[string]powerbox.Operation{}, Requests: c.MCP.ServerRequests}
	for method, name := range c.MCP.Methods {
		if !mcp.Ruled(method) {
			return nil, fmt.Errorf("mcp.methods: %q cannot be mapped; want one of %s", method, strings.Join(mcp.RuledMethods(), ", "))
		}
		op, err := powerbox.ParseOperation(c.ID + "/" + name)
		if err != nil {
			return nil, fmt.Errorf("mcp.methods.%s: %w", method, err)
		}
		out.Methods[method] = op
	}
	for _, method := range c.MCP.ServerRequests {
		if !slices.Contains(mcp.ServerRequests, method) {
			return nil, fmt.Errorf("mcp.server_requests: %q is no request of MCP's servers; want one of %s", method, strings.Join(mcp.ServerRequests, ", "))
		}
	}
	return out, nil
}

// modeRules are the modes of an agent for some callers and grants.
func modeRules(c config.Agent) ([]gateway.ModeRule, error) {
	var rules []gateway.ModeRule
	for _, r := range c.Modes {
		mode, err := gate.ParseMode(r.Mode)
		if err != nil {
			return nil, fmt.Errorf("agents, %s, modes: %w", c.ID, err)
		}
		rules = append(rules, gateway.ModeRule{Caller: r.Caller, Grant: r.Grant, Mode: mode, Canary: r.Canary})
	}
	return rules, nil
}

// behind says how the agent itself is reached, in which modes, and by whom its
// card is signed.
func (p *Proxy) behind(c config.Agent, out *gateway.Agent) error {
	rules, err := modeRules(c)
	if err != nil {
		return err
	}
	out.Modes = rules
	if err := p.ownUpstream(c, out); err != nil {
		return err
	}
	if out.Credential, err = p.credential(c); err != nil {
		return err
	}
	if c.CardPin != "" {
		data, err := p.ReadFile(string(c.CardPin))
		if err != nil {
			return fmt.Errorf("agents, %s, card_pin: %w", c.ID, err)
		}
		pinned, err := agentcard.Parse(data)
		if err != nil {
			return fmt.Errorf("agents, %s, card_pin: %w", c.ID, err)
		}
		out.CardPin = &pinned
	}
	if c.CardKeys == "" {
		return nil
	}
	data, err := p.ReadFile(string(c.CardKeys))
	if err == nil {
		out.CardKeys, err = agentcard.ParseKeys(data)
	}
	if err != nil {
		return fmt.Errorf("agents, %s, card_keys: %w", c.ID, err)
	}
	return nil
}

// evidenceFormats are those in which the evidence of an agent can be had: its chain
// of records (EXT-21 to EXT-23), a proof of one record in the log (C2SP tlog-proof),
// and lines in the shape of OCSF.
var evidenceFormats = []string{"evidence-record-chain", "ocsf", "tlog-proof"}

// scopesOf are the parameters of the authorization extension of an agent.
func (p *Proxy) scopesOf(c config.Agent) (gateway.Scopes, error) {
	a := c.Authorization
	out := gateway.Scopes{
		Model: a.Model, Required: a.RequiredScopes, Delegation: a.Delegation, MaxDepth: a.MaxDepth, Evidence: a.EvidenceRequired,
		Lifetime: p.Config.Issuer.MaximumLifetime, Revocation: link.StatusAddress(p.Config.Issuer.URL, c.ID),
	}
	known := map[string]string{}
	for _, o := range p.Config.Offers[c.ID] {
		for _, op := range p.Config.OperationsOf(c.ID, o) {
			known[issuer.ScopeOf(o.ID, op)] = issuer.Qualify(c.ID, o.ID, op)
		}
	}
	out.Accepted, out.Compliance, out.Formats = slices.Sorted(maps.Keys(known)), a.Compliance, evidenceFormats
	for _, scope := range a.RequiredScopes {
		name, ok := known[scope]
		if !ok {
			return out, fmt.Errorf("agents, %s, authorization.required_scopes: nothing that the agent offers has the scope %q; there are %s",
				c.ID, scope, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			return out, err
		}
		out.Operations = append(out.Operations, op)
	}
	return out, nil
}

// SkillShape is the shape of a skill's arguments: those that are declared and
// no others; the handle alone where only that is known; any where nothing is.
func SkillShape(s config.Skill) (powerbox.Shape, error) {
	if len(s.Arguments) == 0 && s.Handle == "" {
		return powerbox.AnyArguments(), nil
	}
	var fields []powerbox.Field
	for name, c := range s.Arguments {
		fields = append(fields, powerbox.Field{Name: name, Constraint: c.Constraint, Required: true})
	}
	if _, declared := s.Arguments[s.Handle]; s.Handle != "" && !declared {
		fields = append(fields, powerbox.Field{Name: s.Handle, Constraint: powerbox.Wildcard{}, Required: true})
	}
	return powerbox.NewShape(powerbox.RestNone, fields...)
}

// declaredShape returns the configured shape of a skill's arguments, for callers with a
// capability or without: the declared ones and no others, or any. A handle binds only
// callers that were given one.
func declaredShape(s config.Skill) (powerbox.Shape, error) {
	if len(s.Arguments) == 0 {
		return powerbox.AnyArguments(), nil
	}
	return SkillShape(s)
}

// detached returns the function that makes bodies of an agent's arguments, nil where
// none are kept.
func detached(c config.Agent) func([]byte) (*evidence.Body, error) {
	if c.Bodies.Keep != "arguments" {
		return nil
	}
	return func(arguments []byte) (*evidence.Body, error) { return evidence.NewBody(rand.Reader, arguments) }
}
