package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/catalogue"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/gateway"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuer"
	"github.com/powerbox-project/powerbox/internal/keyring"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/policy"
	"github.com/powerbox-project/powerbox/internal/server"
	"github.com/powerbox-project/powerbox/internal/sqlite"
	"github.com/powerbox-project/powerbox/token"
)

// recorderID is the name under which one process writes its records.
const recorderID = "serve"

// Bounds of what one process remembers.
const (
	memoBytes     = 64 << 20
	replayEntries = 1 << 20
)

// instance is one running server: issuer, gateway and operator's interface
// over one store.
type instance struct {
	config  *config.Config
	ring    *keyring.Ring
	store   *sqlite.Store
	issuer  *issuer.Issuer
	gateway *gateway.Gateway
	admin   *server.Admin
	handler http.Handler
}

// assembly is what an instance is made of beside its configuration.
type assembly struct {
	config *config.Config
	dev    bool // admit the built-in users
	now    func() time.Time
	log    *slog.Logger
}

// assemble puts an instance together. Whatever is missing for security is an
// error here, before anything listens.
func assemble(ctx context.Context, a assembly) (*instance, error) {
	if len(a.config.Identity.Dev) > 0 && !a.dev {
		return nil, errors.New("identity.dev has built-in users; they are for experiments: remove them, or start with --dev")
	}
	i := &instance{config: a.config}
	var err error
	if i.ring, err = keyring.Open(filepath.Join(string(a.config.Issuer.Directory), "keys"), rand.Reader); err != nil {
		return nil, err
	}
	if err := i.open(ctx, a); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// Close ends the store.
func (i *instance) Close() error {
	if i.store == nil {
		return nil
	}
	return i.store.Close()
}

func (i *instance) open(ctx context.Context, a assembly) error {
	signer, recordKey, err := i.ring.Evidence(recorderID)
	if err != nil {
		return err
	}
	checkpoint, verifier, err := i.ring.Checkpoint(i.config.Evidence.Origin)
	if err != nil {
		return err
	}
	i.store, err = sqlite.Open(ctx, sqlite.Config{
		Path:   filepath.Join(string(i.config.Issuer.Directory), "powerbox.db"),
		Signer: signer, Origin: i.config.Evidence.Origin, Checkpoint: checkpoint, Random: rand.Reader,
	})
	if err != nil {
		return err
	}
	w, err := i.wire(ctx, a)
	if err != nil {
		return err
	}
	operator, err := i.ring.Secret("operator")
	if err != nil {
		return err
	}
	i.admin = &server.Admin{
		Issuer: i.issuer, Store: i.store, Exporter: i.store, Token: base64.RawURLEncoding.EncodeToString(operator),
		Keys: []evidence.Key{recordKey}, Now: a.now, Log: a.log, Can: w.can,
		Trust: evidence.Trust{CheckpointKeys: []string{verifier}, RecordKeys: []evidence.PinnedKey{{Key: recordKey, Agents: []string{"*"}}}},
	}
	for _, agent := range i.config.Agents {
		i.admin.Agents = append(i.admin.Agents, server.AgentStatus{ID: agent.ID, URL: i.agentURL(agent.ID), Upstream: agent.Upstream, Mode: agent.Mode})
	}
	return i.front(a, w)
}

func (i *instance) agentURL(id string) string {
	return strings.TrimSuffix(i.config.Issuer.URL, "/") + "/agents/" + id
}

// wiring is what issuer and gateway share.
type wiring struct {
	sealer  *catalogue.Sealer
	policy  issuerPolicy
	agents  []*issuer.Agent
	callers []config.CallerRule
	origins map[string]string // configured name of an agent by its holder id
	scopes  func(origin, agent string) powerbox.Authority
	caps    map[string]powerbox.Authority
	can     func(origin, agent string, attempt powerbox.Attempt) powerbox.Decision
	now     func() time.Time
}

func (i *instance) wire(ctx context.Context, a assembly) (*wiring, error) {
	w := &wiring{callers: i.config.Identity.Callers, origins: map[string]string{}, caps: map[string]powerbox.Authority{}, now: a.now}
	handleKey, err := i.ring.Secret("handles")
	if err != nil {
		return nil, err
	}
	if w.sealer, err = catalogue.NewSealer(handleKey); err != nil {
		return nil, err
	}
	for _, c := range i.config.Identity.Callers {
		w.origins[holderID(c)] = c.Agent
	}
	if w.agents, err = i.agents(); err != nil {
		return nil, err
	}
	if w.policy.engine, err = i.policies(w.agents); err != nil {
		return nil, err
	}
	if err := i.scopes(w); err != nil {
		return nil, err
	}
	pairwise, err := i.ring.Secret("pairwise")
	if err != nil {
		return nil, err
	}
	i.issuer, err = issuer.New(ctx, issuer.Config{
		Store: i.store, Policy: w.policy, Sealer: w.sealer, Agents: w.agents, Recorder: recorderID,
		Pairwise: pairwise, MaximumLifetime: i.config.Issuer.MaximumLifetime, Now: a.now, Random: rand.Reader, Log: a.log,
	})
	return w, err
}

// holderID is the holder that a rule of the configuration names.
func holderID(c config.CallerRule) string {
	switch {
	case c.Key != "":
		return "key:" + c.Key
	case c.Client != "":
		return "client:" + c.Client
	case c.MTLS != "":
		return "mtls:" + c.MTLS
	}
	return c.SPIFFE
}

// agents makes the issuer's view of the configured agents.
func (i *instance) agents() ([]*issuer.Agent, error) {
	var out []*issuer.Agent
	for _, c := range i.config.Agents {
		key, err := i.ring.Agent(c.ID)
		if err != nil {
			return nil, err
		}
		agent := &issuer.Agent{ID: c.ID, URL: i.agentURL(c.ID), Signer: key}
		for _, o := range i.config.Offers[c.ID] {
			agent.Grants = append(agent.Grants, issuer.Grant{
				ID: o.ID, Description: o.Description, Operations: o.Operations, Attenuable: o.Attenuable, Legacy: o.Legacy,
				Requires: o.Requires, MaximumLifetime: o.MaximumLifetime, MaximumDepth: o.MaximumDepth,
			})
		}
		for _, s := range i.config.Skills[c.ID] {
			shape, err := skillShape(s)
			if err != nil {
				return nil, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
			}
			agent.Skills = append(agent.Skills, issuer.Skill{
				Skill: s.Skill, Grant: s.Grant, Operation: s.Operation, Handle: s.Handle, Write: s.Effect != "read", Shape: shape,
			})
		}
		if agent.Resources, err = i.resources(c.ID); err != nil {
			return nil, err
		}
		out = append(out, agent)
	}
	return out, nil
}

// skillShape is the shape of a skill's arguments: those that are declared and
// no others; the handle alone where only that is known; any where nothing is.
func skillShape(s config.Skill) (powerbox.Shape, error) {
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

// declaredShape is what configuration says of a skill's arguments, for callers
// with a capability or without: the declared ones and no others, or any. That
// there is a handle binds only those who were given one.
func declaredShape(s config.Skill) (powerbox.Shape, error) {
	if len(s.Arguments) == 0 {
		return powerbox.AnyArguments(), nil
	}
	return skillShape(s)
}

func (i *instance) resources(agent string) ([]catalogue.Item, error) {
	r, ok := i.config.Resources[agent]
	if !ok {
		return nil, nil
	}
	if r.File != "" {
		data, err := os.ReadFile(string(r.File))
		if err != nil {
			return nil, fmt.Errorf("resources.%s: %w", agent, err)
		}
		return catalogue.Parse(string(r.File), data, agent)
	}
	inline := powerbox.Object(powerbox.Member{Name: "items", Value: powerbox.List(r.Items...)})
	return catalogue.Parse("resources."+agent, inline.AppendJSON(nil), agent)
}

// policies loads and checks the Cedar policies.
func (i *instance) policies(agents []*issuer.Agent) (*policy.Engine, error) {
	names, err := config.Files(i.config.Policies)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("policies: %w", err)
		}
	}
	v := policy.Vocabulary{Attributes: map[string]catalogue.Type{}}
	var items []catalogue.Item
	for _, a := range agents {
		items = append(items, a.Resources...)
		for _, o := range i.config.Offers[a.ID] {
			for _, op := range i.config.OperationsOf(a.ID, o) {
				v.Operations = append(v.Operations, issuer.Qualify(a.ID, o.ID, op))
			}
		}
	}
	if v.Collections, err = catalogue.Collections(items); err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	for _, u := range i.config.Identity.Dev {
		for name, value := range u.Attributes {
			if t, ok := catalogue.TypeOf(value); ok {
				v.Attributes[name] = t
			}
		}
	}
	return policy.Load(files, v)
}

