package provider_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPL1_Clocks: a session ends without requests, a life after its maximum, and
// everything at the absolute end; each request counts, also after a restart.
func TestAAPL1_Clocks(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	for range 7 { // until just before the maximum
		w.now = w.now.Add(29 * time.Minute)
		w.want("AAP-L1: kept alive", m.execute("balance", `{}`), "")
	}
	w.restart()
	w.now = w.now.Add(29 * time.Minute)
	w.want("AAP-L1: after a restart", m.execute("balance", `{}`), "")
	w.now = noon.Add(4 * time.Hour)
	w.want("AAP-L2: the maximum", m.execute("balance", `{}`), agentauth.CodeAgentExpired)
	if s := m.standing(); s.Status != agentauth.Expired || !s.Expires.IsZero() {
		t.Errorf("AAP-L5: %s until %s", s.Status, s.Expires)
	}
	out, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if out.Status != agentauth.Active || !out.Agent.Activated.Equal(w.now) {
		t.Errorf("AAP-V4: %s, activated %s", out.Status, out.Agent.Activated)
	}
	w.now = noon.Add(12 * time.Hour)
	if s := m.standing(); s.Status != agentauth.Revoked {
		t.Errorf("AAP-L3: %s at the absolute end", s.Status)
	}
	w.want("AAP-L3", m.execute("balance", `{}`), agentauth.CodeAgentRevoked)
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.want("AAP-V2", err, agentauth.CodeAbsoluteLifetime)
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.want("AAP-V2: again", err, agentauth.CodeAgentRevoked)
}

// TestAAPL1_RequestsThatCountAfterARestart: however often an agent asks, the stored time
// of its last request is young enough.
func TestAAPL1_RequestsThatCountAfterARestart(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	for range 25 {
		w.now = w.now.Add(2 * time.Minute)
		w.want("AAP-L1: a request", m.execute("balance", `{}`), "")
	}
	w.now = w.now.Add(29 * time.Minute)
	w.want("AAP-L1: a request that was not stored counts, too", m.execute("balance", `{}`), "")
	w.restart()
	if s := m.standing(); s.Status != agentauth.Active || w.now.Sub(s.Agent.LastUsed) > 4*time.Minute {
		t.Errorf("AAP-L1: %s, used %s, after a restart at %s", s.Status, s.Agent.LastUsed, w.now)
	}
}

// TestAAPP5_Reactivation: an agent that comes back has its host's defaults, as
// they are now, and nothing that it was given besides.
func TestAAPP5_Reactivation(t *testing.T) {
	w := newTown(t)
	m := w.active("balance", "transfer", "close")
	if out, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id); err != nil || len(effective(w, out.Grants)) != 3 {
		t.Errorf("AAP-V1: an active agent: %v %v", effective(w, out.Grants), err)
	}
	w.now = w.now.Add(time.Hour)
	out, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if got := effective(w, m.standing().Grants); len(got) != 1 || got[0] != "balance" || out.Expires.IsZero() {
		t.Errorf("AAP-P5: %v", got)
	}
	if a := m.standing().Agent; !a.Activated.Equal(w.now) || a.Created.Equal(w.now) {
		t.Errorf("AAP-V4: created %s and activated %s, at %s", a.Created, a.Activated, w.now)
	}
	w.want("AAP-V3: what it was given", m.execute("transfer", `{"amount":1}`), agentauth.CodeNotGranted)
	w.want("AAP-V3: the default", m.execute("balance", `{}`), "")
	for i := range w.config.Capabilities {
		w.config.Capabilities[i].Default = w.config.Capabilities[i].Name == "accounts"
	}
	w.restart()
	w.now = w.now.Add(time.Hour)
	w.must(second(w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)))
	if got := effective(w, m.standing().Grants); len(got) != 1 || got[0] != "accounts" {
		t.Errorf("AAP-V3: the defaults of now: %v", got)
	}
	w.must(w.provider.Revoke(t.Context(), w.hosted(m.host), m.id))
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.want("AAP-V1: revoked", err, agentauth.CodeAgentRevoked)
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), "agt_nobody")
	w.want("AAP-V1: nobody", err, agentauth.CodeAgentNotFound)
}

// effective are the names of grants that are in force.
func effective(w *town, grants []provider.Grant) []string {
	var out []string
	for _, g := range grants {
		if g.Effective(w.now) {
			out = append(out, g.Capability)
		}
	}
	return out
}

