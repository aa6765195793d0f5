package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/web/api"
	oauthweb "github.com/powerbox-project/powerbox/internal/web/oauth"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// authenticate makes the authenticator of callers.
func (i *Instance) authenticate(a Assembly, client *outbound.Client, started time.Time) error {
	var err error
	if i.workloads, err = FollowDomains(i.Config, Following{Read: os.ReadFile, Now: a.Now, Log: a.Log}); err != nil {
		return err
	}
	believed, err := identity.Configured(i.Config, identity.Surroundings{
		Read: os.ReadFile, Fetch: client, FetchWith: FetchWith, Domains: i.workloads.Believed(), Dev: a.Dev, Started: started,
	})
	if err != nil {
		return err
	}
	if believed.Issued, err = i.issuesTokens(); err != nil {
		return err
	}
	believed.Replay = i.sharedReplays("session proof")
	own, err := i.ownTokens()
	if err != nil {
		return err
	}
	believed.Own = ServerTakes(own)
	if i.sessions, err = identity.New(believed); err != nil {
		return err
	}
	for _, s := range append(i.workloads.Sources, KeySources(i.Config, i.sessions)...) {
		i.Rereads.Add(s)
	}
	if i.before == nil {
		return nil
	}
	return i.sessions.Restore(i.before.Callers, a.Now())
}

// front makes the gateway, and then the handler of everything.
func (i *Instance) front(ctx context.Context, a Assembly, w *Wiring) error {
	dial := i.Config.Limits.DependencyTime
	client, strangers := outbound.New(dialled(outbound.Configured(), dial)), outbound.New(dialled(outbound.Strangers(), dial))
	started, err := i.started(ctx, a)
	if err != nil {
		return err
	}
	i.began = started
	if err := i.authenticate(a, client, started); err != nil {
		return err
	}
	chains := gate.Chains{Memo: token.NewMemo(MemoBytes), Revocations: i.Issuer, Started: started, Drafts: DraftsOf(i.Config)}
	g := &gate.Gate{
		Chains:     api.OnRecord{Resolver: chains, Issuer: i.Issuer},
		References: api.OnRecord{Resolver: api.References{Issuer: i.Issuer}, Issuer: i.Issuer},
		Scopes: api.OnRecord{Issuer: i.Issuer, Resolver: gate.Scopes{
			Records: api.ScopeRecords{Issuer: i.Issuer}, Revocations: i.Issuer, MaxLifetime: i.Config.Issuer.MaximumLifetime,
		}},
		Nonces:      api.Nonces{Store: i.Store},
		Recorder:    api.Recorder{Store: i.Store},
		Revocations: i.Issuer,
		Policy:      api.Veto{Issuer: i.Issuer},
		Replay:      i.replays("proof"),
		Standing:    i.scores,
		RecorderID:  RecorderID,
		NewID:       func() (string, error) { return i.Issuer.NewID("rec_") },
		Now:         a.Now, Log: a.Log,
		Behind: Behind(i.Config),
	}
	i.gate = g
	i.Admin.Unrecorded = func() map[string]int64 {
		_, untold := g.Unrecorded()
		return untold
	}
	i.agreed = &registry.Agreed{Store: i.Store, Stop: i.Issuer.StopCard, Go: i.Issuer.GoCard, Current: i.Issuer.KnowCard}
	c := gateway.Config{
		Gate: g, Identity: i.sessions, Tasks: api.Tasks{Store: i.Store, Issuer: i.Issuer},
		Issuing:   api.Issuing{Issuer: i.Issuer, Recipient: w.recipient},
		Resources: api.Resources{Issuer: i.Issuer, Sealer: w.sealer}, Asking: gateway.Asking{Holds: i.holds(), Asks: i.toolAsks()}, Cards: client,
		Network: Network(client, strangers),
		Answers: gateway.Answers{
			CardSeen: i.agreed.Seen, Vouches: chains.Vouches, Mode: i.mode, ModeSet: i.Admin.ModeSet, Origin: w.Force.Origin, Scope: w.Force.Scope, Plans: w.Force.Plans,
			ByPolicy: i.byPolicy, Given: api.References{Issuer: i.Issuer}.Given, Data: i.dataOf(a.Now), Pseudonym: i.Issuer.Pseudonym, Redact: Redaction(i.Config.Evidence.Arguments),
			Receipt: i.Admin.Receipt,
		},
		Limits: LimitsOf(i.Config, i.queue), Pages: w.pages, Now: a.Now, Log: a.Log,
	}
	if i.telemetry != nil {
		c.Observer, g.Took = i.telemetry, i.telemetry.Took
	}
	if c.Agents, err = i.gatewayAgents(w.Force.Now.Load().agents, func(string) bool { return false }); err != nil {
		return err
	}
	if i.gateway, err = gateway.New(c); err != nil {
		return err
	}
	return errors.Join(i.grpcFronts(), i.openDoors(a.Log), i.serveOn(ctx, a, w, started, g))
}

