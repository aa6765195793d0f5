package provider_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPR4_AtOnce: only a linked host's defaults and an operator's list need no
// approval; anything else waits.
func TestAAPR4_AtOnce(t *testing.T) {
	w := newTown(t)
	stranger, unlinked := w.key(), w.key()
	_, _, err := w.register(unlinked, agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	for name, c := range map[string]struct {
		host  okp
		mode  string
		names []string
		want  agentauth.Status
	}{
		"defaults of a stranger":            {stranger, agentauth.Delegated, []string{"balance"}, agentauth.Pending},
		"defaults of a host without a user": {unlinked, agentauth.Delegated, []string{"balance"}, agentauth.Pending},
		"nothing, of a stranger":            {w.key(), agentauth.Delegated, nil, agentauth.Pending},
		"autonomous, nothing":               {w.key(), agentauth.Autonomous, nil, agentauth.Pending},
		"autonomous, a user's default":      {w.key(), agentauth.Autonomous, []string{"balance"}, agentauth.Pending},
		"autonomous, as the operator has":   {w.key(), agentauth.Autonomous, []string{"accounts"}, agentauth.Active},
		"defaults of a linked host":         {w.active().host, agentauth.Delegated, []string{"balance"}, agentauth.Active},
		"nothing, of a linked host":         {w.active().host, agentauth.Delegated, nil, agentauth.Active},
		"more than the defaults":            {w.active().host, agentauth.Delegated, []string{"balance", "transfer"}, agentauth.Pending},
	} {
		m, out, err := w.register(c.host, c.mode, asked(c.names...)...)
		if err != nil || out.Status != c.want || (out.Challenge == nil) != (c.want == agentauth.Active) {
			t.Errorf("AAP-R4 %s: %s %v; want %s", name, out.Status, err, c.want)
		}
		if linked := c.want == agentauth.Active && c.mode == agentauth.Delegated; linked && w.look(m.id).Agent.User != alice.Principal {
			t.Errorf("AAP-U5 %s: it acts for %q; want the host's user", name, w.look(m.id).Agent.User)
		}
		if got := effective(w, w.look(m.id).Grants); c.want == agentauth.Pending && len(got) > 0 {
			t.Errorf("AAP-H13 %s: %v in force before anybody said so", name, got)
		}
	}
	high := capabilities(t)
	high[0].Sensitivity = provider.High
	bad := newTown(t).config
	bad.Capabilities = high
	if _, err := provider.New(bad); err == nil {
		t.Error("AAP-R12: a high-risk default is taken")
	}
	if _, err := w.provider.PreRegister(t.Context(), root, "h", "user:alice", w.key().public, []string{"close"}); code(err) != agentauth.CodeInvalidCapability {
		t.Errorf("AAP-R12: a high-risk default of a host: %v", err)
	}
}

// TestAAPM4_AutonomousAtKnownHosts: unless an operator opens them to all hosts,
// autonomous agents wait with their host, with any request.
func TestAAPM4_AutonomousAtKnownHosts(t *testing.T) {
	w := newTown(t, func(c *provider.Config) { c.AnyHost = false })
	known := w.key()
	w.must(second(w.provider.PreRegister(t.Context(), root, "ci", "", known.public, nil)))
	for name, c := range map[string]struct {
		host okp
		want agentauth.Status
	}{"a stranger's": {w.key(), agentauth.Pending}, "of a host that is known": {known, agentauth.Active}} {
		m, out, err := w.register(c.host, agentauth.Autonomous, asked("accounts")...)
		if err != nil || out.Status != c.want || len(effective(w, w.look(m.id).Grants)) > 0 != (c.want == agentauth.Active) {
			t.Errorf("AAP-M4, AAP-H13 %s: %s %v; want %s", name, out.Status, err, c.want)
		}
	}
}

// TestAAPA2_UserCodes: a code is one of forty bits, is read as people type it, is
// stored as a keyed hash, and is tried ten times.
func TestAAPA2_UserCodes(t *testing.T) {
	w := newTown(t)
	m, out, err := w.register(w.key(), agentauth.Delegated, asked("balance")...)
	w.must(err)
	normal, ok := provider.NormalCode(m.code)
	if !ok || len(normal) != 8 || bytes.Contains(out.Challenge.Approval.Code, []byte(normal)) || len(out.Challenge.Approval.Code) != 32 {
		t.Errorf("AAP-A2: %s is stored as %x", m.code, out.Challenge.Approval.Code)
	}
	if got, ok := provider.NormalCode(" abcd-o1il "); !ok || got != "ABCD0111" {
		t.Errorf("AAP-A2: %s", got)
	}
	for _, bad := range []string{"", "ABC", "ABCDEFGHJ", "ABCDEFG!", "UUUUUUUU"} {
		if _, ok := provider.NormalCode(bad); ok {
			t.Errorf("AAP-A2: %q is a code", bad)
		}
	}
	for range 10 {
		_, err := w.provider.ByCode(t.Context(), bob, "0000-0000")
		w.want("AAP-A2: no such code", err, agentauth.CodeNotFound)
	}
	_, err = w.provider.ByCode(t.Context(), bob, m.code)
	w.want("AAP-A2: the right one after ten wrong ones", err, agentauth.CodeRateLimited)
	_, err = w.provider.ByCode(t.Context(), alice, m.code)
	w.want("AAP-A2: by another person", err, "")
	w.now = w.now.Add(10*time.Minute + time.Second)
	_, err = w.provider.ByCode(t.Context(), bob, m.code)
	w.want("AAP-A12: after its time", err, agentauth.CodeNotFound)
	again, err := w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Tester"})
	w.must(err)
	newer, err := w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Tester"})
	w.must(err)
	_, err = w.provider.ByCode(t.Context(), alice, again.Challenge.Code)
	w.want("AAP-A12: a code that was replaced", err, agentauth.CodeNotFound)
	w.must(second(w.approve(alice, newer.Challenge.Code)))
	_, err = w.approve(alice, newer.Challenge.Code)
	w.want("AAP-A2, ATK-46: a second time", err, agentauth.CodeNotFound)
}

// TestATK46_Answers: an approval is answered once, by whom it is for, about what
// it asks, as it stands then.
func TestATK46_Answers(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	out, err := w.more(m, provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"max":500}}`)}, provider.Asked{Name: "accounts"})
	w.must(err)
	ap := out.Challenge.Approval
	all := func(constraints string) provider.Answer {
		a := provider.Answer{Decisions: []provider.Decision{{Grant: ap.Grants[0], Approve: true}}}
		if constraints != "" {
			a.Decisions[0].Constraints = value(t, constraints)
		}
		return a
	}
	answer := func(who provider.Person, a provider.Answer) error {
		return second(w.provider.Answer(t.Context(), who, ap.ID, a))
	}
	w.want("ATK-46: another user", answer(bob, all("")), agentauth.CodeNotFound)
	w.want("ATK-46: nobody", answer(provider.Person{}, all("")), agentauth.CodeUnauthenticated)
	w.want("AAP-A7: who is not there", answer(peopletest.Person(people.Claim{Principal: alice.Principal, Fresh: true}), all("")), agentauth.CodeUnauthorized)
	w.want("AAP-A6: an old login", answer(peopletest.Person(people.Claim{Principal: alice.Principal, Present: true, Unsafe: true}), all("")), agentauth.CodeUnauthorized)
	other := provider.Answer{Decisions: []provider.Decision{{Grant: m.standing().Grants[0].ID, Approve: true}}}
	w.want("ATK-46: a grant of another request", answer(alice, other), agentauth.CodeInvalidRequest)
	w.want("AAP-G3: nothing left", answer(alice, all(`{"amount":{"min":501}}`)), agentauth.CodeInvalidRequest)
	w.want("AAP-P6: wider is no wider", answer(alice, all(`{"amount":{"max":9999}}`)), "")
	got := map[string]provider.Grant{}
	for _, g := range m.standing().Grants {
		got[g.Capability] = g
	}
	if string(got["transfer"].Constraints) != `{"amount":{"max":500}}` || got["transfer"].GrantedBy != alice.Principal {
		t.Errorf("AAP-P6: %+v", got["transfer"])
	}
	if got["accounts"].Status != agentauth.Denied || got["accounts"].DeniedBy != alice.Principal {
		t.Errorf("AAP-R8: what was not spoken of: %+v", got["accounts"])
	}
	w.want("ATK-46: again", answer(alice, all("")), agentauth.CodeAlreadyGranted)
	w.want("AAP-G1: within", m.execute("transfer", `{"amount":500}`), "")
	w.want("AAP-G1: beyond", m.execute("transfer", `{"amount":501}`), agentauth.CodeConstraint)
}

// more asks for more.
func (w *town) more(m *member, wanted ...provider.Asked) (provider.AgentState, error) {
	w.t.Helper()
	s, err := m.session(claims{"aud": bankURL})
	w.must(err)
	return w.provider.RequestCapability(w.t.Context(), s, wanted, provider.Asking{Reason: "for a test"})
}

// TestAAPQ5_Escalation: what an agent asks for besides is given by a person,
// also where it is a default of a linked host.
func TestAAPQ5_Escalation(t *testing.T) {
	w := newTown(t)
	m := w.active()
	out, err := w.more(m, asked("balance")...)
	w.must(err)
	if out.Challenge == nil || len(effective(w, m.standing().Grants)) > 0 {
		t.Errorf("AAP-P4: a default is given at once: %+v", out.Grants)
	}
	w.must(second(w.approve(alice, out.Challenge.Code)))
	denied, err := w.more(m, asked("transfer")...)
	w.must(err)
	q, err := w.provider.ByCode(t.Context(), alice, denied.Challenge.Code)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), alice, q.Approval.ID, provider.Answer{Deny: true})))
	if s := m.standing(); s.Status != agentauth.Active || !slices.Equal(effective(w, s.Grants), []string{"balance"}) {
		t.Errorf("AAP-P2: after a denial the agent is %s with %v", s.Status, effective(w, s.Grants))
	}
	_, err = w.more(m, asked("balance")...)
	w.want("AAP-Q3", err, agentauth.CodeAlreadyGranted)
	give := func(constraints string) error {
		return second(w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "transfer", Constraints: value(t, constraints)}))
	}
	w.must(give(`{"amount":{"max":5}}`))
	_, err = w.more(m, provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"max":4}}`)})
	w.want("AAP-Q3: within", err, agentauth.CodeAlreadyGranted)
	_, err = w.more(m, provider.Asked{Name: "transfer", Constraints: value(t, `{"amount":{"max":6}}`)})
	w.want("AAP-Q4: wider", err, "")
	w.want("AAP-Q4: not before somebody says so", m.execute("transfer", `{"amount":6}`), agentauth.CodeConstraint)
	for name, want := range map[string]agentauth.Code{"audit": agentauth.CodeInvalidCapability, "nothing": agentauth.CodeInvalidCapability} {
		_, err := w.more(m, asked(name)...)
		w.want("AAP-R10: "+name, err, want)
	}
	_, err = w.more(m)
	w.want("AAP-Q1: nothing", err, agentauth.CodeInvalidRequest)
	absent := peopletest.Person(people.Claim{Principal: alice.Principal, Fresh: true})
	_, err = w.provider.GrantAs(t.Context(), absent, m.id, provider.Asked{Name: "transfer"})
	w.want("AAP-A7: given by who is not there", err, agentauth.CodeUnauthorized)
	_, err = w.provider.GrantAs(t.Context(), peopletest.Person(people.Claim{Principal: alice.Principal, Present: true, Unsafe: true}), m.id, provider.Asked{Name: "transfer"})
	w.want("AAP-A6: given with an old login", err, agentauth.CodeUnauthorized)
	_, err = w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "audit"})
	w.want("AAP-R10: given", err, agentauth.CodeInvalidCapability)
	// By hand, every grant has an end, and what changes something has a limit.
	_, err = w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "close"})
	w.want("ATK-85: given without a limit", err, agentauth.CodeInvalidRequest)
	g, err := w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "close", Constraints: value(t, `{"account":"acc_1"}`)})
	w.must(err)
	if left := g.Expires.Sub(w.config.Now()); left <= 0 || left > 24*time.Hour {
		t.Errorf("ATK-85 a grant by hand without an end lasts %s; want a day", left)
	}
	reads, err := w.provider.GrantAs(t.Context(), alice, m.id, provider.Asked{Name: "accounts", Lasts: time.Hour})
	w.must(err)
	if left := reads.Expires.Sub(w.config.Now()); left != time.Hour {
		t.Errorf("ATK-85 a grant by hand for an hour lasts %s", left)
	}
}