// TestAAPS1_ForeignAgents: an agent is its host's alone to ask about and to end.
func TestAAPS1_ForeignAgents(t *testing.T) {
	w := newTown(t)
	m, other := w.active("balance"), w.active("balance")
	s := func() provider.HostSession { return w.hosted(other.host) }
	_, err := w.provider.Status(t.Context(), s(), m.id)
	w.want("AAP-S1: status", err, agentauth.CodeUnauthorized)
	w.want("AAP-K1: revoke", w.provider.Revoke(t.Context(), s(), m.id), agentauth.CodeUnauthorized)
	_, err = w.provider.Reactivate(t.Context(), s(), m.id)
	w.want("AAP-V1: reactivate", err, agentauth.CodeUnauthorized)
	_, err = w.provider.RotateKey(t.Context(), s(), m.id, w.key().public.JWK())
	w.want("AAP-K2: rotate", err, agentauth.CodeUnauthorized)
	for what, err := range map[string]error{
		"AAP-K7: revoke":      w.provider.RevokeAgentAs(t.Context(), bob, m.id),
		"AAP-K7: revoke host": second(w.provider.RevokeHostAs(t.Context(), bob, w.hostByKey(m.host))),
		"AAP-K8: a grant":     second(w.provider.RevokeGrantAs(t.Context(), bob, m.id, "balance")),
		"AAP-K8: give":        second(w.provider.GrantAs(t.Context(), bob, m.id, provider.Asked{Name: "accounts"})),
		"AAP-K6: unlink":      second(w.provider.Unlink(t.Context(), bob, w.hostByKey(m.host))),
		"AAP-U4: link":        link(t, w.provider, bob, w.hostByKey(m.host), "user:bob"),
		"AAP-K5: forget":      second(w.provider.ForgetUser(t.Context(), bob, "user:alice")),
		"AAP-U6: a host":      second(w.provider.PreRegister(t.Context(), bob, "h", "user:bob", w.key().public, nil)),
	} {
		if code(err) == "" {
			t.Errorf("%s by another user was done", what)
		}
	}
	w.want("it goes on", m.execute("balance", `{}`), "")
}

