package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/keysets"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/web/agentapi"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// approvalsPath is where people answer.
const approvalsPath = "/approve"

// cleaning is how often the server looks for requests that were never approved.
const cleaning = 10 * time.Minute

// backendContext is how long a context for a backend is good.
const backendContext = time.Minute

// provide adds the Agent Auth provider to the served paths, where an agent is one.
func (i *Instance) provide(ctx context.Context, a Assembly, w *Wiring, mux *http.ServeMux, started time.Time, g *gate.Gate) error {
	n := slices.IndexFunc(i.Config.Agents, func(c config.Agent) bool { return len(c.AgentAuth.Capabilities) > 0 })
	if n < 0 {
		return i.peopleAlone(ctx, a, w, mux, started, g)
	}
	c := i.Config.Agents[n]
	p, err := i.provider(c, a, started, g)
	if err != nil {
		return fmt.Errorf("agents, %s, agent_auth: %w", c.ID, err)
	}
	conf := c.AgentAuth
	var tokens func(issuer.Capability) any
	if conf.Tokens {
		tokens = func(c issuer.Capability) any { return api.OnWire(c) }
	}
	api := agentapi.New(agentapi.Config{
		Tokens:   tokens,
		Provider: p, Name: cmp.Or(conf.ProviderName, c.ID), Description: conf.Description, Modes: modes(conf), Private: conf.Private,
		Approvals: p.URL() + approvalsPath, Keys: i.AgentURL(c.ID) + "/.well-known/jwks.json", Interval: conf.PollInterval,
		Limits: agentapi.Limits{
			Requests: float64(conf.Requests), Unknown: conf.UnknownHosts, Questions: conf.Questions,
			Introspections: float64(conf.Introspections), Agent: conf.Executions, Host: conf.HostExecutions, User: conf.UserExecutions, Capability: ownLimits(conf),
		},
		BodyLimit: int64(i.Config.Defaults.BodyLimit), MaxStream: conf.MaxStream, Introspector: introspector(conf.Introspection.Reveal()),
		Done: ctx.Done(), Now: a.Now, Log: a.Log, Queue: i.queue,
	})
	for _, path := range agentapi.Paths() {
		mux.Handle(path, i.inTime(api.Late, api))
	}
	i.people(a, w, p, mux)
	go i.clean(ctx, p, a.Log)
	return i.console(ctx, a, p, c, mux)
}

// ownLimits are those of capabilities that have one.
func ownLimits(c config.AgentAuth) map[string]int {
	out := map[string]int{}
	for _, one := range c.Capabilities {
		out[one.Name] = one.Executions
	}
	return out
}

func modes(c config.AgentAuth) []string {
	if len(c.Modes) == 0 {
		return []string{agentauth.Delegated}
	}
	return c.Modes
}

func introspector(secret string) func(*http.Request) bool {
	if secret == "" {
		return nil
	}
	return func(r *http.Request) bool {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return ok && subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
	}
}

// provider makes the provider of one agent.
func (i *Instance) provider(c config.Agent, a Assembly, started time.Time, g *gate.Gate) (*provider.Provider, error) {
	conf := c.AgentAuth
	codes, err := i.Ring.Secret("approvals")
	if err != nil {
		return nil, err
	}
	i.Admin.ArgumentsKey = func(record string) []byte { return provider.ArgumentsKey(codes, record) }
	services := i.services(c, a.Now)
	options := agentauth.Options{Eq: conf.EqOperator}
	var capabilities []provider.Capability
	for _, one := range conf.Capabilities {
		shape, err := options.ParseConstraints(one.Constraints)
		if err != nil {
			return nil, fmt.Errorf("capability %q: %w", one.Name, err)
		}
		sums, err := budgets(one)
		if err != nil {
			return nil, fmt.Errorf("capability %q: %w", one.Name, err)
		}
		capabilities = append(capabilities, provider.Capability{
			Budgets: sums,
			Name:    one.Name, Description: one.Description, Input: one.Input, Output: one.Output, Location: one.Location,
			Sensitivity: provider.Sensitivity(one.Sensitivity), Default: one.Default, Autonomous: one.Autonomous, Public: one.Public,
			Blocked: one.Blocked, Constraints: shape, Proof: one.Proof, Lifetime: one.Lifetime,
		})
		if err := services.add(one, c.Upstream); err != nil {
			return nil, fmt.Errorf("capability %q: %w", one.Name, err)
		}
	}
	// No call continues here without a record, so the log has no gaps to tell of.
	own := &gate.Gate{
		Chains: noChains{}, References: g.References, Recorder: provider.Recorder{Store: i.Store, Plain: g.Recorder}, Revocations: g.Revocations, Policy: unvetoed{i.Issuer.PolicyDigest},
		Replay: g.Replay, Standing: g.Standing, RecorderID: g.RecorderID, NewID: g.NewID, Now: g.Now, Log: g.Log, Took: g.Took, Current: g.Current,
	}
	p, err := provider.New(provider.Config{
		Replay: i.replays("token of an agent"),
		Store:  i.Store, Issuer: i.Issuer, Gate: own, Agent: c.ID, Name: cmp.Or(conf.ProviderName, c.ID), Description: conf.Description,
		URL: strings.TrimRight(i.Config.Issuer.URL, "/"), ExecutePath: agentapi.PathExecute, Capabilities: capabilities, Modes: modes(conf),
		Clocks:    provider.Clocks{Session: conf.SessionTTL, Maximum: conf.MaximumLifetime, Absolute: conf.AbsoluteLifetime},
		Lifetimes: lifetimes(conf), Retention: conf.Retention, Approval: conf.ApprovalTime, Interval: conf.PollInterval, CodeKey: codes, Options: options,
		CIBA: provider.CIBA(conf.CIBA), Known: i.builtIn(a.Dev),
		Tokens:        provider.Tokens{Enabled: conf.Tokens, Lifetime: conf.TokenLifetime, Depth: conf.TokenDepth},
		RequireIssuer: conf.RequireIssuer, RequireProof: conf.RequireProof, IssuerAudience: conf.IssuerAudience, AnyHost: conf.AutonomousHosts == config.AnyHost,
		Administrator: i.administrator(a.Dev),
		Keys:          keysets.New(published{outbound.New(keysPolicy(a.Dev))}, a.Now),
		Data:          i.providerData(c.ID, a.Now),
		Backend:       services.route, Redact: proxy.Redaction(i.Config.Evidence.Arguments), Started: started, Now: a.Now, Random: rand.Reader, Log: a.Log,
	})
	if err == nil {
		i.known = append(i.known, p)
	}
	return p, err
}