// Behind is where outcomes are recorded behind answers, nil if the operator did not choose
// so.
func Behind(c *config.Config) *gate.Behind {
	if c.Evidence.Outcome != "behind" {
		return nil
	}
	return &gate.Behind{}
}

// byPolicy returns the authority that policy gives a caller without a capability.
func (i *Instance) byPolicy(_ context.Context, agent string, caller identity.Caller) (powerbox.Authority, error) {
	return i.Issuer.ByPolicy(agent, caller), nil
}

// grpcFronts notes where the gRPC of each agent is taken.
func (i *Instance) grpcFronts() error {
	for _, agent := range i.Config.Agents {
		if agent.GRPC.Listen == "" || agent.GatewayURL != "" {
			continue
		}
		handler, err := i.gateway.GRPC(agent.ID)
		if err != nil {
			return err
		}
		i.grpc = append(i.grpc, grpcFront{agent.ID, agent.GRPC.Listen, agent.GRPC.Address, i.caughtUp(handler)})
	}
	return nil
}

// serveOn makes the handler of everything.
func (i *Instance) serveOn(ctx context.Context, a Assembly, w *Wiring, started time.Time, g *gate.Gate) error {
	publisher, err := feed.NewPublisher(feed.PublisherConfig{
		Source: api.Events{Issuer: i.Issuer, Store: i.Store}, Key: i.feedKey, Issuer: i.Config.Issuer.URL,
		Heartbeat: i.Config.Issuer.Feed.Heartbeat, Streams: i.Config.Issuer.Feed.Streams, Done: ctx.Done(), Now: a.Now, Log: a.Log,
	})
	if err != nil {
		return fmt.Errorf("issuer.feed: %w", err)
	}
	apart, err := i.apart(ctx, a, started)
	if err != nil {
		return err
	}
	relays, err := i.relayTokens()
	if err != nil {
		return err
	}
	may := func(r *http.Request) (context.Context, bool) {
		if ctx, ok := i.Admin.MayFollow(r); ok {
			return ctx, true
		}
		if relays.Shown(r) {
			return r.Context(), true
		}
		return apart.MayFollow(r)
	}
	mux := http.NewServeMux()
	mux.Handle("/agents/", i.here(i.gateway))
	mux.HandleFunc("GET /agents/{agent}/.well-known/recorders.json", i.Admin.Recorders)
	mux.Handle("GET "+feed.PathEvents, api.Feed(publisher, may))
	mux.Handle("GET "+feed.PathSnapshot, api.Feed(publisher, may))
	mux.Handle("POST /v1/gateway/", apart.Handler())
	mux.Handle("POST "+link.PathShip, apart.Handler())
	mux.Handle("GET "+api.PathStatusLists+"{agent}", i.Admin.StatusLists())
	mux.Handle("POST "+api.PathStatusLists+"{agent}", i.standing(a, w, g))
	listed, err := i.list(ctx, a)
	if err != nil {
		return err
	}
	mux.Handle("/v1/registry/", i.inTime(api.Late(a.Log), listed))
	mux.HandleFunc("GET "+api.PathLogin, i.Admin.LoginInfo)
	mux.Handle("/v1/", i.inTime(api.Late(a.Log), i.Admin.Handler()))
	decisions, err := i.decisions(a, w, g)
	if err != nil {
		return err
	}
	mux.Handle("POST /access/v1/", decisions.Handler())
	mux.Handle("GET /access/v1/", decisions.Handler())
	mux.Handle("GET "+api.PathAuthZEN, decisions.Handler())
	mux.HandleFunc("GET /checkpoint", i.public.Checkpoint)
	mux.HandleFunc("GET /tile/", i.public.Tile)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { i.ready(w, r, a.Now().Before(started)) })
	i.Handler = i.caughtUp(mux)
	if err := i.provide(ctx, a, w, mux, started, g); err != nil {
		return err
	}
	return i.follow(ctx, a, apart)
}

