package provider_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// machine is the provider beside its model.
type machine struct {
	*town
	model
}

// TestAAPM1_Model runs random sequences of all actions of hosts, agents, users and
// administrators, with time and restarts, against a provider over a real store. After
// every step it compares the provider with the model (AAP-M1 to M6, L1 to L5, P5, V1 to
// V5, ATK-51). An ended agent stays ended. No agent is active under a host that is not.
// No grant is in force that was never given. An execution is allowed exactly where the
// model allows it.
func TestAAPM1_Model(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{town: newTown(t)}
		r.Repeat(map[string]func(*rapid.T){
			"register": m.register, "register again": m.again, "answer": m.answer, "request": m.request, "execute": m.execute, "execute ": m.execute,
			"reactivate": m.reactivate, "revoke": m.revoke, "revoke host": m.revokeHost, "revoke grant": m.revokeGrant, "grant": m.grant,
			"unlink": m.unlink, "link": m.linkAs, "forget user": m.forgetUser, "rotate": m.rotate, "rotate host": m.rotateHost, "restart": m.restarted,
			"a moment": func(r *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 600).Draw(r, "seconds")) * time.Second)
			},
			"time": func(r *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(10, 200).Draw(r, "minutes")) * time.Minute)
			},
			"": m.check,
		})
	})
}

func anyOf[T any](r *rapid.T, what string, all []T) T {
	if len(all) == 0 {
		r.Skip("there is none")
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(r, what)]
}

func person(r *rapid.T) provider.Person {
	return rapid.SampledFrom([]provider.Person{alice, bob, root}).Draw(r, "person")
}

// may reports whether a person may judge about a host's agents.
func may(who provider.Person, h *modelHost) bool {
	return who.Principal == root.Principal || h.user == who.Principal
}

// agrees fails unless something was done exactly where the model has it.
func agrees(r *rapid.T, what string, err error, want bool) {
	if (err == nil) != want {
		r.Fatalf("%s: %v; the model says %t", what, err, want)
	}
	if err != nil && strings.HasPrefix(string(code(err)), "another error") {
		r.Fatalf("%s: %v", what, err)
	}
}

// wanted draws the capabilities to ask for.
func wanted(r *rapid.T) (ask []provider.Asked, grants []*modelGrant) {
	for _, name := range []string{"accounts", "balance", "transfer", "close"} {
		if !rapid.Bool().Draw(r, name) {
			continue
		}
		a, g := provider.Asked{Name: name}, &modelGrant{capability: name, status: agentauth.Pending}
		if name == "transfer" {
			n := rapid.SampledFrom([]int{0, 50, 500, 5000}).Draw(r, "max")
			if g.max = 1000; n > 0 {
				g.max = min(n, 1000)
				a.Constraints, _ = powerbox.ParseValue([]byte(fmt.Sprintf(`{"amount":{"max":%d}}`, n)))
			}
		}
		ask, grants = append(ask, a), append(grants, g)
	}
	return ask, grants
}