// TestATK48_OpenRequests: an agent cannot ask without end.
func TestATK48_OpenRequests(t *testing.T) {
	w := newTown(t)
	m := w.active()
	for n := range 64 {
		_, err := w.more(m, provider.Asked{Name: "accounts", Constraints: value(t, `{"n":`+string(rune('1'+n%9))+`,"m":`+string(rune('1'+n/9))+`}`)})
		w.must(err)
	}
	_, err := w.more(m, asked("balance")...)
	w.want("ATK-48", err, agentauth.CodeRateLimited)
}

// TestAAPM3_GrantsThatWereTakenBack: a grant that a person took back while it
// waited is not given, and not denied, by an answer afterwards.
func TestAAPM3_GrantsThatWereTakenBack(t *testing.T) {
	w := newTown(t)
	m := w.active("balance")
	out, err := w.more(m, asked("accounts", "statement")...)
	w.must(err)
	n, err := w.provider.RevokeGrantAs(t.Context(), alice, m.id, "accounts")
	if w.must(err); n != 1 {
		t.Fatalf("AAP-K8: %d", n)
	}
	w.must(second(w.approve(alice, out.Challenge.Code)))
	for _, g := range m.standing().Grants {
		if want := map[string]agentauth.Status{"balance": agentauth.Active, "accounts": agentauth.Revoked, "statement": agentauth.Active}[g.Capability]; g.Status != want {
			t.Errorf("AAP-M3: %s is %s; want %s", g.Capability, g.Status, want)
		}
	}
	n, err = w.provider.RevokeGrantAs(t.Context(), alice, m.id, "balance")
	if w.must(err); n != 1 {
		t.Errorf("AAP-K8: %d", n)
	}
	w.want("AAP-K8: what was taken back", m.execute("balance", `{}`), agentauth.CodeNotGranted)
}

