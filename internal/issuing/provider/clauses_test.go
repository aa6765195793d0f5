package provider_test

import (
	"testing"
	"time"

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
	asks := func() (provider.Standing, error) {
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