func (m *machine) register(r *rapid.T) {
	var h *modelHost
	if i := rapid.IntRange(0, len(m.hosts)).Draw(r, "host"); i < len(m.hosts) {
		h = m.hosts[i]
	} else {
		h = &modelHost{key: m.key(), status: agentauth.Pending}
	}
	a := &modelAgent{member: &member{w: m.town, host: h.key, key: m.key()}, host: h, status: agentauth.Pending, created: m.now}
	mode := agentauth.Delegated
	if a.autonomous = rapid.Bool().Draw(r, "autonomous"); a.autonomous {
		mode = agentauth.Autonomous
	}
	ask, grants := wanted(r)
	s, err := m.provider.AuthenticateHost(m.t.Context(), m.host(h.key, claims{"agent_public_key": a.key.jwk()}), true)
	agrees(r, "authenticating a host", err, h.status != agentauth.Revoked)
	if err != nil {
		return
	}
	if h.status == agentauth.Rejected {
		h.status = agentauth.Pending // it asks again
	}
	out, err := m.provider.Register(m.t.Context(), s, provider.Registration{Name: "A", Mode: mode, Capabilities: ask})
	agrees(r, "registering", err, true)
	if h.id == "" {
		h.id, m.hosts = out.Host.ID, append(m.hosts, h)
	}
	a.id, a.grants, h.agents = out.Agent.ID, grants, append(h.agents, a)
	if out.Challenge != nil {
		m.asked(out, provider.ForRegistration, a, grants)
		return
	}
	// No person was asked: by a user's defaults, or by an operator's list.
	name := "balance"
	if a.autonomous && h.user == "" {
		name = "accounts"
		if h.status == agentauth.Pending && len(grants) == 0 {
			r.Fatal("a host that nobody knows is active for nothing")
		}
	} else if h.user == "" {
		r.Fatal("an agent of a host without a user is active at once")
	}
	for _, g := range grants {
		if g.status = agentauth.Active; g.capability != name {
			r.Fatalf("%s is given at once", g.capability)
		}
	}
	h.status, a.status, a.active, a.used, a.written = agentauth.Active, agentauth.Active, m.now, m.now, m.now
}

// asked notes what a person is asked.
func (m *machine) asked(out provider.AgentState, kind provider.Kind, a *modelAgent, grants []*modelGrant) {
	for _, k := range m.asks {
		k.over = k.over || k.agent == a && k.kind != provider.ForCapability && kind != provider.ForCapability
	}
	m.asks = append(m.asks, &modelAsk{id: out.Challenge.Approval.ID, kind: kind, agent: a, grants: grants, user: a.host.user, expires: m.now.Add(10 * time.Minute)})
}

func (m *machine) again(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	s, err := m.provider.AuthenticateHost(m.t.Context(), m.host(a.host.key, claims{"agent_public_key": a.key.jwk()}), true)
	if err != nil {
		return
	}
	out, err := m.provider.Register(m.t.Context(), s, provider.Registration{Name: "Again", Mode: agentauth.Delegated})
	agrees(r, "registering again", err, a.state(m.now) == agentauth.Pending)
	if err == nil {
		m.asked(out, provider.ForRegistration, a, pendingOf(a))
	}
}

func pendingOf(a *modelAgent) (out []*modelGrant) {
	for _, g := range a.grants {
		if g.status == agentauth.Pending {
			out = append(out, g)
		}
	}
	return out
}

func (m *machine) answer(r *rapid.T) {
	k := anyOf(r, "ask", m.asks)
	who, deny := person(r), rapid.IntRange(0, 3).Draw(r, "deny") == 0
	a, h := k.agent, k.agent.host
	user := h.user
	if user == "" {
		user = k.user
	}
	can := may(who, h) || user == who.Principal || user == "" && !a.autonomous
	state := a.state(m.now)
	stands := state == agentauth.Pending
	if k.kind == provider.ForCapability {
		stands = state == agentauth.Active || state == agentauth.Expired
	}
	answer := provider.Answer{Deny: deny}
	given := map[*modelGrant]int{} // to which amount
	if q, err := m.provider.Question(m.t.Context(), root, k.id); err == nil && !deny {
		for _, g := range k.grants {
			i := slices.IndexFunc(q.Grants, func(o provider.Grant) bool { return o.Capability == g.capability })
			if i < 0 || !rapid.Bool().Draw(r, "approve") {
				continue
			}
			d := provider.Decision{Grant: q.Grants[i].ID, Approve: true}
			if n := rapid.SampledFrom([]int{0, 20, 9000}).Draw(r, "narrow"); g.max > 0 && n > 0 {
				d.Constraints, _ = powerbox.ParseValue([]byte(fmt.Sprintf(`{"amount":{"max":%d}}`, n)))
				given[g] = min(g.max, n)
			} else {
				given[g] = g.max
			}
			answer.Decisions = append(answer.Decisions, d)
		}
	}
	_, err := m.provider.Answer(m.t.Context(), who, k.id, answer)
	agrees(r, "answering", err, can && !k.over && m.now.Before(k.expires) && stands)
	if err != nil {
		return
	}
	k.over = true
	for _, g := range k.grants {
		to, yes := given[g]
		switch {
		case g.status != agentauth.Pending:
		case yes:
			g.status, g.max = agentauth.Active, to
		default:
			g.status = agentauth.Denied
		}
	}
	switch {
	case k.kind == provider.ForCapability:
	case deny:
		a.status = agentauth.Rejected
		if h.status == agentauth.Pending {
			m.rejectHost(h)
		}
	default:
		if h.user == "" && !a.autonomous {
			m.link(h, who.Principal, m.now)
		}
		h.status, a.status, a.active, a.used, a.written = agentauth.Active, agentauth.Active, m.now, m.now, m.now
	}
}

