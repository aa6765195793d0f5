package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func heldTasksOfAnOwner(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	alice := issuer.Owner{Root: "cap_1", Principal: "user:alice", Holder: "key:a"}
	err := s.UpdateApprovals(t.Context(), func(tx approval.Tx) error {
		for _, c := range []approval.Call{
			{Question: "ask_1", Agent: "mail", Task: "task_pb_1", Owner: alice, State: approval.CallWaits},
			{Question: "ask_2", Agent: "mail", Task: "task_pb_2", Owner: issuer.Owner{Root: "cap_2", Principal: "user:alice", Holder: "key:a"}, State: approval.CallWaits},
			{Question: "ask_3", Agent: "documents", Task: "task_pb_3", Owner: alice, State: approval.CallWaits},
			{Question: "ask_4", Agent: "mail", Task: "task_pb_4", Owner: alice, State: approval.CallFailed},
			{Question: "ask_5", Agent: "mail", Tenant: "t1", Task: "task_pb_5", Owner: alice, State: approval.CallWaits},
			{Question: "ask_6", Agent: "mail", Tenant: "t 1\x1f", Task: "task_pb_6", Owner: alice, State: approval.CallWaits},
		} {
			if err := errors.Join(tx.PutQuestion(approval.Question{ID: c.Question, State: issuer.StatePending}), tx.PutHeldCall(c)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int][]string{9: {"task_pb_4", "task_pb_1"}, 1: {"task_pb_4"}} {
		var got []string
		err := s.ViewApprovals(t.Context(), func(r approval.Reader) error {
			var err error
			got, err = r.HeldTasksOf("mail", "", alice, limit)
			return err
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	for tenant, want := range map[string][]string{"t1": {"task_pb_5"}, "t 1\x1f": {"task_pb_6"}, "t2": nil} {
		var got []string
		err := s.ViewApprovals(t.Context(), func(r approval.Reader) error {
			var err error
			got, err = r.HeldTasksOf("mail", tenant, alice, 9)
			return err
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ATK-18 in tenant %q: %v %s", tenant, err, diff)
		}
	}
}

func messages(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	update := func(change func(tx approval.Tx) error) {
		t.Helper()
		if err := s.UpdateApprovals(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	a := approval.Message{ID: "asked_1", Hook: "chat", Event: approval.EventAsked, Question: "ask_1", Body: []byte("{}"), Created: noon, Due: noon, Expires: noon.Add(time.Hour)}
	b := a
	b.ID, b.Due = "asked_2", noon.Add(-time.Minute)
	c := a
	c.ID, c.Hook, c.Due = "asked_3", "mail", noon.Add(time.Minute)
	update(func(tx approval.Tx) error { return errors.Join(tx.PutMessage(a), tx.PutMessage(b), tx.PutMessage(c)) })
	look := func() (due, dead []string, n map[string]approval.MessageCount) { return outbox(t, s) }
	due, dead, n := look()
	if diff := cmp.Diff([]any{[]string{"asked_2", "asked_1"}, []string(nil), map[string]approval.MessageCount{"chat": {Waiting: 2}, "mail": {Waiting: 1}}}, []any{due, dead, n}); diff != "" {
		t.Error(diff)
	}
	a.Died, a.Why, a.Tries = noon.Add(time.Second), "HTTP 500", 3
	update(func(tx approval.Tx) error { return errors.Join(tx.PutMessage(a), tx.DeleteMessage("asked_2")) })
	due, dead, n = look()
	if diff := cmp.Diff([]any{[]string(nil), []string{"asked_1"}, map[string]approval.MessageCount{"chat": {Dead: 1}, "mail": {Waiting: 1}}}, []any{due, dead, n}); diff != "" {
		t.Error(diff)
	}
	err := s.ViewApprovals(t.Context(), func(r approval.Reader) error { return oneMessage(t, r, a, "asked_2") })
	if err != nil {
		t.Fatal(err)
	}
	update(func(tx approval.Tx) error { return tx.ForgetMessages(noon.Add(time.Second)) })
	if _, dead, _ = look(); len(dead) != 1 {
		t.Errorf("forgot %v too early", dead)
	}
	update(func(tx approval.Tx) error { return tx.ForgetMessages(noon.Add(2 * time.Second)) })
	if _, dead, _ = look(); len(dead) != 0 {
		t.Errorf("did not forget %v", dead)
	}
}

// oneMessage compares a message with the stored one, and looks for one that is gone.
func oneMessage(t *testing.T, r approval.Reader, want approval.Message, gone string) error {
	t.Helper()
	got, err := r.Message(want.ID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, missing := r.Message(gone); !errors.Is(missing, issuer.ErrNotFound) {
		t.Errorf("a message that is gone: %v", missing)
	}
	return err
}

// outbox has the messages due at noon, the given-up ones, and their number.
func outbox(t *testing.T, s Store) (due, dead []string, n map[string]approval.MessageCount) {
	t.Helper()
	err := s.ViewApprovals(t.Context(), func(r approval.Reader) error {
		d, err := r.DueMessages(noon, 9)
		for _, m := range d {
			due = append(due, m.ID)
		}
		g, wrong := r.DeadMessages(9)
		for _, m := range g {
			dead = append(dead, m.ID)
		}
		var counted error
		n, counted = r.CountMessages()
		return errors.Join(err, wrong, counted)
	})
	if err != nil {
		t.Fatal(err)
	}
	return due, dead, n
}
