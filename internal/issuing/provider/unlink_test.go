package provider_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestATK64_QuestionsOfAnUnlinkedHost asks a user about an agent that acts on its own
// under the user's host, and then unlinks the host. The former user is asked nothing any
// more, and answers nothing.
func TestATK64_QuestionsOfAnUnlinkedHost(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	auto, out, err := w.register(m.host, agentauth.Autonomous, asked("transfer")...)
	w.must(err)
	if out.Status != agentauth.Pending || out.Challenge == nil {
		t.Fatalf("the agent is %s with %+v; want a question", out.Status, out.Challenge)
	}
	w.must(second(w.provider.Unlink(t.Context(), alice, out.Host.ID)))
	if open, err := w.provider.Questions(t.Context(), alice); err != nil || len(open) != 0 {
		t.Errorf("ATK-64 the former user is still asked %d questions, %v", len(open), err)
	}
	_, err = w.provider.Answer(t.Context(), alice, out.Challenge.Approval.ID, provider.Answer{Decisions: []provider.Decision{{Grant: out.Grants[0].ID, Approve: true}}})
	if err == nil {
		t.Error("ATK-64 the former user has answered")
	}
	if s := w.look(auto.id); s.Status != agentauth.Pending {
		t.Errorf("ATK-64 the agent is %s; want pending", s.Status)
	}
}

// TestAAPA12_WhatIsFollowedEndsWithItsAgent follows a question about an agent that ends
// by its clock, without an action of anyone.
func TestAAPA12_WhatIsFollowedEndsWithItsAgent(t *testing.T) {
	w := newTown(t)
	m, _, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	w.now = w.now.Add(12*time.Hour - 5*time.Minute) // its absolute lifetime is 12 hours
	s, err := w.provider.AuthenticateHost(t.Context(), w.host(m.host, claims{"agent_public_key": m.key.jwk()}), true)
	w.must(err)
	out, err := w.provider.Register(t.Context(), s, provider.Registration{Name: "Again", Mode: agentauth.Delegated})
	w.must(err)
	name := w.provider.Notification(out.Challenge.Approval)
	if _, _, open, err := w.provider.Notified(t.Context(), name); err != nil || !open {
		t.Errorf("AAP-A12 a question that waits: open %t, %v", open, err)
	}
	w.now = w.now.Add(6 * time.Minute)
	_, q, open, err := w.provider.Notified(t.Context(), name)
	if err != nil || open || !q.Approval.Open(w.now) || w.provider.Over(q) == "" {
		t.Errorf("AAP-A12 a question of an agent that ended, within its own time: open %t, %q, %v", open, w.provider.Over(q), err)
	}
}

// TestATK63_LogoutOfOthers ends the logins of a person: by that person, and by an
// administrator with a fresh login. Other people are refused.
func TestATK63_LogoutOfOthers(t *testing.T) {
	bob := peopletest.Person(people.Claim{Principal: "user:bob", Login: people.ByPasskey, Fresh: true})
	w := newTown(t, func(c *provider.Config) {
		c.Administrator = func(principal string, _ []string) bool { return principal == "user:root" }
	})
	root := people.Claim{Principal: "user:root", Login: people.ByPasskey, Began: w.now}
	w.want("a person who is no administrator", w.provider.LogOutAs(t.Context(), bob, alice.Principal, "r"), agentauth.CodeUnauthorized)
	w.want("an administrator with an old login", w.provider.LogOutAs(t.Context(), peopletest.Person(root), alice.Principal, "r"), agentauth.CodeUnauthorized)
	began := w.now
	recognized := func() error {
		_, err := w.provider.Recognize(t.Context(), people.Claim{Principal: alice.Principal, Began: began})
		return err
	}
	w.must(recognized())
	root.Fresh = true
	w.must(w.provider.LogOutAs(t.Context(), peopletest.Person(root), alice.Principal, "r"))
	w.want("a login from before", recognized(), agentauth.CodeUnauthorized)
	began = w.now.Add(time.Second)
	w.must(recognized())
	w.now = w.now.Add(time.Minute)
	own := peopletest.Person(people.Claim{Principal: alice.Principal, Began: began})
	w.must(w.provider.LogOutAs(t.Context(), own, alice.Principal, "r"))
	w.want("a login from before", recognized(), agentauth.CodeUnauthorized)
}