func (m *machine) rejectHost(h *modelHost) {
	h.status = agentauth.Rejected
	for _, a := range h.agents {
		if over(a.status) {
			continue
		}
		a.status = agentauth.Rejected
		for _, g := range pendingOf(a) {
			g.status = agentauth.Denied
		}
		m.dismiss(a)
	}
}

// come authenticates an agent, as in the model.
func (m *machine) come(r *rapid.T, a *modelAgent) (provider.Session, bool) {
	a.member.host = a.host.key
	s, err := a.session(claims{"aud": bankURL})
	ok := a.host.status == agentauth.Active && a.state(m.now) == agentauth.Active
	agrees(r, "authenticating an agent", err, ok)
	if ok {
		if a.used = m.now; m.now.Sub(a.written) >= 3*time.Minute {
			a.written = m.now
		}
	}
	return s, ok
}

func (m *machine) request(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	s, ok := m.come(r, a)
	if !ok {
		return
	}
	ask, grants := wanted(r)
	fresh := slices.DeleteFunc(grants, func(g *modelGrant) bool { return a.admits(g.capability, g.max) })
	live := 0
	for _, g := range a.grants {
		if g.status == agentauth.Active || g.status == agentauth.Pending {
			live++
		}
	}
	out, err := m.provider.RequestCapability(m.t.Context(), s, ask, provider.Asking{})
	agrees(r, "asking for more", err, len(fresh) > 0 && live+len(fresh) <= 64)
	if err == nil {
		a.grants = append(a.grants, fresh...)
		m.asked(out, provider.ForCapability, a, fresh)
	}
}

func (m *machine) execute(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	name := rapid.SampledFrom([]string{"accounts", "balance", "transfer", "transfer", "close"}).Draw(r, "capability")
	amount := rapid.SampledFrom([]int{1, 20, 21, 50, 51, 500, 501, 1000, 1001}).Draw(r, "amount")
	s, ok := m.come(r, a)
	if !ok {
		return
	}
	_, err := m.provider.Execute(m.t.Context(), s, provider.Call{Capability: name, Arguments: value(m.t, fmt.Sprintf(`{"amount":%d}`, amount))})
	agrees(r, fmt.Sprintf("executing %s with %d", name, amount), err, a.admits(name, amount))
}

// comeHost authenticates a host that is to be active.
func (m *machine) comeHost(r *rapid.T, h *modelHost) (provider.HostSession, bool) {
	s, err := m.provider.AuthenticateHost(m.t.Context(), m.host(h.key), false)
	agrees(r, "authenticating a host", err, h.status == agentauth.Active)
	return s, err == nil
}

func (m *machine) reactivate(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	s, ok := m.comeHost(r, a.host)
	if !ok {
		return
	}
	state := a.state(m.now)
	out, err := m.provider.Reactivate(m.t.Context(), s, a.id)
	agrees(r, "reactivating", err, state == agentauth.Active || state == agentauth.Expired)
	switch {
	case state == agentauth.Revoked && !over(a.status):
		m.end(a, agentauth.Revoked)
	case state == agentauth.Expired:
		m.drop(a)
		g := &modelGrant{capability: "balance", status: agentauth.Pending}
		a.grants = append(a.grants, g)
		if a.host.user == "" {
			a.status = agentauth.Pending
			m.asked(out, provider.ForReactivation, a, []*modelGrant{g})
			return
		}
		g.status, a.active, a.used, a.written = agentauth.Active, m.now, m.now, m.now
	}
}