// started is from when on proofs are believed. Proofs have whole seconds: after
// a restart those of the running second may have been used before it, so they
// are refused too. Those of nodes that share a store are remembered in it, whichever of
// them begins, unless it was copied from one that does not remember them.
func (i *Instance) started(ctx context.Context, a Assembly) (time.Time, error) {
	switch {
	case i.shared != nil:
		copied, err := i.shared.Copied(ctx)
		if err != nil || copied.IsZero() {
			return time.Unix(0, 0), err
		}
		return copied.Add(time.Second), nil
	case i.unused:
		return a.Now(), nil
	}
	var err error
	if i.before, err = TakeUsed(string(i.Config.Issuer.Directory), a.Now(), a.Log); err != nil {
		return time.Time{}, err
	}
	if i.before != nil {
		return i.before.Began, nil
	}
	return a.Now().Truncate(time.Second).Add(time.Second), nil
}

// ready says whether calls can be decided and recorded. Early is the time after
// a restart in which proofs are still refused.
func (i *Instance) ready(w http.ResponseWriter, r *http.Request, early bool) {
	var answer serve.Readiness
	defer func() { answer.Write(w) }()
	if i.gateway.Draining() {
		answer.Unready("server", "it is being stopped")
		return
	}
	if early {
		answer.Unready("proofs", "proofs of this second may have been used before the restart")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), serve.TryTime)
	defer cancel()
	written := i.writes.Look(ctx)
	// If the operator lets calls continue without a record, they can be sent here.
	if _, untold := i.gate.Unrecorded(); len(untold) > 0 {
		answer.Status = "degraded"
		answer.Reasons = append(answer.Reasons, serve.DegradedBy{Dependency: "evidence", Reason: "calls continue without a record at " + strings.Join(slices.Sorted(maps.Keys(untold)), ", ")})
		return
	}
	if answer.By(written); written != nil {
		return
	}
	err := i.Store.View(ctx, func(rd issuer.Reader) error {
		_, err := rd.Revocations(i.Issuer.RevocationSequence())
		return err
	})
	if err == nil && i.shared != nil {
		err = errors.Join(i.follower.CatchUp(ctx), i.shared.Durable(ctx))
	}
	switch {
	case errors.Is(err, postgres.ErrNotDurable):
		answer.Unready("store", "the database does not replicate as store.durability: strict wants it")
	case err != nil:
		answer.Unready("store", "the store does not answer")
	}
}

// pushAddress says why events may not be posted to an address.
func pushAddress(ctx context.Context, address string, private bool) error {
	return pushPolicy(private).Check(ctx, address)
}

func pushPolicy(private bool) outbound.Policy {
	if private {
		return outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()}
	}
	return outbound.Policy{}
}

