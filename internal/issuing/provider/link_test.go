package provider_test

import (
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// withPay adds a default that changes something.
func withPay(c *provider.Config) {
	c.Capabilities = append(c.Capabilities, provider.Capability{Name: "pay", Description: "Pay a bill", Sensitivity: provider.Write, Default: true})
}

// absent is someone who has logged in just now, and has not shown to be there.
func absent(who provider.Person) provider.Person {
	return peopletest.Person(people.Claim{Principal: who.Principal, Fresh: true})
}

// TestAAPA7_AHostThatBecomesYours: the one who links a host gives its agents the defaults
// of it for good, and must be there where one of them changes something, whatever
// was asked for (AAP-P3, AAP-A10).
func TestAAPA7_AHostThatBecomesYours(t *testing.T) {
	w := newTown(t, withPay)
	for name, names := range map[string][]string{"asking to read": {"balance"}, "asking for nothing": nil} {
		m, _, err := w.register(w.key(), agentauth.Delegated, asked(names...)...)
		w.must(err)
		for _, who := range []provider.Person{alice, root} {
			_, err = w.approve(absent(who), m.code)
			w.want(name+", by "+who.Principal, err, agentauth.CodeUnauthorized)
		}
		if s := w.look(m.id); s.Status != agentauth.Pending || s.Host.User != "" || s.Host.Status != agentauth.Pending {
			t.Errorf("%s: %s under a host that is %s of %q", name, s.Status, s.Host.Status, s.Host.User)
		}
		w.must(second(w.approve(alice, m.code)))
		_, out, err := w.register(m.host, agentauth.Delegated, asked("pay")...)
		if w.must(err); out.Status != agentauth.Active || out.Agent.User != alice.Principal {
			t.Errorf("AAP-R4: %s for %q", out.Status, out.Agent.User)
		}
		more, err := w.more(m, asked("accounts")...)
		w.must(err)
		w.want("what reads, of a host that is linked", second(w.approve(absent(alice), more.Challenge.Code)), "")
	}
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), absent(bob), m.code)
	w.must(err)
	w.want("a denial", second(w.provider.Answer(t.Context(), absent(bob), q.Approval.ID, provider.Answer{Deny: true})), "")

	auto, _, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	claim, err := w.provider.AskClaim(t.Context(), w.hosted(auto.host), auto.id, provider.Asking{})
	w.must(err)
	take := func(who provider.Person) error {
		return second(w.provider.Answer(t.Context(), who, claim.Challenge.Approval.ID, provider.Answer{}))
	}
	w.want("taking over", take(absent(bob)), agentauth.CodeUnauthorized)
	w.want("still its own", auto.execute("accounts", `{}`), "")
	w.want("taking over, present", take(bob), "")
}

// TestAAPP3_HostsThatNobodyVouchedFor: agents must ask for a default that came to change
// something after their host was linked, and an answer to the earlier page is refused.
func TestAAPP3_HostsThatNobodyVouchedFor(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.want("all that is had at once reads", second(w.approve(absent(alice), m.code)), "")
	waits, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), bob, waits.code)
	w.must(err)
	seen := w.provider.Digest(q)
	withPay(&w.config)
	w.restart()
	_, err = w.provider.Answer(t.Context(), bob, q.Approval.ID, provider.Answer{Seen: seen})
	w.want("ATK-49: what it gives has changed", err, agentauth.CodeChanged)

	status := func(name string) agentauth.Status {
		t.Helper()
		_, out, err := w.register(m.host, agentauth.Delegated, asked(name)...)
		w.must(err)
		return out.Status
	}
	if pay, balance := status("pay"), status("balance"); pay != agentauth.Pending || balance != agentauth.Active {
		t.Errorf("AAP-A7: pay %s, balance %s; want pending and active", pay, balance)
	}
	w.now = w.now.Add(time.Hour)
	back, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if got := effective(w, back.Grants); !slices.Equal(got, []string{"balance"}) {
		t.Errorf("AAP-V3, AAP-A7: %v after a reactivation", got)
	}
	host := back.Host.ID
	w.want("AAP-M6: a host has one user", link(t, w.provider, root, host, bob.Principal), agentauth.CodeInvalidRequest)
	if h := w.look(m.id).Host; h.User != alice.Principal || h.Vouched {
		t.Errorf("AAP-M6: the host is of %q, vouched for: %v", h.User, h.Vouched)
	}
	w.must(second(w.provider.Unlink(t.Context(), absent(alice), host)))
	w.must(link(t, w.provider, root, host, alice.Principal))
	if pay := status("pay"); pay != agentauth.Active {
		t.Errorf("AAP-U4: %s where an administrator linked it", pay)
	}
}