func (m *machine) revoke(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	if rapid.Bool().Draw(r, "by its host") {
		s, ok := m.comeHost(r, a.host)
		if !ok {
			return
		}
		agrees(r, "revoking", m.provider.Revoke(m.t.Context(), s, a.id), true)
	} else {
		who := person(r)
		err := m.provider.RevokeAgentAs(m.t.Context(), who, a.id)
		if agrees(r, "revoking as "+who.Principal, err, may(who, a.host)); err != nil {
			return
		}
	}
	if !over(a.status) {
		m.end(a, agentauth.Revoked)
	}
}

func (m *machine) revokeHost(r *rapid.T) {
	h := anyOf(r, "host", m.hosts)
	if rapid.Bool().Draw(r, "itself") {
		s, ok := m.comeHost(r, h)
		if !ok {
			return
		}
		agrees(r, "revoking a host", second(m.provider.RevokeHost(m.t.Context(), s)), true)
	} else {
		who := person(r)
		_, err := m.provider.RevokeHostAs(m.t.Context(), who, h.id)
		if agrees(r, "revoking a host as "+who.Principal, err, may(who, h)); err != nil {
			return
		}
	}
	m.endHost(h)
}

func (m *machine) revokeGrant(r *rapid.T) {
	a, who := anyOf(r, "agent", m.agents()), person(r)
	name := rapid.SampledFrom([]string{"accounts", "balance", "transfer", "close"}).Draw(r, "capability")
	_, err := m.provider.RevokeGrantAs(m.t.Context(), who, a.id, name)
	if agrees(r, "revoking a grant", err, may(who, a.host)); err != nil {
		return
	}
	for _, g := range a.grants {
		if g.capability == name && (g.status == agentauth.Active || g.status == agentauth.Pending) {
			g.status = agentauth.Revoked
		}
	}
	for _, k := range m.asks { // of which nothing is left
		if k.agent == a && k.kind == provider.ForCapability && !slices.ContainsFunc(k.grants, func(g *modelGrant) bool { return g.status == agentauth.Pending }) {
			k.over = true
		}
	}
}

func (m *machine) grant(r *rapid.T) {
	a, who := anyOf(r, "agent", m.agents()), person(r)
	ask, grants := wanted(r)
	if len(ask) == 0 {
		return
	}
	_, err := m.provider.GrantAs(m.t.Context(), who, a.id, ask[0])
	if agrees(r, "granting", err, may(who, a.host) && a.state(m.now) == agentauth.Active && (ask[0].Name != "close" || ask[0].Constraints.Kind() != powerbox.KindNull)); err == nil && !a.admits(grants[0].capability, grants[0].max) {
		grants[0].status = agentauth.Active
		a.grants = append(a.grants, grants[0])
	}
}

func (m *machine) unlink(r *rapid.T) {
	h, who := anyOf(r, "host", m.hosts), person(r)
	_, err := m.provider.Unlink(m.t.Context(), who, h.id)
	if agrees(r, "unlinking", err, may(who, h)); err != nil {
		return
	}
	for _, k := range m.asks { // the former user's questions are dropped
		if k.over || k.agent.host != h || h.user == "" {
			continue
		}
		k.over = true
		if k.kind == provider.ForCapability && k.agent.autonomous && k.agent.status != agentauth.Pending {
			for _, g := range pendingOf(k.agent) {
				g.status = agentauth.Denied
			}
		}
	}
	h.user = ""
	for _, a := range h.agents {
		if !a.autonomous && !over(a.status) {
			m.end(a, agentauth.Revoked)
		}
	}
}

func (m *machine) linkAs(r *rapid.T) {
	h, who := anyOf(r, "host", m.hosts), person(r)
	err := link(m.t, m.provider, who, h.id, alice.Principal)
	if agrees(r, "linking", err, who.Principal == root.Principal && h.user == "" && !over(h.status)); err == nil {
		m.link(h, alice.Principal, m.now)
	}
}