// TestAAPK2_Keys: a key that was replaced is dead, and a new one is new.
func TestAAPK2_Keys(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	other, _, err := w.register(m.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	rotate := func(k okp) error {
		return second(w.provider.RotateKey(t.Context(), w.hosted(m.host), m.id, k.public.JWK()))
	}
	w.want("AAP-K2: its own", rotate(m.key), agentauth.CodeInvalidRequest)
	w.want("AAP-K2: its host's", rotate(m.host), agentauth.CodeInvalidRequest)
	w.want("AAP-K2: another agent's", rotate(other.key), agentauth.CodeInvalidRequest)
	old := *m
	m.key = w.key()
	w.want("AAP-K2", rotate(m.key), "")
	w.want("AAP-K2: the old key", old.execute("balance", `{}`), agentauth.CodeInvalidJWT)
	w.want("AAP-K2: the new key", m.execute("balance", `{}`), "")
	fresh, third := w.key(), w.active("balance")
	host := func(k okp) error {
		return second(w.provider.RotateHostKey(t.Context(), w.hosted(m.host), k.public.JWK()))
	}
	w.want("AAP-K3: its own", host(m.host), agentauth.CodeInvalidRequest)
	w.want("AAP-K3: another host's", host(third.host), agentauth.CodeInvalidRequest)
	w.want("AAP-K3", host(fresh), "")
	w.want("AAP-K3: the old key", m.execute("balance", `{}`), agentauth.CodeInvalidJWT)
	_, err = w.provider.AuthenticateHost(t.Context(), w.host(m.host), false)
	w.want("AAP-K3: the old key is a stranger's", err, agentauth.CodeHostNotFound)
	m.host = fresh
	w.want("AAP-K3: the agent goes on", m.execute("balance", `{}`), "")
	w.must(w.provider.Revoke(t.Context(), w.hosted(m.host), m.id))
	w.want("AAP-K1: no key for what has ended", rotate(w.key()), agentauth.CodeAgentRevoked)
}

// TestATK51_WhatEndedInTheMeantime: the one who was authenticated a moment before an
// end brings nothing back.
func TestATK51_WhatEndedInTheMeantime(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	before := func(c ...claims) provider.HostSession { return w.hosted(m.host, c...) }
	key := w.key()
	one, two, three, four := before(), before(), before(), before(claims{"agent_public_key": key.jwk()})
	agent, err := m.session(claims{"aud": bankURL})
	w.must(err)
	execution, err := m.session()
	w.must(err)
	w.now = w.now.Add(time.Hour)
	w.must(second(w.provider.RevokeHostAs(t.Context(), alice, w.hostByKey(m.host))))
	_, err = w.provider.Reactivate(t.Context(), one, m.id)
	w.want("ATK-51: reactivated", err, agentauth.CodeHostRevoked)
	_, err = w.provider.RotateHostKey(t.Context(), two, w.key().public.JWK())
	w.want("ATK-51: another key", err, agentauth.CodeHostRevoked)
	_, err = w.provider.RevokeHost(t.Context(), three)
	w.want("ATK-51: revoked by a host that was", err, agentauth.CodeHostRevoked)
	_, err = w.provider.Register(t.Context(), four, provider.Registration{Name: "New"})
	w.want("ATK-51: registered", err, agentauth.CodeHostRevoked)
	_, err = w.provider.RequestCapability(t.Context(), agent, asked("accounts"), provider.Asking{})
	w.want("ATK-51: asked for more", err, agentauth.CodeHostRevoked)
	_, err = w.provider.Execute(t.Context(), execution, provider.Call{Capability: "balance", Arguments: value(t, `{}`)})
	w.want("ATK-51, AAP-E10: executed", err, agentauth.CodeNotGranted)
	if len(w.service.did) != 0 {
		t.Error("AAP-E10: the service was asked")
	}
}

// TestATK51_AKeyThatWasReplacedInTheMeantime registers nothing.
func TestATK51_AKeyThatWasReplacedInTheMeantime(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	s := w.hosted(m.host, claims{"agent_public_key": w.key().jwk()})
	again := w.hosted(m.host)
	w.must(second(w.provider.RotateHostKey(t.Context(), w.hosted(m.host), w.key().public.JWK())))
	_, err := w.provider.Register(t.Context(), s, provider.Registration{Name: "New", Capabilities: asked("balance")})
	w.want("ATK-51, AAP-K3", err, agentauth.CodeInvalidJWT)
	w.want("ATK-51, AAP-K3: revoke", w.provider.Revoke(t.Context(), again, m.id), agentauth.CodeInvalidJWT)
}

// TestAAPM2_EndsOfHosts: a host's end ends its agents and grants, for good; a rejected
// one is not revoked afterwards.
func TestAAPM2_EndsOfHosts(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	waits, _, err := w.register(m.host, agentauth.Delegated, asked("transfer")...)
	w.must(err)
	n, err := w.provider.RevokeHost(t.Context(), w.hosted(m.host))
	if w.must(err); n != 2 {
		t.Errorf("AAP-K4: %d agents; want 2", n)
	}
	for _, a := range []*member{m, waits} {
		if s := w.look(a.id); s.Status != agentauth.Revoked || len(effective(w, s.Grants)) > 0 {
			t.Errorf("AAP-M2: %s with %v", s.Status, effective(w, s.Grants))
		}
	}
	_, err = w.approve(alice, waits.code)
	w.want("AAP-M2: what waited cannot be approved", err, agentauth.CodeNotFound)
	lone, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	beside, _, err := w.register(lone.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), bob, lone.code)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), bob, q.Approval.ID, provider.Answer{Deny: true})))
	if s := w.look(beside.id); s.Status != agentauth.Rejected || s.Grants[0].Status != agentauth.Denied {
		t.Errorf("AAP-M2: beside a rejected agent: %s %s", s.Status, s.Grants[0].Status)
	}
	w.must(second(w.provider.RevokeHostAs(t.Context(), root, w.look(lone.id).Host.ID)))
	if s := w.look(lone.id); s.Host.Status != agentauth.Rejected || s.Status != agentauth.Rejected {
		t.Errorf("AAP-M2: rejected became %s, its agent %s", s.Host.Status, s.Status)
	}
}

// look is an agent as an administrator sees it.
func (w *town) look(agent string) provider.AgentState {
	w.t.Helper()
	all, err := w.provider.Overview(w.t.Context(), root)
	w.must(err)
	for _, h := range all {
		for _, a := range h.Agents {
			if a.Agent.ID == agent {
				return a
			}
		}
	}
	w.t.Fatalf("there is no agent %s", agent)
	return provider.AgentState{}
}

// TestAAPU3_Links: a host that gets a user claims its autonomous agents; one that
// loses its user loses its delegated ones.
func TestAAPU3_Links(t *testing.T) {
	w := newTown(t)
	h := w.key()
	m, out, err := w.register(h, agentauth.Autonomous, asked("accounts")...)
	if w.must(err); out.Status != agentauth.Active {
		t.Fatalf("AAP-U2: %+v", out)
	}
	waits, out, err := w.register(h, agentauth.Autonomous, asked("accounts", "balance")...)
	if w.must(err); out.Status != agentauth.Pending {
		t.Errorf("AAP-U2: what an operator has not allowed: %s", out.Status)
	}
	_, err = w.approve(alice, waits.code)
	w.want("AAP-U2: by anybody", err, agentauth.CodeNotFound)
	w.must(second(w.approve(root, waits.code)))
	w.want("AAP-U4: by a user", link(t, w.provider, alice, out.Host.ID, "user:alice"), agentauth.CodeUnauthorized)
	w.want("AAP-U4: nobody", link(t, w.provider, root, out.Host.ID, ""), agentauth.CodeInvalidRequest)
	w.must(link(t, w.provider, root, out.Host.ID, "user:alice"))
	w.want("AAP-U3: claimed", m.execute("accounts", `{}`), agentauth.CodeAgentClaimed)
	w.want("AAP-U3: claimed", waits.execute("accounts", `{}`), agentauth.CodeAgentClaimed)
	w.want("AAP-M6", link(t, w.provider, root, out.Host.ID, "user:bob"), agentauth.CodeInvalidRequest)
	d, out, err := w.register(h, agentauth.Delegated, asked("balance")...)
	if w.must(err); out.Status != agentauth.Active || out.Agent.User != "user:alice" {
		t.Errorf("AAP-U5: %s for %q", out.Status, out.Agent.User)
	}
	w.must(second(w.provider.Unlink(t.Context(), alice, out.Host.ID)))
	w.want("AAP-K6", d.execute("balance", `{}`), agentauth.CodeAgentRevoked)
	if s := w.look(d.id); s.Host.Status != agentauth.Active || s.Host.User != "" {
		t.Errorf("AAP-K6: %s, %q", s.Host.Status, s.Host.User)
	}
}