// issuerPolicy lets the issuer ask the policy engine.
type issuerPolicy struct{ engine *policy.Engine }

func (p issuerPolicy) Permits(c identity.Caller, agent, grant, operation string, r *catalogue.Item) issuer.Ruling {
	a := p.engine.Permits(policy.Principal{ID: c.Principal, Groups: c.Groups, Roles: c.Roles, Attributes: c.Attributes},
		issuer.Qualify(agent, grant, operation), r, agent, grant)
	return issuer.Ruling{Allow: a.Allow, Policies: a.Policies, MaximumLifetime: a.MaximumLifetime, Approval: a.Approval}
}

func (p issuerPolicy) Digest() string { return p.engine.Digest() }

// scopes makes Scope(A) for every configured caller, and Caps(B) as far as the
// configuration tells it. Without a scopes section there is no Scope(A).
func (i *instance) scopes(w *wiring) error {
	made := map[string]powerbox.Authority{}
	nothing, err := standing(nil)
	if err != nil {
		return err
	}
	scope := func(origin, agent string) powerbox.Authority {
		if a, ok := made[origin+"\x00"+agent]; ok {
			return a
		}
		return nothing
	}
	for origin, agents := range i.config.Scopes {
		for agent, operations := range agents {
			names := slices.Clone(operations)
			for n := range names {
				names[n] = agent + "/" + names[n]
			}
			a, err := standing(names)
			if err != nil {
				return fmt.Errorf("scopes.%s.%s: %w", origin, agent, err)
			}
			made[origin+"\x00"+agent] = a
		}
	}
	for _, agent := range w.agents {
		a, err := agent.Caps(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			return err
		}
		w.caps[agent.ID] = a
	}
	if len(i.config.Scopes) > 0 {
		w.scopes = scope
	}
	w.can = func(origin, agent string, attempt powerbox.Attempt) powerbox.Decision {
		return powerbox.Decide(attempt, scope(origin, agent).Meet(w.caps[agent]), w.now())
	}
	return nil
}

