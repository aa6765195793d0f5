package provider_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPU6_InvitationsEnd enrolls a host within the hour of its invitation, and another one
// after it.
func TestAAPU6_InvitationsEnd(t *testing.T) {
	w := newTown(t)
	for after, want := range map[time.Duration]agentauth.Code{time.Hour - time.Second: "", time.Hour: agentauth.CodeInvitation} {
		token, _, err := w.provider.Invite(t.Context(), root, "desk", alice.Principal, nil)
		w.must(err)
		w.now = w.now.Add(after)
		_, err = w.provider.Enroll(t.Context(), token, "", w.key().public)
		w.want("AAP-U6 after "+after.String(), err, want)
	}
}

// TestAAPU3_HistoryIsTheUsers has a person take over from an agent that acts on its own: from
// then on it is that person's.
func TestAAPU3_HistoryIsTheUsers(t *testing.T) {
	w := newTown(t)
	m, out, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	if out.Status != agentauth.Active {
		t.Fatalf("the agent is %s; want active", out.Status)
	}
	claim, err := w.provider.AskClaim(t.Context(), w.hosted(m.host), m.id, provider.Asking{})
	w.must(err)
	_, err = w.approve(alice, claim.Challenge.Code)
	w.must(err)
	if s := m.standing(); s.Status != agentauth.Claimed || s.Agent.User != alice.Principal || s.Agent.Claim != agentauth.Claimed {
		t.Errorf("AAP-U3 the agent is %s, of %q; want claimed, of %q", s.Status, s.Agent.User, alice.Principal)
	}
}

// TestAAPL6_GrantsEndWithTheLifetimeOfTheirCapability keeps an agent alive beyond the time for
// which a capability is given.
func TestAAPL6_GrantsEndWithTheLifetimeOfTheirCapability(t *testing.T) {
	w := newTown(t, func(c *provider.Config) {
		for i := range c.Capabilities {
			if c.Capabilities[i].Name == "accounts" {
				c.Capabilities[i].Lifetime = time.Hour
			}
		}
	})
	m := w.active("accounts", "balance")
	for range 3 {
		w.want("AAP-L6 within the hour", m.execute("accounts", `{}`), "")
		w.now = w.now.Add(20 * time.Minute)
	}
	w.want("AAP-L6 after an hour", m.execute("accounts", `{}`), agentauth.CodeNotGranted)
	if s := m.standing(); s.Status != agentauth.Active {
		t.Errorf("the agent is %s; want active", s.Status)
	}
}

// TestAAPK4_WhatEndedStaysAsItEnded revokes a host with an agent that a person has rejected.
func TestAAPK4_WhatEndedStaysAsItEnded(t *testing.T) {
	w := newTown(t)
	first := w.active("balance")
	second, out, err := w.register(first.host, agentauth.Delegated, asked("transfer")...)
	w.must(err)
	_, err = w.provider.Answer(t.Context(), alice, out.Challenge.Approval.ID, provider.Answer{Deny: true})
	w.must(err)
	n, err := w.provider.RevokeHostAs(t.Context(), alice, first.standing().Host.ID)
	w.must(err)
	if n != 1 {
		t.Errorf("AAP-K4 %d agents ended; want 1", n)
	}
	if a, b := w.look(first.id), w.look(second.id); a.Status != agentauth.Revoked || b.Status != agentauth.Rejected {
		t.Errorf("AAP-K4 the agents are %s and %s; want revoked and rejected", a.Status, b.Status)
	}
}

// TestAAPQ4_WhatHasEndedCoversNothing asks again for a grant whose own end has come.
func TestAAPQ4_WhatHasEndedCoversNothing(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	asks := func() (provider.AgentState, error) {
		s, err := m.session(claims{"aud": bankURL})
		w.must(err)
		return w.provider.RequestCapability(t.Context(), s, asked("accounts"), provider.Asking{})
	}
	out, err := asks()
	w.must(err)
	_, err = w.provider.Answer(t.Context(), alice, out.Challenge.Approval.ID, provider.Answer{Decisions: []provider.Decision{{Grant: out.Grants[0].ID, Approve: true, Until: w.now.Add(10 * time.Minute)}}})
	w.must(err)
	_, err = asks()
	w.want("AAP-Q3 while it is in force", err, agentauth.CodeAlreadyGranted)
	w.now = w.now.Add(10 * time.Minute)
	out, err = asks()
	w.want("AAP-Q4 after its end", err, "")
	if out.Challenge == nil {
		t.Error("AAP-Q4 nobody is asked")
	}
}

// TestAAPV4_ReactivationLeavesTheAbsoluteLifetime reactivates an agent an hour before its
// absolute lifetime is over, counted from its creation.
func TestAAPV4_ReactivationLeavesTheAbsoluteLifetime(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	w.now = w.now.Add(11 * time.Hour)
	out, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if out.Status != agentauth.Active {
		t.Fatalf("the agent is %s; want active", out.Status)
	}
	for range 3 {
		w.now = w.now.Add(19 * time.Minute)
		w.want("AAP-V4 within the absolute lifetime", m.execute("balance", `{}`), "")
	}
	w.now = w.now.Add(3 * time.Minute)
	w.want("AAP-V4 after it", m.execute("balance", `{}`), agentauth.CodeAgentRevoked)
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.want("AAP-V2 after it", err, agentauth.CodeAbsoluteLifetime)
	if a := w.look(m.id); a.Agent.Status != agentauth.Revoked {
		t.Errorf("AAP-V2 the agent is stored as %s; want revoked", a.Agent.Status)
	}
}