// TestAAPA11_WhatNobodyApproved is forgotten after a day, and nothing else.
func TestAAPA11_WhatNobodyApproved(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	stale, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	beside, _, err := w.register(m.host, agentauth.Delegated, asked("transfer")...)
	w.must(err)
	clean := func(want int) {
		t.Helper()
		if n, err := w.provider.Clean(t.Context()); err != nil || n != want {
			t.Errorf("AAP-A11: %d forgotten, %v; want %d", n, err, want)
		}
	}
	w.now = w.now.Add(24*time.Hour - time.Second)
	clean(0)
	late, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.now = w.now.Add(time.Second)
	clean(2)
	if w.hostByKey(stale.host) != "" || w.hostByKey(m.host) == "" || w.hostByKey(late.host) == "" {
		t.Error("AAP-A11: the wrong hosts are forgotten")
	}
	_, err = w.provider.Status(t.Context(), w.hosted(m.host), beside.id)
	w.want("AAP-A11: the agent", err, agentauth.CodeAgentNotFound)
	if s := m.standing(); s.Agent.ID != m.id {
		t.Errorf("AAP-A11: %+v", s)
	}
	again, _, err := w.register(stale.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	_, err = w.approve(bob, again.code)
	w.want("AAP-A11: deleted, not revoked", err, "")
}

// TestAAPM5_ModesStay: whatever is done with an agent, its mode is the one that it
// was registered with.
func TestAAPM5_ModesStay(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	other := func(wanted ...provider.Asked) (provider.AgentState, error) {
		return w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Other", Mode: agentauth.Autonomous, Capabilities: wanted})
	}
	w.want("AAP-R11: for more", second(other(asked("balance", "accounts")...)), agentauth.CodeAgentExists)
	again, err := other(asked("balance")...)
	w.must(err)
	if again.Agent.ID != m.id || again.Agent.Mode != agentauth.Delegated {
		t.Errorf("AAP-M5: %s became %s", m.id, again.Agent.Mode)
	}
	w.must(second(w.approve(alice, again.Challenge.Code)))
	_, err = w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Other", Mode: agentauth.Autonomous})
	w.want("AAP-M5: once it is active", err, agentauth.CodeAgentExists)
	w.now = w.now.Add(time.Hour)
	w.must(second(w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)))
	if s := m.standing(); s.Agent.Mode != agentauth.Delegated {
		t.Errorf("AAP-M5: %s after a reactivation", s.Agent.Mode)
	}
}

// TestAAPZ3_Retention: what has ended is kept for as long as it is said, and then gone;
// what continues stays.
func TestAAPZ3_Retention(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.Retention = 48 * time.Hour })
	ended, goesOn := w.active("balance"), w.active("balance")
	w.must(w.provider.RevokeAgentAs(t.Context(), alice, ended.id))
	w.now = w.now.Add(47 * time.Hour)
	_, err := w.provider.Clean(t.Context())
	w.must(err)
	status := func(m *member) error { return second(w.provider.Status(t.Context(), w.hosted(m.host), m.id)) }
	w.want("kept", status(ended), "")
	w.now = w.now.Add(2 * time.Hour)
	n, err := w.provider.Clean(t.Context())
	w.must(err)
	w.want("gone", status(ended), agentauth.CodeAgentNotFound)
	// Its absolute lifetime was over 37 hours ago, which is not long enough.
	w.want("the other", status(goesOn), "")
	if n != 1 {
		t.Errorf("%d agents are forgotten; want 1", n)
	}
	w.now = w.now.Add(12 * time.Hour)
	_, err = w.provider.Clean(t.Context())
	w.must(err)
	w.want("by the clock", status(goesOn), agentauth.CodeAgentNotFound)
}
