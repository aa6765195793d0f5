package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/telemetry"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
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
	config   *config.Config // as the server started
	force    force          // what a reload replaces
	reloads  *reloader
	ring     *keyring.Ring
	store    storage
	writes   *dependency          // of the store
	shared   *postgres.Store      // the same where other processes have it, too; nil for a file
	follower *api.Follower        // of what they write; nil for a file
	known    []*provider.Provider // that remember what they read of agents
	issuer   *issuer.Issuer
	gate     *gate.Gate
	gateway  *gateway.Gateway
	sessions *identity.Authenticator
	admin    *api.Admin
	feedKey  signed.Key
	handler  http.Handler
	public   *api.Public
	asker    *witness.Asker // nil without witnesses
	// read reads what the configuration refers to; os.ReadFile where it is nil.
	read func(string) ([]byte, error)
	grpc []grpcFront
	// queue is where calls wait to be decided.
	queue *shed.Queue
	// telemetry is nil where nothing is counted or traced.
	telemetry *telemetry.Telemetry
	scores    *api.Scores
	agreed    *registry.Agreed
	// invitation is what the first administrator is told, "" where there is one.
	invitation string
	unused     bool    // nothing had been recorded when it was opened
	rereads    rereads // files that are read again

	desk     *approval.Desk     // nil where nothing is left to people
	told     *approval.Webhooks // nil where nobody is told of it
	leave    context.CancelFunc // ends what is attended; nil for nothing
	attended []<-chan struct{}

	began    time.Time               // since when used proofs are remembered
	before   *usedProofs             // those of the process before this one; nil for none
	memories map[string]*gate.Memory // of used proofs, by kind
}

// grpcFront is where the gRPC of one agent is taken.
type grpcFront struct {
	agent, listen, address string
	handler                http.Handler
}

// assembly is what an instance is made of beside its configuration.
type assembly struct {
	config *config.Config
	dev    bool // admit the built-in users
	// newStore begins a store for keys that have been used with another one.
	newStore bool
	replaced *replacement                   // a key that is replaced; nil for none
	reload   func() (*config.Config, error) // reads the configuration again; nil where that cannot be done
	now      func() time.Time
	log      *slog.Logger
}