// poster posts events, under the policy that their addresses are checked by.
func poster() func(ctx context.Context, address string, private bool, header http.Header, body []byte) (int, error) {
	clients := map[bool]*outbound.Client{false: outbound.New(pushPolicy(false)), true: outbound.New(pushPolicy(true))}
	return func(ctx context.Context, address string, private bool, header http.Header, body []byte) (int, error) {
		return clients[private].Deliver(ctx, address, header, body)
	}
}

// recipient is the holder that a configured agent is: the first that the
// configuration names.
func (w *Wiring) recipient(agent string) (identity.Holder, bool) {
	for _, c := range w.Force.Now.Load().config.Identity.Callers {
		if holder, err := c.Holder(); err == nil && c.Agent == agent && !c.Open() {
			return identity.Holder{ID: holder}, true
		}
	}
	return identity.Holder{}, false
}

// Network is how a gateway reaches agents, and hosts that only their cards name.
func Network(agents, strangers *outbound.Client) gateway.Network {
	return gateway.Network{
		Transport: agents.Transport(), HTTP2: agents.HTTP2(), Public: strangers.Transport(), PublicHTTP2: strangers.HTTP2(),
		PushAddress: pushAddress, PushPost: poster(),
	}
}

// QueueOf is where the calls of one process wait to be decided.
func QueueOf(c config.Limits, now func() time.Time) *shed.Queue {
	places := c.Deciding
	if places == 0 {
		places = max(minPlaces, placesEach*runtime.GOMAXPROCS(0))
	}
	return shed.New(shed.Config{Places: places, Wait: c.QueueTime, Now: now})
}

// The places of a queue where none are configured: as many as keep the processors and a
// slow disk busy.
const minPlaces, placesEach = 128, 32

// issuePatience is longer than the store itself waits, so that its own answer comes first
// where it has one: a request makes several changes, and asks more than the store.
func issuePatience(dependency time.Duration) time.Duration { return 2*dependency + time.Second }

// inTime has an entrance of operators, people or agents of Agent Auth answer in time when
// the store hangs: with late, which says so. Calls through the gateway have a deadline of
// their own.
func (i *Instance) inTime(late http.HandlerFunc, next http.Handler) http.Handler {
	return shed.Deadline(issuePatience(i.Config.Limits.DependencyTime), late, next)
}

// LimitsOf returns the limits on the callers of a gateway.
func LimitsOf(c *config.Config, q *shed.Queue) gateway.Limits {
	return gateway.Limits{
		Queue: q, Patience: issuePatience(c.Limits.DependencyTime),
		BodyLimit: int(c.Defaults.BodyLimit), BodyTime: c.Limits.BodyTime, Streams: c.Limits.Streams, Denials: c.Limits.Denials, Rate: c.Defaults.RequestRate,
	}
}

// checkHeaders wants headers that can pass to an agent.
func checkHeaders(c config.Agent) error {
	for _, name := range c.Headers {
		if err := gateway.CheckHeader(name); err != nil {
			return fmt.Errorf("agents: %s: headers: %q: %w", c.ID, name, err)
		}
	}
	return nil
}

// frontOf returns the settings of an agent's gateway that its configuration alone
// decides.
func frontOf(c config.Agent, agent *issuer.Agent) gateway.Agent {
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
			Degraded: gate.Degraded{Reads: c.Degraded.Calls == "reads", For: c.Degraded.For}, Yields: labelOf(c.ID, c.Yields),
		},
		Events: gateway.Events{PushHosts: c.Push.Hosts, PushPrivate: c.Push.Private, Relay: gateway.Relay{On: c.Push.Relay, Via: c.Push.RelayVia}},
	}
}

