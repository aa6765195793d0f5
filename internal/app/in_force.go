package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// InForce is the part of the configuration that a reload replaces, as a whole.
type InForce struct {
	config  *config.Config
	engine  *policy.Engine
	files   map[string][]byte // texts of the policies, by file
	names   *identity.Names
	scopes  map[string]powerbox.Authority // by caller, NUL and agent
	nothing powerbox.Authority            // of a caller without a scope
	plans   []agentcard.Plan
	agents  []*issuer.Agent               // in the order of config.Agents
	issuing map[string]*keyring.Issuing   // by agent
	caps    map[string]powerbox.Authority // Caps(B), by agent
	digest  string                        // of all that the configuration and its policies say, secrets masked
}

// scope is Scope(A) of a caller at an agent.
func (f *InForce) scope(origin, agent string) powerbox.Authority {
	if a, ok := f.scopes[origin+"\x00"+agent]; ok {
		return a
	}
	return f.nothing
}

// force is the configuration in force. Its methods read it at every call.
type force struct{ Now atomic.Pointer[InForce] }

func (f *force) Origin(holder string) string { return f.Now.Load().names.Of(holder) }

// Scope returns Scope(A), nil where no scopes are configured.
func (f *force) Scope() func(origin, agent string) powerbox.Authority {
	now := f.Now.Load()
	if len(now.config.Scopes) == 0 {
		return nil
	}
	return now.scope
}

func (f *force) Plans() []agentcard.Plan { return f.Now.Load().plans }

func (f *force) callerNames() []string {
	var names []string
	for _, c := range f.Now.Load().config.Identity.Callers {
		names = append(names, c.Agent)
	}
	return names
}

// Holders implements [api.Callers].
func (f *force) Holders(caller string) []string {
	var holders []string
	for _, c := range f.Now.Load().config.Identity.Callers {
		if holder, err := c.Holder(); err == nil && c.Agent == caller && !c.Open() {
			holders = append(holders, holder)
		}
	}
	return holders
}

// Bounds implements [api.Callers].
func (f *force) Bounds(caller, agent string, attempt powerbox.Attempt, at time.Time) []evidence.Reason {
	now := f.Now.Load()
	if len(now.config.Scopes) == 0 {
		return nil
	}
	return gate.OnScope(attempt, now.scope(caller, agent), now.caps[agent], at)
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
func (f *force) Permits(c identity.Caller, agent, grant, operation string, r *catalogue.Item) issuer.Ruling {
	return issuerPolicy{f.Now.Load().engine}.Permits(c, agent, grant, operation, r)
}

func (f *force) Digest() string { return f.Now.Load().engine.Digest() }

// Scoping is the part of a configuration that a remote gateway has as well.
func Scoping(c *config.Config) (*InForce, error) {
	names, err := identity.ParseNames(c.Identity.Callers)
	if err != nil {
		return nil, fmt.Errorf("identity.callers: %w", err)
	}
	f := &InForce{config: c, plans: config.Declared(c.Plans), names: names, scopes: map[string]powerbox.Authority{}}
	return f, f.setScopes()
}

// inForce returns the part of the instance's configuration that a reload can replace.
func (i *Instance) inForce(agents []*issuer.Agent, issuing map[string]*keyring.Issuing) (*InForce, error) {
	f, err := Scoping(i.Config)
	if err != nil {
		return nil, err
	}
	f.agents, f.issuing, f.caps = agents, issuing, map[string]powerbox.Authority{}
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
	text, err := i.Config.Effective()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(text, f.engine.Digest()...))
	f.digest = "sha256:" + hex.EncodeToString(sum[:])
	return f, nil
}

// setScopes makes Scope(A) for every configured caller.
func (f *InForce) setScopes() (err error) {
	if f.nothing, err = standing(nil); err != nil {
		return err
	}
	for origin, agents := range f.config.Scopes {
		for agent, operations := range agents {
			names := slices.Clone(operations)
			for n := range names {
				names[n] = agent + "/" + names[n]
			}
			a, err := standing(names)
			if err != nil {
				return fmt.Errorf("scopes.%s.%s: %w", origin, agent, err)
			}
			f.scopes[origin+"\x00"+agent] = a
		}
	}
	return nil
}