// standing is an authority of exact operations with any arguments, together
// with what A2A does with the tasks that they start.
func standing(names []string) (powerbox.Authority, error) {
	var clauses []powerbox.Clause
	if len(names) > 0 {
		names = append(names, issuer.OperationMessage, issuer.OperationTaskRead, issuer.OperationTaskCancel, issuer.OperationPush, issuer.OperationCard)
	}
	for _, name := range names {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			return powerbox.Authority{}, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	return powerbox.NewAuthority(powerbox.Window{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, token.MaxDepth, clauses...)
}

// front makes the gateway and the handler of everything.
func (i *instance) front(a assembly, w *wiring) error {
	client := outbound.New(outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()})
	started, err := i.started(a)
	if err != nil {
		return err
	}
	believed, err := identity.Configured(i.config, identity.Surroundings{Read: os.ReadFile, Fetch: client, Dev: a.dev, Started: started})
	if err != nil {
		return err
	}
	auth, err := identity.New(believed)
	if err != nil {
		return err
	}
	g := &gate.Gate{
		Chains:      server.OnRecord{Resolver: gate.Chains{Memo: token.NewMemo(memoBytes), Revocations: i.issuer, Started: started}, Issuer: i.issuer},
		References:  server.OnRecord{Resolver: server.References{Issuer: i.issuer}, Issuer: i.issuer},
		Recorder:    server.Recorder{Store: i.store},
		Revocations: i.issuer,
		Policy:      server.Veto{Issuer: i.issuer},
		Replay:      gate.NewMemory(replayEntries),
		RecorderID:  recorderID,
		NewID:       func() (string, error) { return i.issuer.NewID("rec_") },
		Now:         a.now, Log: a.log,
	}
	c := gateway.Config{
		Gate: g, Identity: auth, Tasks: server.Tasks{Store: i.store, Issuer: i.issuer},
		Issuing:   server.Issuing{Issuer: i.issuer, Recipient: w.recipient},
		Resources: server.Resources{Issuer: i.issuer, Sealer: w.sealer},
		Cards:     client, Transport: client.Transport(),
		Mode: i.admin.Mode, Origin: func(holder string) string { return w.origins[holder] }, Scope: w.scopes,
		Pseudonym: i.issuer.Pseudonym, Redact: redaction(i.config.Evidence.Arguments),
		BodyLimit: int(i.config.Defaults.BodyLimit), Rate: i.config.Defaults.RequestRate, Now: a.now, Log: a.log,
	}
	for n, agent := range i.config.Agents {
		front, err := i.gatewayAgent(agent, w.agents[n])
		if err != nil {
			return err
		}
		c.Agents = append(c.Agents, front)
	}
	if i.gateway, err = gateway.New(c); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/agents/", i.gateway)
	mux.Handle("/v1/", i.admin.Handler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { i.ready(w, r, a.now().Before(started)) })
	i.handler = mux
	return nil
}

// started is from when on proofs are believed. Proofs have whole seconds: after
// a restart those of the running second may have been used before it, so they
// are refused too.
func (i *instance) started(a assembly) (time.Time, error) {
	empty, err := i.store.Empty(context.Background())
	if empty || err != nil {
		return a.now(), err
	}
	return a.now().Add(time.Second), nil
}

// ready says whether calls can be decided and recorded. Early is the time after
// a restart in which proofs are still refused.
func (i *instance) ready(w http.ResponseWriter, r *http.Request, early bool) {
	if early {
		http.Error(w, "proofs of this second may have been used before the restart", http.StatusServiceUnavailable)
		return
	}
	err := i.store.View(r.Context(), func(rd issuer.Reader) error {
		_, err := rd.Revocations(i.issuer.RevocationSequence())
		return err
	})
	if err != nil {
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// recipient is the holder that a configured agent is: the first that the
// configuration names.
func (w *wiring) recipient(agent string) (identity.Holder, bool) {
	for _, c := range w.callers {
		if c.Agent == agent {
			return identity.Holder{ID: holderID(c)}, true
		}
	}
	return identity.Holder{}, false
}

func (i *instance) gatewayAgent(c config.Agent, agent *issuer.Agent) (gateway.Agent, error) {
	// With names, so that a token that names another key is told from a broken
	// one (SEP-11).
	keys, err := token.ParseKeySet(token.JWKS(agent.Signer.Public()).AppendJSON(nil))
	if err != nil {
		return gateway.Agent{}, err
	}
	out := gateway.Agent{
		ID: c.ID, URL: agent.URL, Upstream: c.Upstream, Keys: keys, Signer: agent.Signer,
		Skills: map[string]gateway.Skill{}, EnforcesContext: c.Enforces == "context", AdmitFreeText: c.AdmitFreeText == "unsafe",
		RefuseAmbient: c.RefuseUndeclared, Canary: c.Canary, DenyStatus: c.DenyStatus, InvokeNative: c.Invoke == "native",
		Methods: c.UnknownMethods, LegacyMember: c.CardLegacyMember,
	}
	for _, root := range c.TrustRoots {
		data, err := os.ReadFile(string(root.JWKSFile))
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
	for _, s := range i.config.Skills[c.ID] {
		op, err := powerbox.ParseOperation(issuer.Qualify(c.ID, s.Grant, s.Operation))
		if err != nil {
			return gateway.Agent{}, err
		}
		shape, err := declaredShape(s)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
		}
		out.Skills[s.Skill] = gateway.Skill{Operation: op, Handle: s.Handle, Write: s.Effect != "read", Shape: shape}
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

// redaction returns what records keep of arguments: nothing, everything, or
// their names with the kind of each value.
func redaction(how string) func(powerbox.Value) []byte {
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