// assemble puts an instance together. Whatever is missing for security is an
// error here, before anything listens.
func assemble(ctx context.Context, a assembly) (*instance, error) {
	if len(a.config.Identity.Dev) > 0 && !a.dev {
		return nil, errors.New("identity.dev has built-in users; they are for experiments: remove them, or start with --dev")
	}
	i := &instance{config: a.config, queue: queueOf(a.config.Limits, a.now)}
	passphrase, err := readPassphrase(string(a.config.Issuer.PassphraseFile))
	if err != nil {
		return nil, fmt.Errorf("issuer.passphrase_file: %w", err)
	}
	if i.ring, err = keyring.Open(filepath.Join(string(a.config.Issuer.Directory), "keys"), rand.Reader, passphrase); err != nil {
		return nil, err
	}
	i.ring.Advice = adviseReplacing
	if a.replaced != nil {
		i.ring.Replace(a.replaced.file, a.now())
	}
	if err := i.open(ctx, a); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

func (i *instance) open(ctx context.Context, a assembly) error {
	used, err := i.ring.InUse() // before they are
	if err != nil {
		return err
	}
	if i.telemetry, err = newTelemetry(ctx, i.config.Telemetry.Listen, i.config.Telemetry.Traces); err != nil {
		return err
	}
	i.ring.Hold()
	signer, recordKey, err := i.ring.Evidence(i.config.Evidence.Algorithm, recorderID)
	if err != nil {
		return err
	}
	checkpoint, verifier, err := i.ring.Checkpoint(i.config.Evidence.Origin)
	if err != nil {
		return err
	}
	if err := i.openStore(ctx, a, used && !a.newStore, signer, checkpoint); err != nil {
		return i.explainKey(err)
	}
	if err := i.expectKeys(ctx, a.replaced); err != nil {
		return err
	}
	// Every key is there before the first record, by which a store is told from a new one.
	if i.feedKey, err = i.ring.Feed(); err != nil {
		return err
	}
	// Before anything is recorded: a store that was rolled back must not go on.
	// Witnesses do not know the key yet that takes the place of another: the next start asks them.
	if err := i.watched(ctx, verifier, a.replacesCheckpoint(), a.log); err != nil {
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
	operator, err := i.ring.Secret("operator")
	if err != nil {
		return err
	}
	i.admin = &api.Admin{
		Issuer: i.issuer, Store: i.store, Exporter: i.store, Public: i.public, Token: base64.RawURLEncoding.EncodeToString(operator),
		URL: i.config.Issuer.URL, FeedKey: i.feedKey.Public(), Keys: keysOf(own), Now: a.now, Log: a.log, Can: w.can, Policies: i.otherPolicies(), Issuing: i.issuingKeys, Agents: i.agentStatuses, MaximumLifetime: i.config.Issuer.MaximumLifetime, Patience: issuePatience(i.config.Limits.DependencyTime),
		Reload: func(ctx context.Context, by string) (api.Reloaded, error) { return i.reloads.reload(ctx, by) },
		Trust:  evidence.Trust{Batches: i.config.Evidence.Signatures == "batch", CheckpointKeys: []string{verifier}, RecordKeys: own},
	}
	i.scores = &api.Scores{Log: i.store, Agents: i.agentNames, Named: i.named, Now: a.now, Slog: a.log}
	i.admin.Scores, i.admin.AsksTrust = i.scores, i.asksTrust()
	if err := i.knowScores(ctx); err != nil {
		return err
	}
	if err := errors.Join(i.watch(a.log), i.front(ctx, a, w), i.keepKeys(ctx, a.replaced), i.attend(ctx, a)); err != nil {
		return err
	}
	i.reloads = &reloader{load: a.reload, now: a.now, i: i, log: a.log}
	return nil
}

// knowScores has nothing decided by scores that are not known yet.
func (i *instance) knowScores(ctx context.Context) error {
	if !i.asksTrust() {
		return nil
	}
	if err := i.scores.Update(ctx); err != nil {
		return fmt.Errorf("the scores of agents: %w", err)
	}
	return nil
}

// issuingKeys are the issuing keys of an agent.
func (i *instance) issuingKeys(agent string) (*keyring.Issuing, bool) {
	keys := i.keys(agent)
	return keys, keys != nil
}

// agentNames are the agents that there are now.
func (i *instance) agentNames() (names []string) {
	for _, agent := range i.current().Agents {
		names = append(names, agent.ID)
	}
	return names
}

// agentStatuses are the agents that there are now, as operators see them.
func (i *instance) agentStatuses() (all []api.AgentStatus) {
	for _, agent := range i.current().Agents {
		status := api.AgentStatus{ID: agent.ID, URL: i.agentURL(agent.ID), Upstream: agent.Upstream, Mode: agent.Mode, Canary: agent.Canary}
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
func (i *instance) asksTrust() bool {
	for _, agent := range i.config.Agents {
		if agent.Trust != "" || slices.ContainsFunc(i.config.Skills[agent.ID], func(s config.Skill) bool { return s.Trust != "" }) {
			return true
		}
	}
	return false
}

// followScores keeps the scores up to date until ctx ends, where they are asked
// for. What it returns is closed then.
func (i *instance) followScores(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if i.asksTrust() {
			i.scores.Follow(ctx)
		}
	}()
	return done
}

func (i *instance) agentURL(id string) string {
	base := i.config.Issuer.URL
	for _, c := range i.current().Agents {
		if c.ID == id && c.GatewayURL != "" {
			base = c.GatewayURL
		}
	}
	return strings.TrimSuffix(base, "/") + "/agents/" + id
}

// wiring is what issuer and gateway share.
type wiring struct {
	sealer *catalogue.Sealer
	pages  cipher.AEAD
	force  *force
	can    func(origin, agent string, attempt powerbox.Attempt) powerbox.Decision
	now    func() time.Time
}

func (i *instance) wire(ctx context.Context, a assembly) (*wiring, error) {
	w := &wiring{force: &i.force, now: a.now}
	handleKey, err := i.ring.Secret("handles")
	if err != nil {
		return nil, err
	}
	if w.sealer, err = catalogue.NewSealer(handleKey); err != nil {
		return nil, err
	}
	if w.pages, err = sealerFor(handleKey, "powerbox tokens of pages"); err != nil {
		return nil, err
	}
	agents, issuing, err := i.agents(a.now, nil)
	if err != nil {
		return nil, err
	}
	first, err := i.inForce(agents, issuing)
	if err != nil {
		return nil, err
	}
	i.force.now.Store(first)
	w.can = func(origin, agent string, attempt powerbox.Attempt) powerbox.Decision {
		now := w.force.now.Load()
		return powerbox.Decide(attempt, now.scope(origin, agent).Meet(now.caps[agent]), w.now())
	}
	pairwise, err := i.ring.Secret("pairwise")
	if err != nil {
		return nil, err
	}
	if err := i.newDesk(a, w); err != nil {
		return nil, err
	}
	i.issuer, err = issuer.New(ctx, issuer.Config{
		Store: i.store, Policy: w.force, Asker: i.askPeople(), Sealer: w.sealer, Agents: agents, Callers: w.force.callerNames, Origin: w.force.origin, Recorder: recorderID, Algorithm: i.config.Evidence.Algorithm,
		Stale: i.stale(), Pairwise: pairwise, MaximumLifetime: i.config.Issuer.MaximumLifetime, Now: a.now, Random: rand.Reader, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	if i.desk != nil {
		i.desk.Serves(i.issuer)
	}
	return w, i.recordKeys(ctx, first)
}

// otherPolicies reads policies that are not in force, for what is configured here.
func (i *instance) otherPolicies() func(files map[string][]byte) (issuer.Policy, error) {
	return func(files map[string][]byte) (issuer.Policy, error) {
		now := i.force.now.Load()
		engine, err := (&instance{config: now.config}).policiesOf(files, now.agents)
		return issuerPolicy{engine}, err
	}
}

// ownRecorders has on record which key this server signs records with, and returns
// all by which it ever did.
func (i *instance) ownRecorders(ctx context.Context, key evidence.Key) ([]evidence.PinnedKey, error) {
	if err := i.issuer.Signs(ctx, key); err != nil {
		return nil, fmt.Errorf("the key that signs records: %w", err)
	}
	all, err := i.issuer.OwnRecorders(ctx)
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
func (i *instance) recordKeys(ctx context.Context, f *inForce) error {
	for _, c := range f.config.Agents {
		k := f.issuing[c.ID].Current()
		if err := i.issuer.UsesKey(ctx, issuer.AgentKey{Agent: c.ID, Key: k.Key.Public().Thumbprint(), Renewed: k.Made}); err != nil {
			return fmt.Errorf("the key of agent %s: %w", c.ID, err)
		}
	}
	return nil
}

// sealerFor seals for one use, under a key that is derived from that of handles, which all
// nodes and all gateways of an agent have.
func sealerFor(handleKey []byte, use string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, handleKey, nil, use, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
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
