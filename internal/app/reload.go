package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// reloader replaces the configuration in force.
type reloader struct {
	mu   sync.Mutex // one at a time
	load func() (*config.Config, error)
	now  func() time.Time
	i    *Instance
	log  *slog.Logger
}

// errRestart says which settings need a restart.
var errRestart = errors.New("nothing was changed")

// reload reads the configuration again, puts the difference on record and then in force.
// Either all of it holds afterwards, or nothing changed.
func (r *reloader) reload(ctx context.Context, by string) (api.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, err := r.replace(ctx, by)
	if err != nil {
		return api.Reloaded{}, fmt.Errorf("%w: %w", errRestart, err)
	}
	return out, nil
}

func (r *reloader) replace(ctx context.Context, by string) (api.Reloaded, error) {
	if r.load == nil {
		return api.Reloaded{}, errors.New("this process has no configuration file to read again")
	}
	before := r.i.Force.Now.Load()
	next, err := r.load()
	if err != nil {
		return api.Reloaded{}, err
	}
	if fixed := r.needRestart(before.config, next); len(fixed) > 0 {
		return api.Reloaded{}, fmt.Errorf("%s cannot change while the server runs; restart it, or leave that as it was", strings.Join(fixed, ", "))
	}
	p, err := r.prepare(before, next)
	if err != nil {
		return api.Reloaded{}, err
	}
	out := api.Reloaded{Changes: changesBetween(before, p.after)}
	if out.Before, err = before.digest(); err != nil {
		return api.Reloaded{}, err
	}
	if out.After, err = p.after.digest(); err != nil {
		return api.Reloaded{}, err
	}
	if len(out.Changes) == 0 {
		return out, nil
	}
	if err := r.i.recordKeys(ctx, p.after); err != nil {
		return api.Reloaded{}, fmt.Errorf("it cannot be put on record: %w", err)
	}
	if out.Record, err = r.i.Issuer.Reloaded(ctx, by, out.Before, out.After, out.Changes); err != nil {
		return api.Reloaded{}, fmt.Errorf("it cannot be put on record: %w", err)
	}
	p.put()
	if err := r.i.Issuer.LoadModes(ctx); err != nil {
		r.log.ErrorContext(ctx, "modes that operators set for new agents are not known; those of the configuration hold", slog.Any("error", err))
	}
	return out, nil
}

// prepared is a configuration that can be put in force.
type prepared struct {
	after *InForce
	put   func() // cannot fail
}

// prepare makes everything that another configuration needs, and changes nothing.
func (r *reloader) prepare(before *InForce, next *config.Config) (prepared, error) {
	made := New(next, r.now)
	made.Ring, made.Store, made.live = r.i.Ring, r.i.Store, r.i.live
	agents, issuing, err := made.agents(r.now, before.issuing)
	if err != nil {
		return prepared{}, err
	}
	after, err := made.inForce(agents, issuing)
	if err != nil {
		return prepared{}, err
	}
	if after.engine.AsksPeople() && r.i.desk == nil {
		return prepared{}, errors.New("a policy asks people, and nothing did when the server started; restart it")
	}
	if made.asksTrust() && !r.i.asksTrust() {
		return prepared{}, errors.New("agents.trust or skills.trust asks for scores, and nothing did when the server started; restart it")
	}
	made.Force.Now.Store(after)
	rename, err := r.i.sessions.Rename(next.Identity.Callers)
	if err != nil {
		return prepared{}, fmt.Errorf("identity.callers: %w", err)
	}
	same := func(id string) bool { return sameAgent(before.config, next, id) }
	fronts, err := made.gatewayAgents(agents, same)
	if err != nil {
		return prepared{}, err
	}
	putFronts, err := r.i.gateway.Replace(fronts, same)
	if err != nil {
		return prepared{}, err
	}
	putAgents, err := r.i.Issuer.Replace(agents)
	if err != nil {
		return prepared{}, err
	}
	return prepared{after, func() {
		putAgents()
		r.i.Force.Now.Store(after)
		putFronts()
		r.i.keepLive(next)
		r.i.Rereads.Replace(made.Rereads.All(), next.Agents, same)
		rename()
	}}, nil
}

// gatewayAgents are the agents as the gateway has them. Of one that did not change it gets no
// more than the name by which it is kept.
func (i *Instance) gatewayAgents(agents []*issuer.Agent, same func(id string) bool) ([]gateway.Agent, error) {
	var out []gateway.Agent
	for n, c := range i.Config.Agents {
		if same(c.ID) {
			out = append(out, proxy.FrontOf(c, agents[n]))
			continue
		}
		front, err := i.GatewayAgent(c, agents[n])
		if err != nil {
			return nil, err
		}
		keys := i.keys(c.ID)
		front.Keys, front.Published = keys.Accepted, keys.Published
		out = append(out, front)
	}
	return out, nil
}

// sameAgent reports whether two configurations say the same of an agent.
func sameAgent(a, b *config.Config, id string) bool {
	one, had := configuredAgent(a, id)
	other, has := configuredAgent(b, id)
	return had && has && reflect.DeepEqual(one, other) && reflect.DeepEqual(a.Offers[id], b.Offers[id]) && reflect.DeepEqual(a.Skills[id], b.Skills[id]) && reflect.DeepEqual(proxy.EarnedOf(a, id), proxy.EarnedOf(b, id))
}