// TestAAPU3_WhatIsNotStoredYet: an autonomous agent is claimed that is active by a
// request which the store does not have, of this node or another.
func TestAAPU3_WhatIsNotStoredYet(t *testing.T) {
	for name, node := range map[string]func(*town){"here": func(*town) {}, "at another node": func(w *town) { w.restart() }} {
		w := newTown(t)
		m, out, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
		w.must(err)
		over, _, err := w.register(m.host, agentauth.Autonomous, asked("accounts")...)
		w.must(err)
		w.now = noon.Add(170 * time.Second)
		w.want("the request", m.execute("accounts", `{}`), "")
		w.now = noon.Add(32*time.Minute + 30*time.Second)
		first := w.provider
		node(w)
		w.must(link(t, w.provider, root, out.Host.ID, alice.Principal))
		w.now = w.now.Add(10 * time.Second)
		first.Forget()
		w.want("AAP-U3 "+name, m.execute("accounts", `{}`), agentauth.CodeAgentClaimed)
		if s := w.look(m.id); s.Agent.User != alice.Principal || len(effective(w, s.Grants)) > 0 {
			t.Errorf("AAP-U3 %s: of %q with %v", name, s.Agent.User, effective(w, s.Grants))
		}
		if s := w.look(over.id); name == "here" && s.Status != agentauth.Claimed {
			t.Errorf("AAP-U3: within a tenth of its session: %s", s.Status)
		}
	}
}

// TestAAPU3_WhatHasExpired is not claimed, and comes back with what the defaults of
// its host are by then (sections 2.10 and 5.6).
func TestAAPU3_WhatHasExpired(t *testing.T) {
	w := newTown(t)
	m, out, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = noon.Add(33 * time.Minute)
	w.must(link(t, w.provider, root, out.Host.ID, alice.Principal))
	if s := w.look(m.id); s.Status != agentauth.Expired {
		t.Fatalf("%s", s.Status)
	}
	back, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.must(err)
	if got := effective(w, back.Grants); back.Status != agentauth.Active || !slices.Equal(got, []string{"balance"}) {
		t.Errorf("AAP-V3: %s with %v", back.Status, got)
	}
}

// TestAAPU3_TakingOverWhatIsNotStoredYet: who takes over can, while the agent is active
// by what this node knows.
func TestAAPU3_TakingOverWhatIsNotStoredYet(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = noon.Add(170 * time.Second)
	w.want("the request", m.execute("accounts", `{}`), "")
	w.now = noon.Add(28 * time.Minute)
	claim, err := w.provider.AskClaim(t.Context(), w.hosted(m.host), m.id, provider.Asking{})
	w.must(err)
	w.now = noon.Add(35 * time.Minute)
	w.want("AAP-U3", second(w.provider.Answer(t.Context(), alice, claim.Challenge.Approval.ID, provider.Answer{})), "")
	if s := w.look(m.id); s.Status != agentauth.Claimed {
		t.Errorf("AAP-U3: %s", s.Status)
	}
}