func (m *machine) forgetUser(r *rapid.T) {
	who := person(r)
	_, err := m.provider.ForgetUser(m.t.Context(), who, bob.Principal)
	if agrees(r, "forgetting a user", err, who.Principal == root.Principal); err != nil {
		return
	}
	for _, h := range m.hosts {
		if h.user == bob.Principal {
			m.endHost(h)
		}
	}
}

func (m *machine) rotate(r *rapid.T) {
	a := anyOf(r, "agent", m.agents())
	s, ok := m.comeHost(r, a.host)
	if !ok {
		return
	}
	k := m.key()
	_, err := m.provider.RotateKey(m.t.Context(), s, a.id, k.public.JWK())
	if agrees(r, "rotating", err, !over(a.state(m.now))); err == nil {
		a.key, a.written = k, a.used
	}
}

func (m *machine) rotateHost(r *rapid.T) {
	h := anyOf(r, "host", m.hosts)
	s, ok := m.comeHost(r, h)
	if !ok {
		return
	}
	k := m.key()
	agrees(r, "rotating a host's key", second(m.provider.RotateHostKey(m.t.Context(), s, k.public.JWK())), true)
	h.key = k
}

// restarted loses the state in memory: requests that are not worth a write.
func (m *machine) restarted(*rapid.T) {
	m.restart()
	for _, a := range m.agents() {
		a.used = a.written
	}
}

// check holds everything against the model, and against what may never be.
func (m *machine) check(r *rapid.T) {
	all, err := m.provider.Overview(m.t.Context(), root)
	if err != nil || len(all) != len(m.hosts) {
		r.Fatalf("%d hosts, %v; the model has %d", len(all), err, len(m.hosts))
	}
	for _, o := range all {
		h := m.hosts[slices.IndexFunc(m.hosts, func(h *modelHost) bool { return h.id == o.Host.ID })]
		if o.Host.Status != h.status || o.Host.User != h.user || len(o.Agents) != len(h.agents) {
			r.Fatalf("host %s is %s of %q; the model has %s of %q", h.id, o.Host.Status, o.Host.User, h.status, h.user)
		}
		for _, s := range o.Agents {
			m.checkAgent(r, h, s)
		}
	}
}

func (m *machine) checkAgent(r *rapid.T, h *modelHost, s provider.AgentState) {
	a := h.agents[slices.IndexFunc(h.agents, func(a *modelAgent) bool { return a.id == s.Agent.ID })]
	if s.Status != a.state(m.now) || (s.Agent.Mode == agentauth.Autonomous) != a.autonomous {
		r.Fatalf("agent %s is %s; the model has %s", a.id, s.Status, a.state(m.now))
	}
	if over(a.was) && s.Status != a.was {
		r.Fatalf("agent %s came back: %s after %s", a.id, s.Status, a.was)
	}
	if a.was = s.Status; s.Status == agentauth.Active && h.status != agentauth.Active {
		r.Fatalf("agent %s is active under a host that is %s", a.id, h.status)
	}
	var has, want []string
	for _, g := range s.Grants {
		var c struct{ Amount struct{ Max int } }
		if g.Constraints != nil && json.Unmarshal(g.Constraints, &c) != nil {
			r.Fatalf("constraints %s", g.Constraints)
		}
		if g.Effective(m.now) && g.GrantedBy == "" {
			r.Fatalf("grant %s is in force and nobody gave it", g.ID)
		}
		has = append(has, fmt.Sprintf("%s %d %s", g.Capability, c.Amount.Max, g.Status))
	}
	for _, g := range a.grants {
		want = append(want, fmt.Sprintf("%s %d %s", g.capability, g.max, g.status))
	}
	if slices.Sort(has); !slices.Equal(has, sorted(want)) {
		r.Fatalf("agent %s has %v; the model has %v", a.id, has, want)
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }
