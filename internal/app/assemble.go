// Package app puts a server together from its configuration, and runs it. It is larger than other packages
// since it knows every part: each file makes one of them and says what it hands to the others.
package app

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/telemetry"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// RecorderID is the name under which one process writes its records.
const RecorderID = "serve"

// Instance is one running server: issuer, gateway and operator's interface
// over one store.
type Instance struct {
	// The configuration is as the server started.
	proxy.Proxy
	Force    activeConfig // the parts that a reload replaces
	reloads  *reloader
	Ring     *keyring.Ring
	Store    storage
	writes   *serve.Dependency    // of the store
	shared   *postgres.Store      // the same where other processes have it, too; nil for a file
	follower *api.Follower        // of the writes of other nodes; nil for a file
	known    []*provider.Provider // that remember the agents that they read
	Issuer   *issuer.Issuer
	gate     *gate.Gate
	gateway  *gateway.Gateway
	sessions *identity.Authenticator
	// workloads are the trust domains of SPIFFE; nil until callers can be told.
	workloads *proxy.TrustDomains
	Admin     *api.Admin
	// operatorToken is the shared token, which is no session also where it is switched off.
	operatorToken string
	feedKey       signed.Key
	Handler       http.Handler
	public        *api.Public
	asker         *witness.Asker // nil without witnesses
	grpc          []grpcFront
	// Doors are where other gateways ask for decisions.
	Doors []DoorFront
	// queue is where calls wait to be decided.
	queue *shed.Queue
	// telemetry is nil where nothing is counted, traced or sent.
	telemetry *telemetry.Telemetry
	scores    *api.Scores
	agreed    *registry.Agreed
	cards     registry.CardReader // that the pages read
	administering
	unused bool         // nothing had been recorded when it was opened
	live   *liveSources // of collections that other systems have

	desk     *approval.Desk     // nil where nothing is left to people
	told     *approval.Webhooks // nil without webhooks
	leave    context.CancelFunc // ends the attended tasks; nil without any
	attended []<-chan struct{}

	began    time.Time               // since when used proofs are remembered
	before   *proxy.UsedProofs       // those of the process before this one; nil for none
	memories map[string]*gate.Memory // of used proofs, by kind
}

// administering is about the people who administer the server.
type administering struct {
	// pages is the console.
	pages http.Handler
	// invitation is the message to the first administrator, "" where there is one.
	invitation string
	// seen are those who came since the start, some of them by a group.
	seen people.Administrators
}

// New returns an instance that has its configuration alone.
func New(c *config.Config, now func() time.Time) *Instance {
	i := &Instance{Proxy: proxy.Proxy{Config: c, Now: now}}
	i.Consented = i.consented
	return i
}

// grpcFront is where the gRPC of one agent is taken.
type grpcFront struct {
	agent, listen, address string
	handler                http.Handler
}

// Assembly is the input of an instance beside its configuration.
type Assembly struct {
	Config *config.Config
	Dev    bool // admit the built-in users
	// newStore begins a store for keys that have been used with another one.
	NewStore bool
	Replaced *Replacement                   // a key that is replaced; nil for none
	Reload   func() (*config.Config, error) // reads the configuration again; nil where that cannot be done
	Now      func() time.Time
	Log      *slog.Logger
	Notes    io.Writer // standard error, for messages that a person reads at the start
}

