package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// inForce is the part of the configuration that a reload replaces, as a whole.
type inForce struct {
	config  *config.Config
	engine  *policy.Engine
	files   map[string][]byte             // texts of the policies, by file
	origins map[string]string             // configured name of an agent by its holder id
	scopes  map[string]powerbox.Authority // by caller, NUL and agent
	nothing powerbox.Authority            // of a caller without a scope
	digest  string                        // of all that the configuration and its policies say, secrets masked
}

// scope is Scope(A) of a caller at an agent.
func (f *inForce) scope(origin, agent string) powerbox.Authority {
	if a, ok := f.scopes[origin+"\x00"+agent]; ok {
		return a
	}
	return f.nothing
}

// force is the configuration in force. Its methods read it at every call.
type force struct{ now atomic.Pointer[inForce] }

func (f *force) origin(holder string) string { return f.now.Load().origins[holder] }

// scope returns Scope(A), nil where no scopes are configured.
func (f *force) scope() func(origin, agent string) powerbox.Authority {
	now := f.now.Load()
	if len(now.config.Scopes) == 0 {
		return nil
	}
	return now.scope
}

func (f *force) callerNames() []string {
	var names []string
	for _, c := range f.now.Load().config.Identity.Callers {
		names = append(names, c.Agent)
	}
	return names
}

// Permits and Digest implement [issuer.Policy].
func (f *force) Permits(c identity.Caller, agent, grant, operation string, r *catalogue.Item) issuer.Ruling {
	return issuerPolicy{f.now.Load().engine}.Permits(c, agent, grant, operation, r)
}

func (f *force) Digest() string { return f.now.Load().engine.Digest() }

// reloader replaces the configuration in force.
type reloader struct {
	mu     sync.Mutex // one at a time
	load   func() (*config.Config, error)
	force  *force
	agents []*issuer.Agent
	asks   bool // people can be asked
	issuer *issuer.Issuer
	caller *identity.Authenticator
	log    *slog.Logger
}

// errRestart says which settings need a restart.
var errRestart = errors.New("nothing was changed")

// reload reads the configuration again, puts the difference on record and then in force.
// Either all of it holds afterwards, or nothing changed.
func (r *reloader) reload(ctx context.Context, by string) (api.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.load == nil {
		return api.Reloaded{}, fmt.Errorf("%w: this process has no configuration file to read again", errRestart)
	}
	before := r.force.now.Load()
	next, err := r.load()
	if err != nil {
		return api.Reloaded{}, fmt.Errorf("%w: %w", errRestart, err)
	}
	if fixed := needRestart(before.config, next); len(fixed) > 0 {
		return api.Reloaded{}, fmt.Errorf("%w: %s cannot change while the server runs; restart it, or change scopes, policies and identity.callers alone",
			errRestart, strings.Join(fixed, ", "))
	}
	after, err := (&instance{config: next}).inForce(r.agents)
	if err != nil {
		return api.Reloaded{}, fmt.Errorf("%w: %w", errRestart, err)
	}
	if after.engine.AsksPeople() && !r.asks {
		return api.Reloaded{}, fmt.Errorf("%w: a policy asks people, and nothing did when the server started; restart it", errRestart)
	}
	rename, err := r.caller.Rename(callerRules(next))
	if err != nil {
		return api.Reloaded{}, fmt.Errorf("%w: identity.callers: %w", errRestart, err)
	}
	out := api.Reloaded{Before: before.digest, After: after.digest, Changes: changesBetween(before, after)}
	if len(out.Changes) == 0 {
		return out, nil
	}
	if out.Record, err = r.issuer.Reloaded(ctx, by, out.Before, out.After, out.Changes); err != nil {
		return api.Reloaded{}, fmt.Errorf("%w: it cannot be put on record: %w", errRestart, err)
	}
	r.force.now.Store(after)
	rename()
	return out, nil
}

// told reloads because of a signal, and has the log tell what came of it.
func (r *reloader) told(ctx context.Context) {
	out, err := r.reload(ctx, "SIGHUP")
	switch {
	case err != nil:
		r.log.ErrorContext(ctx, "the configuration was not read again", slog.Any("error", err))
	case len(out.Changes) == 0:
		r.log.InfoContext(ctx, "the configuration says what it said before")
	default:
		r.log.InfoContext(ctx, "the configuration was read again", slog.Any("changes", out.Changes), slog.String("before", out.Before), slog.String("after", out.After), slog.String("record", out.Record))
	}
}

