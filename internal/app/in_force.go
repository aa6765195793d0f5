package app

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// InForce is the part of the configuration that a reload replaces, as a whole.
type InForce struct {
	*proxy.Scopes
	config  *config.Config
	byID    map[string]*config.Agent // the agents of config
	engine  *policy.Engine
	files   map[string][]byte             // texts of the policies, by file
	agents  []*issuer.Agent               // in the order of config.Agents
	issuing map[string]*keyring.Issuing   // by agent
	caps    map[string]powerbox.Authority // Caps(B), by agent
	// digest is of all that the configuration and its policies say, secrets masked. It is made when it is
	// asked for: writing out a configuration of 1,000 agents takes as long as the rest of a start.
	digest func() (string, error)
}

// activeConfig is the configuration in force. Its methods read it at every call.
type activeConfig struct{ Now atomic.Pointer[InForce] }

func (f *activeConfig) Origin(holder string) string { return f.Now.Load().Scopes.Origin(holder) }

// Scope returns Scope(A), nil where no scopes are configured.
func (f *activeConfig) Scope() func(origin, agent string) powerbox.Authority {
	return f.Now.Load().Scopes.Scope()
}

func (f *activeConfig) Plans() []agentcard.Plan { return f.Now.Load().Scopes.Plans() }

func (f *activeConfig) callerNames() []string {
	var names []string
	for _, c := range f.Now.Load().config.Identity.Callers {
		names = append(names, c.Agent)
	}
	return names
}

// Holders implements [api.Callers].
func (f *activeConfig) Holders(caller string) []string {
	var holders []string
	for _, c := range f.Now.Load().config.Identity.Callers {
		if holder, err := c.Holder(); err == nil && c.Agent == caller && !c.Open() {
			holders = append(holders, holder)
		}
	}
	return holders
}

// Bounds implements [api.Callers].
func (f *activeConfig) Bounds(caller, agent string, attempt powerbox.Attempt, at time.Time) []evidence.Reason {
	now := f.Now.Load()
	if len(now.config.Scopes) == 0 {
		return nil
	}
	return gate.OnScope(attempt, now.At(caller, agent), now.caps[agent], at)
}

// keys are the issuing keys of an agent, nil for one that there is not.
func (i *Instance) keys(agent string) *keyring.Issuing { return i.Force.Now.Load().issuing[agent] }

// current is the configuration in force; until there is one, that of the start.
func (i *Instance) current() *config.Config {
	if f := i.Force.Now.Load(); f != nil {
		return f.config
	}
	return i.Config
}

// Permits and Digest implement [issuer.Policy].
func (f *activeConfig) Permits(c identity.Caller, agent, grant, operation string, r *catalogue.Item) issuer.Ruling {
	return issuerPolicy{f.Now.Load().engine}.Permits(c, agent, grant, operation, r)
}

func (f *activeConfig) Digest() string { return f.Now.Load().engine.Digest() }

// inForce returns the part of the instance's configuration that a reload can replace.
func (i *Instance) inForce(agents []*issuer.Agent, issuing map[string]*keyring.Issuing) (*InForce, error) {
	scopes, err := proxy.ScopesOf(i.Config)
	if err != nil {
		return nil, err
	}
	f := &InForce{Scopes: scopes, config: i.Config, byID: map[string]*config.Agent{}, agents: agents, issuing: issuing, caps: map[string]powerbox.Authority{}}
	for n := range i.Config.Agents {
		f.byID[i.Config.Agents[n].ID] = &i.Config.Agents[n]
	}
	for _, agent := range agents {
		if f.caps[agent.ID], err = agent.Caps(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			return nil, err
		}
	}
	if f.files, err = i.PolicyFiles(); err != nil {
		return nil, err
	}
	if f.engine, err = i.policiesOf(f.files, agents); err != nil {
		return nil, err
	}
	f.digest = sync.OnceValues(f.makeDigest)
	return f, nil
}

func (f *InForce) makeDigest() (string, error) {
	text, err := f.config.Effective()
	sum := sha256.Sum256(append(text, f.engine.Digest()...))
	return "sha256:" + hex.EncodeToString(sum[:]), err
}