// lifetimes are the other clocks of some agents.
func lifetimes(c config.AgentAuth) (out []provider.Lifetime) {
	for _, l := range c.Lifetimes {
		out = append(out, provider.Lifetime{
			Modes: l.Modes, Hosts: l.Hosts, Capabilities: l.Capabilities,
			Clocks: provider.Clocks{Session: l.SessionTTL, Maximum: l.MaximumLifetime, Absolute: l.AbsoluteLifetime},
		})
	}
	return out
}

// builtIn reports whether a principal is a built-in user, in experiments.
func (i *Instance) builtIn(dev bool) func(principal string) bool {
	return func(principal string) bool {
		return dev && slices.ContainsFunc(i.Config.Identity.Dev, func(u config.DevUser) bool { return "user:"+u.Name == principal })
	}
}

// budgets are those of a capability.
func budgets(c config.ProviderCapability) (provider.Budgets, error) {
	out := provider.Budgets{Uses: c.Uses, Sum: map[string]powerbox.Decimal{}}
	for field, v := range c.Sum {
		d, ok := v.Decimal()
		if !ok {
			return out, fmt.Errorf("sum.%s is %s; want a number", field, v.Kind())
		}
		out.Sum[field] = d
	}
	return out, nil
}

// keysPolicy is for key sets, whose addresses strangers choose: public ones over
// TLS, and in experiments those of this machine (AAP-N1).
func keysPolicy(dev bool) outbound.Policy {
	return outbound.Policy{AllowLoopback: dev, Timeout: 5 * time.Second, MaxBytes: 1 << 20}
}

// published fetches key sets.
type published struct{ client *outbound.Client }

// Get implements keysets.Getter.
func (p published) Get(ctx context.Context, address string) ([]byte, error) {
	data, _, err := p.client.Get(ctx, address, "application/jwk-set+json, application/json")
	return data, err
}

// backendContext signs the caller of a service behind the provider.
func (i *Instance) backendContext(agent string, now func() time.Time) func(provider.Execution, []byte) (string, error) {
	var contexts token.Contexts
	return func(e provider.Execution, body []byte) (string, error) {
		at := now()
		return contexts.Sign(i.keys(agent).Signer(), token.Context{
			Issuer: i.AgentURL(agent), Audience: agent, IssuedAt: at, Expires: at.Add(backendContext), Principal: e.User, Holder: e.Holder(),
			Capability: e.Grant, Root: e.Grant, Mode: string(gate.Require), Basis: string(gate.OnCapability), Decision: e.Decision,
			Authority: e.Under, Digest: token.DigestOf(body),
		})
	}
}

// person says who a person is by the session of a request. An agent is none, with
// whatever session (ATK-47, ATK-62).
func (i *Instance) person(_ *Wiring, url string, now func() time.Time) func(*http.Request) (people.Claim, error) {
	return func(r *http.Request) (people.Claim, error) {
		caller, err := i.sessions.Person(r, url, now())
		if err != nil {
			return people.Claim{}, err
		}
		fresh := !caller.Authenticated.IsZero() && now().Sub(caller.Authenticated) < i.Config.Approvals.Fresh
		return people.Claim{Principal: caller.Principal, Groups: caller.Groups, Login: people.BySession, Began: caller.Authenticated, Fresh: fresh}, nil
	}
}

// clean forgets requests that were never approved, now and again until ctx ends.
func (i *Instance) clean(ctx context.Context, p *provider.Provider, log *slog.Logger) {
	periodic.Run(ctx, cleaning, func(ctx context.Context) {
		if _, err := p.Clean(ctx); err != nil && !errors.Is(err, evidence.ErrNotWritten) && ctx.Err() == nil {
			log.WarnContext(ctx, "agents that no person approved are not forgotten", slog.Any("error", err))
		}
	})
}

// noChains is the resolver of a gate that takes capabilities on record alone.
type noChains struct{}

func (noChains) Resolve(context.Context, *gate.Call, gate.Presented, time.Time) (gate.Held, error) {
	return gate.Held{}, &gate.Refusal{Reasons: []evidence.Reason{{Code: gate.CodeCapabilityUnknown, Message: "token chains are not taken here"}}}
}

// unvetoed is the policy of grants that people have given. Policies are asked about the
// requests to an agent, and not about these grants.
type unvetoed struct{ digest func() string }

func (unvetoed) Veto(context.Context, *gate.Call, gate.Held) string { return "" }

func (u unvetoed) Digest() string { return u.digest() }