// Assemble puts an instance together. Whatever is missing for security is an
// error here, before anything listens.
func Assemble(ctx context.Context, a Assembly) (*Instance, error) {
	if len(a.Config.Identity.Dev) > 0 && !a.Dev {
		return nil, errors.New("identity.dev has built-in users; they are for experiments: remove them, or start with --dev")
	}
	i := New(a.Config, a.Now)
	i.queue = proxy.QueueOf(a.Config.Limits, a.Now)
	var err error
	if i.Ring, err = proxy.OpenRing(KeysOf(a.Config), a.Now); err != nil {
		return nil, err
	}
	i.Ring.Advice = AdviseReplacing
	if a.Replaced != nil {
		i.Ring.Replace(a.Replaced.File, a.Now())
	}
	if err := i.open(ctx, a); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

func (i *Instance) open(ctx context.Context, a Assembly) error {
	used, err := i.Ring.InUse() // before they are
	if err != nil {
		return err
	}
	if i.telemetry, err = serve.NewTelemetry(ctx, i.Config.Telemetry); err != nil {
		return err
	}
	a.Log = i.telemetry.Log(a.Log)
	i.live = &liveSources{log: a.Log}
	i.Ring.Hold()
	signer, recordKey, err := i.Ring.Evidence(i.Config.Evidence.Algorithm, RecorderID)
	if err != nil {
		return err
	}
	checkpoint, verifier, err := i.Ring.Checkpoint(i.Config.Evidence.Origin)
	if err != nil {
		return err
	}
	if err := i.openStore(ctx, a, used && !a.NewStore, signer, checkpoint); err != nil {
		return i.explainKey(err)
	}
	if err := i.expectKeys(ctx, a.Replaced); err != nil {
		return err
	}
	// Every key is there before the first record, by which a store is told from a new one.
	if i.feedKey, err = i.Ring.Feed(); err != nil {
		return err
	}
	// Before anything is recorded: a store that was rolled back must not continue.
	// Witnesses do not know a replacement key yet: the next start asks them.
	if err := i.watched(ctx, verifier, a.replacesCheckpoint(), a.Log); err != nil {
		return err
	}
	w, err := i.wire(ctx, a)
	if err != nil {
		return err
	}
	own, err := i.ownRecorders(ctx, recordKey)
	if err != nil {
		return err
	}
	operator, err := i.Ring.Secret("operator")
	if err != nil {
		return err
	}
	i.operatorToken = base64.RawURLEncoding.EncodeToString(operator)
	i.Admin = i.admin(a, w, own, verifier)
	if err := i.Admin.Check(); err != nil {
		return err
	}
	i.scores = &api.Scores{Log: i.Store, Agents: i.agentNames, Named: i.named, Now: a.Now, Slog: a.Log}
	if !i.asksTrust() { // where a level decides calls, every start looks at every record
		i.scores.Kept, i.scores.Seal = i.Store, w.ledger
	}
	i.Admin.Scores, i.Admin.AsksTrust = i.scores, i.asksTrust()
	i.Admin.Live = &api.Live{Log: i.Store, Place: i.Store.Place, Head: i.public.Head, Done: ctx.Done()}
	i.Admin.Activity = &api.Activity{Log: i.Store, Head: i.public.Head, Now: a.Now}
	if err := i.knowScores(ctx); err != nil {
		return err
	}
	if err := errors.Join(i.watch(a.Log), i.front(ctx, a, w), i.keepKeys(ctx, a.Replaced), i.attend(ctx, a)); err != nil {
		return err
	}
	i.reloads = &reloader{load: a.Reload, now: a.Now, i: i, log: a.Log}
	return nil
}

// admin is the operators' interface, without what follows the log.
func (i *Instance) admin(a Assembly, w *Wiring, own []evidence.PinnedKey, verifier string) *api.Admin {
	return &api.Admin{
		Issuer: i.Issuer, Store: i.Store, Exporter: i.Store, Public: i.public,
		URL: i.Config.Issuer.URL, FeedKey: i.feedKey.Public(), Keys: keysOf(own), Now: a.Now, Log: a.Log, Can: w.can, Callers: w.Force, Policies: i.otherPolicies(), PolicyTests: i.policyTests, PolicyFiles: func() map[string][]byte { return i.Force.Now.Load().files }, Issuing: i.issuingKeys, Drafts: proxy.DraftsOf(i.Config), Agents: i.agentStatuses, Mode: i.mode, Looked: i.looked, Delegations: i.delegations, Witnesses: i.witnesses, MaximumLifetime: i.Config.Issuer.MaximumLifetime,
		Reload:    func(ctx context.Context, by string) (api.Reloaded, error) { return i.reloads.reload(ctx, by) },
		Trust:     evidence.Trust{Batches: i.Config.Evidence.Signatures == "batch", CheckpointKeys: []string{verifier}, RecordKeys: own},
		Operators: i.operators(a, i.operatorToken),
	}
}

// knowScores has nothing decided by scores that are not known yet.
func (i *Instance) knowScores(ctx context.Context) error {
	if !i.asksTrust() {
		return nil
	}
	if err := i.scores.Update(ctx); err != nil {
		return fmt.Errorf("the scores of agents: %w", err)
	}
	return nil
}

// issuingKeys are the issuing keys of an agent.
func (i *Instance) issuingKeys(agent string) (*keyring.Issuing, bool) {
	keys := i.keys(agent)
	return keys, keys != nil
}

// agentNames are the agents that there are now.
func (i *Instance) agentNames() (names []string) {
	for _, agent := range i.current().Agents {
		names = append(names, agent.ID)
	}
	return names
}

// agentStatuses are the agents that there are now, as operators see them.
func (i *Instance) agentStatuses() (all []api.AgentStatus) {
	agents := i.current().Agents
	for n := range agents {
		agent := &agents[n]
		status := api.AgentStatus{ID: agent.ID, URL: i.URLOf(agent), Upstream: agent.Upstream, Mode: agent.Mode, Canary: agent.Canary, Kind: agent.Protocol}
		if len(agent.AgentAuth.Capabilities) > 0 {
			status.Kind = "agent_auth"
		}
		if agent.Degraded.Calls != "none" {
			status.Degraded = agent.Degraded.Calls
		}
		for _, r := range agent.Modes {
			status.Rules = append(status.Rules, api.ModeRule(r))
		}
		all = append(all, status)
	}
	return all
}

// asksTrust reports whether anything here needs a level of trust.
func (i *Instance) asksTrust() bool {
	for _, agent := range i.Config.Agents {
		if agent.Trust != "" || slices.ContainsFunc(i.Config.Skills[agent.ID], func(s config.Skill) bool { return s.Trust != "" }) {
			return true
		}
	}
	return false
}

// AgentURL is the public URL of a configured agent at the gateway.
func (i *Instance) AgentURL(id string) string {
	if c := i.configured(id); c != nil {
		return i.URLOf(c)
	}
	return i.URLOf(&config.Agent{ID: id})
}

// configured returns the configuration of an agent, nil for none. It copies nothing: the
// gateway asks for every call, and pages ask for every agent.
func (i *Instance) configured(id string) *config.Agent {
	if f := i.Force.Now.Load(); f != nil {
		return f.byID[id]
	}
	n := slices.IndexFunc(i.Config.Agents, func(c config.Agent) bool { return c.ID == id })
	if n < 0 {
		return nil
	}
	return &i.Config.Agents[n]
}

// mode returns the mode that is in force for an agent: the one that an operator set, and
// otherwise the configured one.
func (i *Instance) mode(_ context.Context, agent string) (gate.Mode, error) {
	set := i.Issuer.Mode(agent)
	if c := i.configured(agent); c != nil && set == "" {
		set = c.Mode
	}
	return gate.ParseMode(set)
}

// Wiring is the state that issuer and gateway share.
type Wiring struct {
	sealer *catalogue.Sealer
	pages  cipher.AEAD
	ledger cipher.AEAD // seals what the scores keep
	Force  *activeConfig
	can    func(origin, agent string, attempt powerbox.Attempt) []evidence.Reason
	Now    func() time.Time
}

func (i *Instance) wire(ctx context.Context, a Assembly) (*Wiring, error) {
	w := &Wiring{Force: &i.Force, Now: a.Now}
	handleKey, err := i.Ring.Secret("handles")
	if err != nil {
		return nil, err
	}
	if w.sealer, err = catalogue.NewSealer(handleKey); err != nil {
		return nil, err
	}
	if w.pages, err = proxy.SealerFor(handleKey, "powerbox tokens of pages"); err != nil {
		return nil, err
	}
	if w.ledger, err = proxy.SealerFor(handleKey, "powerbox ledger of scores"); err != nil {
		return nil, err
	}
	agents, issuing, err := i.agents(a.Now, nil)
	if err != nil {
		return nil, err
	}
	first, err := i.inForce(agents, issuing)
	if err != nil {
		return nil, err
	}
	i.Force.Now.Store(first)
	w.can = func(origin, agent string, attempt powerbox.Attempt) []evidence.Reason {
		now := w.Force.Now.Load()
		return gate.OnScope(attempt, now.At(origin, agent), now.caps[agent], w.Now())
	}
	pairwise, err := i.Ring.Secret("pairwise")
	if err != nil {
		return nil, err
	}
	i.Issuer, err = issuer.New(ctx, issuer.Config{
		Store: i.Store, Policy: w.Force, Asker: i.askers(a, w), Sealer: w.sealer, Agents: agents, Callers: w.Force.callerNames, Origin: w.Force.Origin, Recorder: RecorderID, Algorithm: i.Config.Evidence.Algorithm,
		Stale: i.stale(), Pairwise: pairwise, MaximumLifetime: i.Config.Issuer.MaximumLifetime, Draft: issuedDraft(i.Config), Strict: i.Config.Issuer.TokenStrict, Now: a.Now, Random: rand.Reader, Log: a.Log,
	})
	if err != nil {
		return nil, err
	}
	return w, i.recordKeys(ctx, first)
}

// otherPolicies reads policies that are not in force, for the agents that are configured
// here.
func (i *Instance) otherPolicies() func(files map[string][]byte) (issuer.Policy, error) {
	return func(files map[string][]byte) (issuer.Policy, error) {
		now := i.Force.Now.Load()
		engine, err := New(now.config, i.Now).policiesOf(files, now.agents)
		return issuerPolicy{engine}, err
	}
}

// ownRecorders has on record which key this server signs records with, and returns
// all by which it ever did.
func (i *Instance) ownRecorders(ctx context.Context, key evidence.Key) ([]evidence.PinnedKey, error) {
	if err := i.Issuer.Signs(ctx, key); err != nil {
		return nil, fmt.Errorf("the key that signs records: %w", err)
	}
	all, err := i.Issuer.OwnRecorders(ctx)
	var own []evidence.PinnedKey
	for _, r := range all {
		own = append(own, r.Pinned())
	}
	return own, err
}

func keysOf(pinned []evidence.PinnedKey) []evidence.Key {
	var keys []evidence.Key
	for _, p := range pinned {
		keys = append(keys, p.Key)
	}
	return keys
}

// recordKeys has on record which key every agent signs with.
func (i *Instance) recordKeys(ctx context.Context, f *InForce) error {
	keys := make([]issuer.AgentKey, len(f.config.Agents))
	for n := range f.config.Agents {
		agent := f.config.Agents[n].ID
		k := f.issuing[agent].Current()
		keys[n] = issuer.AgentKey{Agent: agent, Key: k.Key.Public().Thumbprint(), Renewed: k.Made}
	}
	if err := i.Issuer.UsesKeys(ctx, keys); err != nil {
		return fmt.Errorf("the keys of agents: %w", err)
	}
	return nil
}