func configuredAgent(c *config.Config, id string) (config.Agent, bool) {
	at := slices.IndexFunc(c.Agents, func(a config.Agent) bool { return a.ID == id })
	if at < 0 {
		return config.Agent{}, false
	}
	return c.Agents[at], true
}

// told reloads because of a signal, and logs the result.
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

// needRestart names the settings that differ and that a running server does not change.
func (r *reloader) needRestart(before, after *config.Config) []string {
	a, b := *before, *after
	for _, c := range []*config.Config{&a, &b} {
		c.Agents, c.Offers, c.Skills, c.Scopes, c.Plans, c.Policies, c.Include, c.Identity.Callers = nil, nil, nil, nil, nil, nil, nil, nil
	}
	var names []string
	for _, id := range agentIDs(before, after) {
		one, had := configuredAgent(before, id)
		other, has := configuredAgent(after, id)
		names = append(names, agentNeedsRestart(id, one, other, had && has)...)
	}
	if r.i.desk == nil && asksPeople(after) && !asksPeople(before) {
		names = append(names, "skills.approval, which nothing had when the server started,")
	}
	return append(names, differing("", reflect.ValueOf(a), reflect.ValueOf(b))...)
}

// agentNeedsRestart names the parts of one agent that a running server does not change:
// its listener, and everything of a provider of the Agent Auth Protocol, which is made
// once.
func agentNeedsRestart(id string, one, other config.Agent, stays bool) (names []string) {
	at := "agents." + id + "."
	listens := one.GRPC.Listen != "" || other.GRPC.Listen != ""
	provides := len(one.AgentAuth.Capabilities) > 0 || len(other.AgentAuth.Capabilities) > 0
	switch {
	case one.GRPC.Listen != other.GRPC.Listen, listens && !stays:
		names = append(names, at+"grpc.listen")
	case listens && (one.GRPC.Address != other.GRPC.Address || one.GatewayURL != other.GatewayURL):
		names = append(names, at+"grpc.address or gateway_url, with grpc.listen,")
	}
	switch {
	case provides && !stays:
		names = append(names, at+"agent_auth")
	case provides:
		names = append(names, differing(at, reflect.ValueOf(one), reflect.ValueOf(other))...)
	}
	return names
}

func agentIDs(configs ...*config.Config) []string {
	all := map[string]bool{}
	for _, c := range configs {
		for _, a := range c.Agents {
			all[a.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
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

// changesBetween names the changes of a reload. It has no values but operations, modes,
// and the names and ids of callers, which are no secrets.
func changesBetween(before, after *InForce) []string {
	changes := []string{}
	add := func(sign, format string, args ...any) {
		changes = append(changes, sign+" "+fmt.Sprintf(format, args...))
	}
	changes = append(changes, agentChanges(before.config, after.config)...)
	was, is := linesOf(before), linesOf(after)
	for _, line := range slices.Sorted(maps.Keys(joined(was, is))) {
		old, had := was[line]
		now, has := is[line]
		switch {
		case !had:
			add("+", "%s", line)
		case !has:
			add("-", "%s", line)
		case reflect.DeepEqual(old, now):
		case strings.HasPrefix(line, "policies: "):
			add("~", "%s (its text)", line)
		default:
			add("~", "%s", line)
		}
	}
	return changes
}

func joined[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// agentChanges says which agents are new or gone, and which settings of the others change.
func agentChanges(before, after *config.Config) (changes []string) {
	for _, id := range agentIDs(before, after) {
		one, had := configuredAgent(before, id)
		other, has := configuredAgent(after, id)
		switch {
		case !had:
			changes = append(changes, fmt.Sprintf("+ agents.%s, in mode %s", id, other.Mode))
		case !has:
			changes = append(changes, "- agents."+id)
		default:
			for _, name := range differing("agents."+id+".", reflect.ValueOf(one), reflect.ValueOf(other)) {
				if strings.HasSuffix(name, ".mode") {
					name += ": " + one.Mode + " becomes " + other.Mode
				}
				changes = append(changes, "~ "+name)
			}
		}
	}
	return changes
}

// linesOf returns the parts of a configuration by name, each with the values to compare.
func linesOf(f *InForce) map[string]any {
	out := map[string]any{}
	for caller, agents := range f.config.Scopes {
		out["scopes."+caller] = nil
		for agent, operations := range agents {
			out["scopes."+caller+"."+agent] = nil
			for _, op := range operations {
				out["scopes."+caller+"."+agent+": "+op] = nil
			}
		}
	}
	for _, rule := range f.config.Identity.Callers {
		if holder, err := rule.Holder(); err == nil {
			out["identity.callers: "+rule.Agent+" is "+holder] = nil
		}
	}
	for _, p := range f.Plans() {
		out["plans."+p.ID] = p
	}
	for agent, offers := range f.config.Offers {
		for _, o := range offers {
			out["offers."+agent+": "+o.ID] = o
		}
	}
	for agent, skills := range f.config.Skills {
		for _, s := range skills {
			out["skills."+agent+": "+s.Skill] = s
		}
	}
	for name, text := range f.files {
		out["policies: "+name] = string(text)
	}
	return out
}
