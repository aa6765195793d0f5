package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// bodiesAreStoredAndErased: a body comes with its record, and goes without it.
func bodiesAreStoredAndErased(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	for i := range 3 {
		r := record(fmt.Sprint("rec_", i))
		r.Details.Principal = fmt.Sprint("pair:", i%2)
		r.Detach(&evidence.Body{Key: bytes.Repeat([]byte{7}, 32), Bytes: []byte(`{"a":1}`)})
		if err := appendOne(t, s, r); err != nil {
			t.Fatal(err)
		}
	}
	bodies := func(q issuer.BodyQuery) (ids string) {
		err := s.View(t.Context(), func(r issuer.Reader) error {
			found, err := r.Bodies(q)
			for _, b := range found {
				ids += b.Record + " "
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return ids
	}
	for want, q := range map[string]issuer.BodyQuery{
		"rec_0 rec_1 rec_2 ": {}, "rec_0 rec_2 ": {Principals: []string{"pair:0", "pair:9"}}, "rec_1 ": {Records: []string{"rec_1"}, Agent: "documents"}, "": {Agent: "mail"}, "rec_0 ": {Limit: 1, Until: noon},
	} {
		if got := bodies(q); got != want {
			t.Errorf("%+v: %q; want %q", q, got, want)
		}
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.EraseBody("rec_1") }); err != nil {
		t.Fatal(err)
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		if b, err := r.Body("rec_0"); err != nil || string(b.Bytes) != `{"a":1}` || len(b.Key) != 32 {
			t.Errorf("%+v %v", b, err)
		}
		for _, id := range []string{"rec_1", "rec_9"} {
			if _, err := r.Body(id); !errors.Is(err, issuer.ErrNotFound) {
				t.Errorf("the body of %s: %v", id, err)
			}
		}
		agents, err := r.BodyAgents()
		if !cmp.Equal(agents, []string{"documents"}) {
			t.Errorf("%v", agents)
		}
		return err
	})
	if done, errScrub := s.Scrub(t.Context()); err != nil || errScrub != nil || !done {
		t.Errorf("%v, %t %v", err, done, errScrub)
	}
	f.wantLog(t, s, 3, 1)
	var out bytes.Buffer
	if err := s.ExportBodies(t.Context(), &out, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	if report := must(evidence.Verify(&out, f.trust)); report.Verdict() != evidence.OK {
		t.Errorf("%+v", report.Problems)
	}
}

// gatewaysAndTheirTokens: a token enrols one gateway, once and in time.
func gatewaysAndTheirTokens(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	use := func(token byte, at time.Time) (agent string, err error) {
		err = s.Update(t.Context(), func(tx issuer.Tx) (err error) {
			agent, err = tx.UseGatewayToken([32]byte{token}, at)
			return err
		})
		return agent, err
	}
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		return errors.Join(tx.PutGatewayToken([32]byte{1}, "documents", noon.Add(time.Hour)), tx.PutGatewayToken([32]byte{2}, "mail", noon),
			tx.PutGateway(issuer.Gateway{ID: "gw_2", Agent: "mail", Enrolled: noon.Add(time.Second)}), tx.PutGateway(issuer.Gateway{ID: "gw_1", Agent: "documents", Enrolled: noon}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if agent, err := use(1, noon); err != nil || agent != "documents" {
		t.Errorf("%q %v", agent, err)
	}
	for _, token := range []byte{1, 2, 3} { // used, over, unknown
		if _, err := use(token, noon); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error {
		return tx.PutGateway(issuer.Gateway{ID: "gw_1", Agent: "documents", Enrolled: noon, Closed: noon.Add(time.Hour)})
	}); err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r issuer.Reader) error {
		all, err := r.Gateways()
		if err == nil && (len(all) != 2 || all[0].ID != "gw_1" || all[0].Closed.IsZero() || all[1].ID != "gw_2") {
			t.Errorf("%+v", all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sealedRecordsGoOnOrAreRefused: a recorder's own chain continues in order; the same
// record again is none, and every other one is refused.
func sealedRecordsGoOnOrAreRefused(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	head := evidence.Genesis(evidence.ChainID{5})
	var sealed []evidence.Sealed
	for i := range 4 {
		r := record(fmt.Sprint("rec_", i))
		one := must(evidence.Seal(head, r, f.keys.Signer))
		sealed, head = append(sealed, one), one.Head()
	}
	give := func(one evidence.Sealed) (next int64, err error) {
		err = s.Update(t.Context(), func(tx issuer.Tx) error {
			next, err = tx.AppendSealed(one)
			return err
		})
		return next, err
	}
	fork := record("rec_fork")
	for n, c := range []struct {
		record evidence.Sealed
		next   int64
		want   error
	}{
		{sealed[0], 1, nil},
		{sealed[2], 1, issuer.ErrGap},
		{sealed[1], 2, nil},
		{sealed[1], 2, nil},
		{must(evidence.Seal(sealed[0].Head(), fork, f.keys.Signer)), 2, issuer.ErrNotNext},
		{must(evidence.Seal(evidence.Genesis(evidence.ChainID{6}), fork, f.keys.Signer)), 2, issuer.ErrNotNext},
		{sealed[2], 3, nil},
		{sealed[3], 4, nil},
	} {
		if next, err := give(c.record); next != c.next || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("step %d: next %d, %v; want %d, %v", n, next, err, c.next, c.want)
		}
	}
	f.wantLog(t, s, 4, 1)
}

// outcomesOfTheirOwnChainOnce: of what a recorder seals itself, an outcome is taken
// where it follows its decision in one chain, and a second one where it says the same.
// Anything that is refused leaves nothing behind.
func outcomesOfTheirOwnChainOnce(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	heads := map[string]evidence.Head{"gw": evidence.Genesis(evidence.ChainID{5}), "other": evidence.Genesis(evidence.ChainID{6})}
	give := func(recorder string, records ...evidence.Record) error {
		head := heads[recorder]
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			head = heads[recorder] // it may run again
			for _, r := range records {
				r.Details.Recorder = recorder
				one, err := evidence.Seal(head, r, f.keys.Signer)
				if err == nil {
					_, err = tx.AppendSealed(one)
				}
				if err != nil {
					return err
				}
				head = one.Head()
			}
			return nil
		})
		if err == nil {
			heads[recorder] = head
		}
		return err
	}
	decision := func(id string) evidence.Record {
		r := record(id)
		r.OutcomeStatus = evidence.Pending
		return r
	}
	tells := func(id, of string, status evidence.OutcomeStatus) evidence.Record {
		r := record(id)
		r.OutcomeStatus, r.Details.OutcomeOf = status, of
		return r
	}
	if err := appendOne(t, s, decision("rec_own")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		recorder string
		records  []evidence.Record
		taken    bool
	}{
		{"of the server's chain", "gw", []evidence.Record{tells("rec_1", "rec_own", evidence.Achieved)}, false},
		{"with its decision", "gw", []evidence.Record{decision("rec_d"), tells("rec_2", "rec_d", evidence.Achieved)}, true},
		{"of another gateway's chain", "other", []evidence.Record{tells("rec_3", "rec_d", evidence.Achieved)}, false},
		{"again, the same", "gw", []evidence.Record{tells("rec_4", "rec_d", evidence.Achieved)}, true},
		{"again, another one", "gw", []evidence.Record{tells("rec_5", "rec_d", evidence.Failed)}, false},
		{"twice, contradicting, in one shipment", "gw", []evidence.Record{decision("rec_e"), tells("rec_6", "rec_e", evidence.Failed), tells("rec_7", "rec_e", evidence.Partial)}, false},
		{"of what was refused", "other", []evidence.Record{tells("rec_8", "rec_e", evidence.Partial)}, true},
		{"of it, in its own chain", "gw", []evidence.Record{decision("rec_e"), tells("rec_9", "rec_e", evidence.Failed)}, true},
		{"of one that awaits none", "gw", []evidence.Record{record("rec_f"), tells("rec_10", "rec_f", evidence.Failed)}, false},
		{"of a record that is nowhere", "other", []evidence.Record{tells("rec_11", "rec_nowhere", evidence.Achieved)}, true},
	} {
		var refused *issuer.TargetError
		if err := give(c.recorder, c.records...); (err == nil) != c.taken || err != nil && !errors.As(err, &refused) {
			t.Errorf("ATK-71 an outcome %s: %v", c.name, err)
		}
	}
}

// linksAndStatusPlaces: a nonce names one link, and a place has one capability, for
// their time.
func linksAndStatusPlaces(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	name := func(id, link string, until, now time.Time) (named string) {
		err := s.Update(t.Context(), func(tx issuer.Tx) (err error) {
			named, err = tx.NameLink(id, link, until, now)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return named
	}
	if name("n", "one", noon.Add(time.Hour), noon) != "one" || name("n", "two", noon.Add(time.Hour), noon) != "one" || name("n", "two", noon.Add(3*time.Hour), noon.Add(2*time.Hour)) != "two" {
		t.Error("a nonce names the first link until that has ended")
	}
	at := func(id string, place int, now time.Time) (ok bool) {
		c := capability(id)
		err := s.Update(t.Context(), func(tx issuer.Tx) (err error) {
			ok, err = tx.PutStatusPlace(c, place, now)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return ok
	}
	if !at("cap_1", 4, noon) || at("cap_2", 4, noon) || at("cap_1", 5, noon) || !at("cap_2", 4, noon.Add(time.Hour)) {
		t.Error("a place has one capability until that has expired, and a capability one place")
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		places, err := r.StatusPlaces("documents")
		if !cmp.Equal(places, map[string]int{"cap_2": 4}) {
			t.Errorf("%v", places)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hostsAndAgents of Agent Auth come back by all their names, and go.
func hostsAndAgents(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	err := s.UpdateProvider(t.Context(), func(tx provider.Tx) error {
		var errs []error
		for n, id := range []string{"host_1", "host_2"} {
			errs = append(errs, tx.PutHost(provider.Host{ID: id, Thumbprint: "tp_" + id, KeysURL: map[int]string{1: "https://h/keys"}[n], User: "alice", Created: noon.Add(time.Duration(n) * time.Second)}))
		}
		for _, id := range []string{"agent_1", "agent_2"} {
			errs = append(errs, tx.PutHostAgent(provider.Agent{ID: id, Host: "host_1", Thumbprint: "tp_" + id}),
				tx.PutGrant(provider.Grant{ID: "g2_" + id, Agent: id}), tx.PutGrant(provider.Grant{ID: "g1_" + id, Agent: id}))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewProvider(t.Context(), func(r provider.Reader) error {
		byKey, err1 := r.HostByKey("tp_host_2")
		byURL, err2 := r.HostByKeysURL("https://h/keys")
		_, none := r.HostByKeysURL("")
		hosts, err3 := r.Hosts("alice")
		everybody, err4 := r.Hosts("")
		agent, err5 := r.HostAgentByKey("host_1", "tp_agent_2")
		agents, err6 := r.HostAgents("host_1")
		grants, err7 := r.Grants("agent_1")
		if byKey.ID != "host_2" || byURL.ID != "host_2" || !errors.Is(none, issuer.ErrNotFound) || len(hosts) != 2 || hosts[0].ID != "host_2" || len(everybody) != 2 ||
			agent.ID != "agent_2" || len(agents) != 2 || agents[0].ID != "agent_1" || len(grants) != 2 || grants[0].ID != "g2_agent_1" {
			t.Errorf("%+v %+v %v %v %v %v", byKey, byURL, hosts, agent, agents, grants)
		}
		return errors.Join(err1, err2, err3, err4, err5, err6, err7)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.UpdateProvider(t.Context(), func(tx provider.Tx) error {
		if err := tx.PutJob(provider.Job{ID: "job_1", Agent: "agent_1", Created: noon}); err != nil {
			return err
		}
		if err := tx.ForgetAgent("agent_1"); err != nil {
			return err
		}
		if _, err := tx.Job("job_1"); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("the job of an agent that is gone: %v", err)
		}
		return errors.Join(tx.ForgetAgent("agent_2"), tx.ForgetHost("host_1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewProvider(t.Context(), func(r provider.Reader) error {
		if _, err := r.Host("host_1"); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("a host that is gone: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// accountsOfPeople compares the stored accounts with the expected ones.
func accountsOfPeople(t *testing.T, tx provider.Tx) error {
	t.Helper()
	alice, err := tx.Account("alice")
	accounts, err0 := tx.Accounts()
	all, err1 := tx.AllPasskeys()
	if _, none := tx.Account("Alice"); !errors.Is(none, issuer.ErrNotFound) || alice.State != people.Frozen || !alice.Over.Equal(noon) || alice.Reason != "" || len(accounts) != 2 || len(all) != 2 {
		t.Errorf("%+v %+v %+v %v", alice, accounts, all, none)
	}
	return errors.Join(err, err0, err1)
}

// approvalsOfAgents keeps and finds approvals of agents, passkeys, tokens and invitations.
func approvalsOfAgents(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	err := s.UpdateProvider(t.Context(), func(tx provider.Tx) error {
		errs := []error{tx.PutHost(provider.Host{ID: "h", Thumbprint: "h", Created: noon}), tx.PutHostAgent(provider.Agent{ID: "a", Host: "h", Thumbprint: "a"})}
		for n := range 3 {
			errs = append(errs, tx.PutApproval(provider.Approval{ID: fmt.Sprint("ap_", n), Agent: "a", Code: []byte("code"), Status: agentauth.Pending, Expires: noon.Add(time.Duration(n) * time.Hour)}))
		}
		errs = append(errs, tx.PutApproval(provider.Approval{ID: "ap_1", Agent: "a", Code: []byte("code"), Status: agentauth.Active, Expires: noon.Add(time.Hour)}),
			tx.PutJob(provider.Job{ID: "job_1", Agent: "a", Created: noon}), tx.PutJob(provider.Job{ID: "job_2", Agent: "a", Created: noon.Add(2 * time.Hour)}),
			tx.PutAccount(people.Account{Principal: "alice", State: people.Active, Reason: "first"}), tx.PutAccount(people.Account{Principal: "alice", State: people.Frozen, Over: noon}),
			tx.PutAccount(people.Account{Principal: "Ålice", State: people.Removed}),
			tx.PutPasskey(provider.Passkey{ID: []byte("k2"), Principal: "alice"}), tx.PutPasskey(provider.Passkey{ID: []byte("k1"), Principal: "alice"}),
			tx.PutInvitation([]byte("i1"), provider.Invitation{Expires: noon}), tx.PutInvitation([]byte("i2"), provider.Invitation{Expires: noon.Add(time.Hour)}),
			tx.UseToken("t1", noon, noon), tx.UseToken("t2", noon.Add(time.Hour), noon), tx.UseToken("t3", noon.Add(time.Hour), noon.Add(time.Minute)))
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.UpdateProvider(t.Context(), func(tx provider.Tx) error {
		newest, err1 := tx.ApprovalByCode([]byte("code"))
		pending, err2 := tx.PendingApprovals()
		keys, err3 := tx.Passkeys("alice")
		if err := accountsOfPeople(t, tx); err != nil {
			return err
		}
		t1, err4 := tx.UsedToken("t1")
		t2, err5 := tx.UsedToken("t2")
		some, err6 := tx.UsedTokens()
		if newest.ID != "ap_2" || len(pending) != 2 || pending[0].ID != "ap_2" || len(keys) != 2 || string(keys[0].ID) != "k2" || t1 || !t2 || !some {
			t.Errorf("%s %v %v %t %t %t", newest.ID, pending, keys, t1, t2, some)
		}
		return errors.Join(err1, err2, err3, err4, err5, err6, tx.ForgetAnswered(noon.Add(time.Hour)), tx.ForgetInvitations(noon), tx.ForgetPasskey([]byte("k2")))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewProvider(t.Context(), func(r provider.Reader) error {
		for id, there := range map[string]bool{"ap_0": false, "ap_1": true, "ap_2": true} {
			if _, err := r.Approval(id); errors.Is(err, issuer.ErrNotFound) == there {
				t.Errorf("approval %s: %v", id, err)
			}
		}
		_, gone := r.Job("job_1")
		_, err1 := r.Job("job_2")
		_, over := r.Invitation([]byte("i1"))
		_, err2 := r.Invitation([]byte("i2"))
		_, key := r.Passkey([]byte("k2"))
		if !errors.Is(gone, issuer.ErrNotFound) || !errors.Is(over, issuer.ErrNotFound) || !errors.Is(key, issuer.ErrNotFound) {
			t.Errorf("%v %v %v", gone, over, key)
		}
		return errors.Join(err1, err2)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// questionsAndCalls of people and what waits for them.
func questionsAndCalls(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	question := func(n int, state issuer.State, ended time.Time) approval.Question {
		return approval.Question{ID: fmt.Sprint("ask_", n), Key: "key", Holder: "key:abc", State: state, Created: noon.Add(time.Duration(n) * time.Second), Ended: ended}
	}
	err := s.UpdateApprovals(t.Context(), func(tx approval.Tx) error {
		return errors.Join(tx.PutQuestion(question(0, issuer.StatePending, time.Time{})), tx.PutQuestion(question(1, issuer.StateDenied, noon)),
			tx.PutQuestion(question(2, issuer.StatePending, time.Time{})), tx.PutQuestion(question(3, issuer.StateApproved, noon)),
			tx.PutHeldCall(approval.Call{Question: "ask_2", Agent: "documents", Task: "t2", State: approval.CallWaits}), tx.PutHeldCall(approval.Call{Question: "ask_3", Agent: "documents", Task: "t3", State: approval.CallApproved}))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.UpdateApprovals(t.Context(), func(tx approval.Tx) error {
		newest, err1 := tx.QuestionByKey("key")
		open, err2 := tx.Questions(issuer.StatePending)
		made, denied, err3 := tx.QuestionsOf("key:abc", noon)
		call, err4 := tx.HeldCallByTask("documents", "t2")
		ready, err5 := tx.HeldCalls(approval.CallApproved)
		_, none := tx.QuestionByKey("")
		if newest.ID != "ask_3" || len(open) != 2 || open[0].ID != "ask_0" || made != 3 || denied != 1 || call.Question != "ask_2" || len(ready) != 1 || ready[0].Task != "t3" || !errors.Is(none, issuer.ErrNotFound) {
			t.Errorf("%s %v %d %d %+v %+v %v", newest.ID, open, made, denied, call, ready, none)
		}
		return errors.Join(err1, err2, err3, err4, err5, tx.ForgetQuestions(noon.Add(time.Second)))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewApprovals(t.Context(), func(r approval.Reader) error {
		for id, there := range map[string]bool{"ask_0": true, "ask_1": false, "ask_2": true, "ask_3": true} { // 3 has a call that is to be made
			if _, err := r.Question(id); errors.Is(err, issuer.ErrNotFound) == there {
				t.Errorf("question %s: %v", id, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listings of the registry.
func listings(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	err := s.UpdateRegistry(t.Context(), func(tx registry.Tx) error {
		err := errors.Join(tx.PutListing(registry.Listing{ID: "b"}), tx.PutListing(registry.Listing{ID: "a"}), tx.PutListing(registry.Listing{ID: "b"}), tx.PutListing(registry.Listing{ID: "c"}), tx.ForgetListing("c"))
		if gone := tx.ForgetListing("c"); !errors.Is(gone, issuer.ErrNotFound) {
			t.Errorf("a listing that is not there: %v", gone)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.ViewRegistry(t.Context(), func(r registry.Reader) error {
		all, err := r.Listings()
		_, none := r.Listing("c")
		if len(all) != 2 || all[0].ID != "a" || !errors.Is(none, issuer.ErrNotFound) {
			t.Errorf("%+v %v", all, none)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// recordersAndChains: the keys that sign, and the chains that have begun.
func recordersAndChains(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if _, err := tx.ChainEnd("documents", "serve"); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("the end of a chain that has not begun: %v", err)
		}
		err := errors.Join(tx.PutRecorder(issuer.Recorder{Key: f.key, Enrolled: noon}), tx.PutRecorder(issuer.Recorder{Key: f.key, Enrolled: noon, Closed: noon.Add(time.Hour)}))
		if err == nil {
			_, err = tx.Append(record("rec_1"))
		}
		if head, errEnd := tx.ChainEnd("documents", "serve"); errEnd != nil || head.Sequence != 1 {
			t.Errorf("%+v %v", head, errEnd)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r issuer.Reader) error {
		recorders, err := r.Recorders()
		chains, errChains := r.Chains("documents")
		none, errNone := r.Chains("mail")
		if len(recorders) != 1 || recorders[0].Closed.IsZero() || recorders[0].Key.ID != f.key.ID || len(chains) != 1 || chains[0].Recorder != "serve" || len(none) != 0 {
			t.Errorf("%+v %+v %v", recorders, chains, none)
		}
		return errors.Join(err, errChains, errNone)
	})
	if err != nil {
		t.Fatal(err)
	}
}