// TestAAPA5_DenialsStay: an agent that was denied, when it registered or when it
// came back, is rejected, and no other code of it is good.
func TestAAPA5_DenialsStay(t *testing.T) {
	w := newTown(t)
	m, out, err := w.register(w.key(), agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = w.now.Add(time.Hour)
	back, err := w.provider.Reactivate(t.Context(), w.hosted(m.host), m.id)
	if w.must(err); back.Status != agentauth.Pending {
		t.Fatalf("AAP-V3: %s without a user", back.Status)
	}
	again, err := w.provider.Register(t.Context(), w.hosted(m.host, claims{"agent_public_key": m.key.jwk()}), provider.Registration{Name: "Tester", Mode: agentauth.Autonomous})
	w.must(err)
	_, err = w.provider.ByCode(t.Context(), root, back.Challenge.Code)
	w.want("AAP-A12: the code from before", err, agentauth.CodeNotFound)
	w.must(second(w.provider.Answer(t.Context(), root, again.Challenge.Approval.ID, provider.Answer{Deny: true})))
	if s := w.look(m.id); s.Status != agentauth.Rejected || s.Host.Status != agentauth.Active {
		t.Errorf("AAP-A5: %s, its host %s", s.Status, s.Host.Status)
	}
	_, err = w.provider.Answer(t.Context(), root, back.Challenge.Approval.ID, provider.Answer{})
	w.want("ATK-51: the answer to what was asked before", err, agentauth.CodeAlreadyGranted)
	twice, _, err := w.register(m.host, agentauth.Autonomous, asked("accounts")...)
	w.must(err)
	w.now = w.now.Add(time.Hour)
	back, err = w.provider.Reactivate(t.Context(), w.hosted(m.host), twice.id)
	w.must(err)
	w.must(second(w.provider.Answer(t.Context(), root, back.Challenge.Approval.ID, provider.Answer{Deny: true})))
	if s := w.look(twice.id); s.Status != agentauth.Rejected {
		t.Errorf("AAP-A5: %s after a reactivation was denied", s.Status)
	}
	_ = out
}

// TestAAPA8_WordsOfAgents: what an agent says of itself is one line of text.
func TestAAPA8_WordsOfAgents(t *testing.T) {
	w := newTown(t)
	s := w.hosted(w.key(), claims{"agent_public_key": w.key().jwk()})
	out, err := w.provider.Register(t.Context(), s, provider.Registration{
		Name: "Good<script>alert(1)</script>\u202e\n\x07Bank", HostName: string(bytes.Repeat([]byte("h"), 200)), Asking: provider.Asking{Reason: "a\u200bb"},
	})
	w.must(err)
	if out.Agent.Name != "Good alert(1) Bank" || len(out.Host.Name) != 80 || out.Agent.Reason != "ab" {
		t.Errorf("AAP-A8: %q %q %q", out.Agent.Name, out.Host.Name, out.Agent.Reason)
	}
	s = w.hosted(w.key(), claims{"agent_public_key": w.key().jwk()})
	_, err = w.provider.Register(t.Context(), s, provider.Registration{Name: "<b>"})
	w.want("AAP-A8: no name is left", err, agentauth.CodeInvalidRequest)
}