// TestAAPK2_WhatEndedKeepsItsKey has a host give a new key to an agent that was revoked.
func TestAAPK2_WhatEndedKeepsItsKey(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	w.must(w.provider.RevokeAgentAs(t.Context(), alice, m.id))
	next := w.key()
	_, err := w.provider.RotateKey(t.Context(), w.hosted(m.host), m.id, next.public.JWK())
	w.want("AAP-K2 a revoked agent", err, agentauth.CodeAgentRevoked)
	if a := w.look(m.id); a.Agent.Thumbprint != m.key.public.Thumbprint() {
		t.Error("AAP-K2 a revoked agent has a new key")
	}
}

// TestAAPA11_WhatWasActiveIsKept leaves an agent waiting for more than a day that was active
// before: what it did stays known with it.
func TestAAPA11_WhatWasActiveIsKept(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.Clocks.Absolute = 72 * time.Hour })
	m, _, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = w.now.Add(31 * time.Minute)
	out, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if out.Status != agentauth.Pending {
		t.Fatalf("the agent is %s; want pending", out.Status)
	}
	w.now = w.now.Add(25 * time.Hour)
	if n, err := w.provider.Clean(t.Context()); err != nil || n != 0 {
		t.Errorf("AAP-A11 %d agents are forgotten, %v; want none", n, err)
	}
	if a := w.look(m.id); a.Status != agentauth.Pending {
		t.Errorf("AAP-A11 the agent is %s; want pending", a.Status)
	}
}

// TestAAPR7_OneRequestHasABound asks for more capabilities at once than a person could
// read.
func TestAAPR7_OneRequestHasABound(t *testing.T) {
	w := newTown(t)
	for n, want := range map[int]agentauth.Code{64: "", 65: agentauth.CodeInvalidRequest} {
		var many []provider.Asked
		for range n {
			many = append(many, asked("balance")...)
		}
		_, _, err := w.register(w.key(), agentauth.Delegated, many...)
		w.want("AAP-R7", err, want)
	}
}

// TestAAPE1_NoArgumentsAreAnEmptyObject executes a capability without arguments.
func TestAAPE1_NoArgumentsAreAnEmptyObject(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	s, err := m.session()
	w.must(err)
	_, err = w.provider.Execute(t.Context(), s, provider.Call{Capability: "balance"})
	w.must(err)
	if len(w.service.did) != 1 || w.service.did[0].Arguments.Kind() != powerbox.KindObject {
		t.Errorf("AAP-E1 the service was asked for %+v; want one call with an object", w.service.did)
	}
}

// TestAAPM2_ARejectionSparesWhatEnded rejects a host under which an agent was revoked before.
func TestAAPM2_ARejectionSparesWhatEnded(t *testing.T) {
	w := newTown(t)
	first, out, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	second, _, err := w.register(first.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	third, _, err := w.register(first.host, agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.must(w.provider.RevokeAgentAs(t.Context(), root, second.id))
	_, err = w.provider.ByCode(t.Context(), alice, first.code)
	w.must(err)
	_, err = w.provider.Answer(t.Context(), alice, out.Challenge.Approval.ID, provider.Answer{Deny: true})
	w.must(err)
	for id, want := range map[string]agentauth.Status{first.id: agentauth.Rejected, second.id: agentauth.Revoked, third.id: agentauth.Rejected} {
		if a := w.look(id); a.Status != want {
			t.Errorf("AAP-M2 an agent of a rejected host is %s; want %s", a.Status, want)
		}
	}
}

// TestAAPR12_WhatBecameHighRiskWaits has a host whose own default the operator calls
// high-risk later: no agent has it unasked from then on.
func TestAAPR12_WhatBecameHighRiskWaits(t *testing.T) {
	w := newTown(t)
	host := w.key()
	_, err := w.provider.PreRegister(t.Context(), root, "ci", alice.Principal, host.public, []string{"accounts"})
	w.must(err)
	if _, out, err := w.register(host, agentauth.Delegated, asked("accounts")...); err != nil || out.Status != agentauth.Active {
		t.Fatalf("the default is %s, %v; want active", out.Status, err)
	}
	for i := range w.config.Capabilities {
		if c := &w.config.Capabilities[i]; c.Name == "accounts" {
			c.Sensitivity, c.Autonomous = provider.High, false
		}
	}
	w.restart()
	w.now = w.now.Add(time.Minute)
	if _, out, err := w.register(host, agentauth.Delegated, asked("accounts")...); err != nil || out.Status != agentauth.Pending {
		t.Errorf("AAP-R12 what became high-risk is %s, %v; want pending", out.Status, err)
	}
}

// TestAAPA2_ACodeIsGoodForOneAnswer enters a code again after the answer, and one after its time.
func TestAAPA2_ACodeIsGoodForOneAnswer(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	_, err := w.provider.ByCode(t.Context(), alice, m.code)
	w.want("AAP-A2 after the answer", err, agentauth.CodeNotFound)
	late, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.now = w.now.Add(10 * time.Minute)
	_, err = w.provider.ByCode(t.Context(), alice, late.code)
	w.want("AAP-A2 after its time", err, agentauth.CodeNotFound)
}