// scoping is the part of a configuration that a remote gateway has as well.
func scoping(c *config.Config) (*inForce, error) {
	f := &inForce{config: c, origins: map[string]string{}, scopes: map[string]powerbox.Authority{}}
	for _, rule := range c.Identity.Callers {
		f.origins[holderID(rule)] = rule.Agent
	}
	return f, f.setScopes()
}

// inForce is the part of the instance's configuration that a reload can replace.
func (i *instance) inForce(agents []*issuer.Agent) (*inForce, error) {
	f, err := scoping(i.config)
	if err != nil {
		return nil, err
	}
	if f.files, err = i.policyFiles(); err != nil {
		return nil, err
	}
	if f.engine, err = i.policiesOf(f.files, agents); err != nil {
		return nil, err
	}
	text, err := i.config.Effective()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(text, f.engine.Digest()...))
	f.digest = "sha256:" + hex.EncodeToString(sum[:])
	return f, nil
}

// setScopes makes Scope(A) for every configured caller.
func (f *inForce) setScopes() (err error) {
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

func callerRules(c *config.Config) []identity.CallerRule {
	var rules []identity.CallerRule
	for _, r := range c.Identity.Callers {
		rules = append(rules, identity.CallerRule(r))
	}
	return rules
}

// needRestart names the settings that differ and that a running server does not change.
func needRestart(before, after *config.Config) []string {
	a, b := *before, *after
	for _, c := range []*config.Config{&a, &b} {
		c.Scopes, c.Policies, c.Include, c.Identity.Callers = nil, nil, nil, nil
	}
	was, is := map[string]config.Agent{}, map[string]config.Agent{}
	for _, agent := range a.Agents {
		was[agent.ID] = agent
	}
	for _, agent := range b.Agents {
		is[agent.ID] = agent
	}
	var names []string
	for _, id := range slices.Sorted(maps.Keys(joined(was, is))) {
		one, had := was[id]
		other, has := is[id]
		switch {
		case !had:
			names = append(names, "agents."+id+" (new)")
		case !has:
			names = append(names, "agents."+id+" (gone)")
		default:
			names = append(names, differing("agents."+id+".", reflect.ValueOf(one), reflect.ValueOf(other))...)
		}
	}
	if len(names) == 0 && !reflect.DeepEqual(a.Agents, b.Agents) {
		names = append(names, "agents (their order)")
	}
	a.Agents, b.Agents = nil, nil
	return append(names, differing("", reflect.ValueOf(a), reflect.ValueOf(b))...)
}

func joined[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// differing names the settings of two sections that are not the same.
func differing(at string, a, b reflect.Value) (names []string) {
	for n := range a.NumField() {
		key := a.Type().Field(n).Tag.Get("key")
		one, other := a.Field(n), b.Field(n)
		switch {
		case reflect.DeepEqual(one.Interface(), other.Interface()):
		case one.Kind() == reflect.Struct && at == "":
			names = append(names, differing(key+".", one, other)...)
		default:
			names = append(names, at+key)
		}
	}
	return names
}

// changesBetween says by name what a reload changes. It has no values but operations and
// the names and ids of callers, which are no secrets.
func changesBetween(before, after *inForce) []string {
	changes := []string{}
	add := func(sign, format string, args ...any) {
		changes = append(changes, sign+" "+fmt.Sprintf(format, args...))
	}
	lines := func(f *inForce) map[string]string {
		out := map[string]string{}
		for caller, agents := range f.config.Scopes {
			out["scopes."+caller] = ""
			for agent, operations := range agents {
				out["scopes."+caller+"."+agent] = ""
				for _, op := range operations {
					out["scopes."+caller+"."+agent+": "+op] = ""
				}
			}
		}
		for holder, name := range f.origins {
			out["identity.callers: "+name+" is "+holder] = ""
		}
		for name, text := range f.files {
			out["policies: "+name] = string(text)
		}
		return out
	}
	was, is := lines(before), lines(after)
	for _, line := range slices.Sorted(maps.Keys(joined(was, is))) {
		old, had := was[line]
		now, has := is[line]
		switch {
		case !had:
			add("+", "%s", line)
		case !has:
			add("-", "%s", line)
		case old != now:
			add("~", "%s (its text)", line)
		}
	}
	return changes
}