// GatewayAgent is a configured agent as the gateway takes it.
func (i *Instance) GatewayAgent(c config.Agent, agent *issuer.Agent) (gateway.Agent, error) {
	if err := checkHeaders(c); err != nil {
		return gateway.Agent{}, err
	}
	out := frontOf(c, agent)
	if slices.Contains(i.Config.OAuth.Agents, c.ID) {
		out.Metadata = oauthweb.ResourceMetadata(agent.URL)
	}
	var err error
	if out.Scopes, err = i.scopesOf(c); err != nil {
		return gateway.Agent{}, err
	}
	if err := i.behind(c, &out); err != nil {
		return gateway.Agent{}, err
	}
	if out.MCP, err = mcpOf(c); err != nil {
		return gateway.Agent{}, fmt.Errorf("agents, %s: %w", c.ID, err)
	}
	for _, root := range c.TrustRoots {
		data, err := i.readFile(string(root.JWKSFile))
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
	for _, s := range i.Config.Skills[c.ID] {
		op, err := powerbox.ParseOperation(issuer.Qualify(c.ID, s.Grant, s.Operation))
		if err != nil {
			return gateway.Agent{}, err
		}
		shape, err := declaredShape(s)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
		}
		out.Skills[s.Skill] = gateway.Skill{Operation: op, Handle: s.Handle, Write: s.Effect != "read", Shape: shape, Trust: trust.Level(s.Trust), Approval: s.Approval, Flow: i.flowOf(c.ID, s)}
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

// readFile reads a file that the configuration refers to.
func (i *Instance) readFile(name string) ([]byte, error) {
	if i.Read != nil {
		return i.Read(name)
	}
	return os.ReadFile(name)
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
func (i *Instance) behind(c config.Agent, out *gateway.Agent) error {
	rules, err := modeRules(c)
	if err != nil {
		return err
	}
	out.Modes = rules
	if err := i.ownUpstream(c, out); err != nil {
		return err
	}
	if out.Credential, err = i.credential(c); err != nil {
		return err
	}
	if c.CardPin != "" {
		data, err := i.readFile(string(c.CardPin))
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
	data, err := i.readFile(string(c.CardKeys))
	if err == nil {
		out.CardKeys, err = agentcard.ParseKeys(data)
	}
	if err != nil {
		return fmt.Errorf("agents, %s, card_keys: %w", c.ID, err)
	}
	return nil
}

// Redaction returns the function that makes the recorded form of arguments: nothing,
// everything, or their names with the kind of each value.
func Redaction(how string) func(powerbox.Value) []byte {
	switch how {
	case "none":
		return func(powerbox.Value) []byte { return nil }
	case "full":
		return func(v powerbox.Value) []byte { return v.AppendJSON(nil) }
	}
	return func(v powerbox.Value) []byte {
		members, _ := v.Members()
		kinds := make([]powerbox.Member, len(members))
		for n, m := range members {
			kinds[n] = powerbox.Member{Name: m.Name, Value: powerbox.String(m.Value.Kind().String())}
		}
		return powerbox.Object(kinds...).AppendJSON(nil)
	}
}

// evidenceFormats are those in which the evidence of an agent can be had: its chain
// of records (EXT-21 to EXT-23), a proof of one record in the log (C2SP tlog-proof),
// and lines in the shape of OCSF.
var evidenceFormats = []string{"evidence-record-chain", "ocsf", "tlog-proof"}

// scopesOf are the parameters of the authorization extension of an agent.
func (i *Instance) scopesOf(c config.Agent) (gateway.Scopes, error) {
	a := c.Authorization
	out := gateway.Scopes{
		Model: a.Model, Required: a.RequiredScopes, Delegation: a.Delegation, MaxDepth: a.MaxDepth, Evidence: a.EvidenceRequired,
		Lifetime: i.Config.Issuer.MaximumLifetime, Revocation: api.StatusAddress(i.Config.Issuer.URL, c.ID),
	}
	known := map[string]string{}
	for _, o := range i.Config.Offers[c.ID] {
		for _, op := range i.Config.OperationsOf(c.ID, o) {
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