// TestAAPR10_BlockedDefaults: no default gives a blocked capability.
func TestAAPR10_BlockedDefaults(t *testing.T) {
	w := newTown(t)
	for name, change := range map[string]func(*provider.Capability){
		"a default":         func(c *provider.Capability) { c.Default = true },
		"autonomous agents": func(c *provider.Capability) { c.Autonomous = true },
	} {
		bad := w.config
		bad.Capabilities = slices.Clone(bad.Capabilities)
		i := slices.IndexFunc(bad.Capabilities, func(c provider.Capability) bool { return c.Blocked })
		change(&bad.Capabilities[i])
		if _, err := provider.New(bad); err == nil {
			t.Errorf("AAP-R10 %s: taken, and blocked", name)
		}
	}
	own := w.key()
	_, err := w.provider.PreRegister(t.Context(), root, "h", alice.Principal, own.public, []string{"audit"})
	w.want("AAP-R10: a host's own default", err, agentauth.CodeInvalidCapability)
	// A host's own default that is blocked since.
	_, err = w.provider.PreRegister(t.Context(), root, "h", alice.Principal, own.public, []string{"balance", "accounts"})
	w.must(err)
	m, out, err := w.register(own, agentauth.Delegated, asked("accounts")...)
	if w.must(err); out.Status != agentauth.Active {
		t.Fatalf("AAP-P3: %s", out.Status)
	}
	for i := range w.config.Capabilities {
		w.config.Capabilities[i].Blocked = w.config.Capabilities[i].Name == "accounts"
		w.config.Capabilities[i].Autonomous = false
	}
	w.restart()
	w.now = w.now.Add(time.Hour)
	back, err := w.provider.Reactivate(t.Context(), w.hosted(own), m.id)
	w.must(err)
	if got := effective(w, back.Grants); !slices.Equal(got, []string{"balance"}) {
		t.Errorf("AAP-R10, AAP-V3: %v after a reactivation", got)
	}
}

// TestAAPL3_WhatWaits: the longest life ends waiting agents, too. No person is asked to
// approve one that is over the same instant, and it is forgotten like all that have
// ended.
func TestAAPL3_WhatWaits(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.Retention = time.Hour })
	m, _, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = noon.Add(12*time.Hour - 5*time.Minute)
	back, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	if w.must(err); back.Status != agentauth.Pending {
		t.Fatalf("AAP-V3: %s", back.Status)
	}
	w.now = noon.Add(12 * time.Hour)
	if s := m.standing(); s.Status != agentauth.Revoked {
		t.Errorf("AAP-L5: %s", s.Status)
	}
	_, err = w.provider.Answer(t.Context(), root, back.Challenge.Approval.ID, provider.Answer{})
	w.want("AAP-L3: approved", err, agentauth.CodeAlreadyGranted)
	_, err = w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Tester", Mode: agentauth.Autonomous})
	w.want("AAP-R6: registered again", err, agentauth.CodeAgentExists)
	_, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	w.want("AAP-V2", err, agentauth.CodeAbsoluteLifetime)
	waits, _, err := w.register(m.host, agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = w.now.Add(12*time.Hour - time.Minute)
	w.must(second(w.provider.Reactivate(t.Context(), w.hosted(m.host), waits.id)))
	w.now = w.now.Add(2 * time.Hour)
	w.must(second(w.provider.Clean(t.Context())))
	_, err = w.provider.Status(t.Context(), w.hosted(m.host), waits.id)
	w.want("AAP-Z3: it is kept no longer than others", err, agentauth.CodeAgentNotFound)
}

// TestATK49_WhatThePageShowsIsInTheDigest refuses an answer to a page whose names,
// currencies or numbers of uses have changed since.
func TestATK49_WhatThePageShowsIsInTheDigest(t *testing.T) {
	for name, change := range map[string]func(c *provider.Capability){
		"schema": func(c *provider.Capability) {
			c.Input = value(t, `{"type":"object","properties":{"amount":{"type":"number","x-currency":"JPY"}}}`)
		},
		"uses": func(c *provider.Capability) { c.Budgets.Uses = 7 },
		"sum":  func(c *provider.Capability) { c.Budgets.Sum = map[string]powerbox.Decimal{"amount": powerbox.Int(5)} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			withPay(&w.config)
			w.config.Capabilities[len(w.config.Capabilities)-1].Budgets.Sum = map[string]powerbox.Decimal{"amount": powerbox.Int(4)}
			w.restart()
			m, _, err := w.register(w.key(), agentauth.Delegated, asked("pay")...)
			w.must(err)
			q, err := w.provider.ByCode(t.Context(), bob, m.code)
			w.must(err)
			seen := w.provider.Digest(q)
			for i := range w.config.Capabilities {
				if w.config.Capabilities[i].Name == "pay" {
					change(&w.config.Capabilities[i])
				}
			}
			w.restart()
			_, err = w.provider.Answer(t.Context(), bob, q.Approval.ID, provider.Answer{Seen: seen})
			w.want("ATK-49: the page has changed", err, agentauth.CodeChanged)
		})
	}
}
