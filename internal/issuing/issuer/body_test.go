package issuer_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// says has records of an agent on record, for a user, each with a body.
func (w *town) says(agent, principal string, at time.Time, n int) (ids []string) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx issuer.Tx) error {
		ids = nil
		for range n {
			id, err := w.issuer.NewID("rec_")
			if err != nil {
				return err
			}
			body, err := evidence.NewBody(rand.Reader, []byte(`{"account":1}`))
			if err != nil {
				return err
			}
			r := evidence.Record{
				ID: id, AgentID: agent, ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "o"}, Decision: evidence.Deny, Time: at,
				Details: evidence.Details{Recorder: "serve", Principal: w.issuer.Pseudonym(agent, principal)},
			}
			r.Detach(body)
			if _, err := tx.Append(r); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// left is how many bodies there are.
func (w *town) left() (n int) {
	w.t.Helper()
	err := w.store.View(w.t.Context(), func(r issuer.Reader) error {
		all, err := r.Bodies(issuer.BodyQuery{})
		n = len(all)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// An erasure of more than one record can name is several records, which name
// each body once.
func TestEXT26_AnErasureNamesEveryBody(t *testing.T) {
	w := newTown(t)
	ids := append(w.says("documents", "user:alice", noon, 700), w.says("documents", "user:alice", noon, 500)...)
	w.says("mail", "user:alice", noon, 1)
	done, err := w.issuer.Erase(t.Context(), "operator", issuer.Erasure{Agent: "documents"})
	if err != nil || done.Bodies != len(ids) || len(done.Records) != 3 || !done.Scrubbed || w.left() != 1 {
		t.Fatalf("%v %+v, %d left", err, done, w.left())
	}
	named := map[string]int{}
	for _, id := range done.Records {
		err := w.store.View(t.Context(), func(r issuer.Reader) error {
			s, err := r.Record(id)
			for _, of := range s.Record().Details.Erased {
				named[of]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if named[id] != 1 {
			t.Fatalf("%s is named %d times", id, named[id])
		}
	}
	if len(named) != len(ids) {
		t.Errorf("%d bodies are named, %d were erased", len(named), len(ids))
	}
}

// Filters together select less, and a user is found at every agent.
func TestEXT26_WhatAnErasureSelects(t *testing.T) {
	for name, c := range map[string]struct {
		erasure func(w *town, ids []string) issuer.Erasure
		bodies  int
	}{
		"a record":           {func(_ *town, ids []string) issuer.Erasure { return issuer.Erasure{Records: ids[:1]} }, 1},
		"a user":             {func(*town, []string) issuer.Erasure { return issuer.Erasure{Principal: "user:alice"} }, 5},
		"no such user":       {func(*town, []string) issuer.Erasure { return issuer.Erasure{Principal: "user:nobody"} }, 0},
		"a user at an agent": {func(*town, []string) issuer.Erasure { return issuer.Erasure{Principal: "user:alice", Agent: "gone"} }, 2},
		"a pseudonym": {func(w *town, _ []string) issuer.Erasure {
			return issuer.Erasure{Principal: w.issuer.Pseudonym("documents", "user:bob")}
		}, 1},
		"what is older":       {func(*town, []string) issuer.Erasure { return issuer.Erasure{Until: noon} }, 3},
		"a user's that older": {func(*town, []string) issuer.Erasure { return issuer.Erasure{Principal: "user:bob", Until: noon} }, 0},
	} {
		w := newTown(t)
		ids := w.says("documents", "user:alice", noon, 3)
		w.says("gone", "user:alice", noon.Add(time.Hour), 2) // an agent that is protected no more
		w.says("documents", "user:bob", noon.Add(time.Hour), 1)
		e := c.erasure(w, ids)
		would, err := w.issuer.BodiesOf(t.Context(), e)
		if err != nil || len(would) != c.bodies || w.left() != 6 {
			t.Errorf("%s: %v %+v", name, err, would)
		}
		done, err := w.issuer.Erase(t.Context(), "operator", e)
		if err != nil || done.Bodies != c.bodies || w.left() != 6-c.bodies {
			t.Errorf("%s: %v %+v, %d left", name, err, done, w.left())
		}
	}
}

func TestEXT26_AnErasureOfAnUnknownRecordIsRefusedWhole(t *testing.T) {
	w := newTown(t)
	ids := w.says("documents", "user:alice", noon, 1)
	e := issuer.Erasure{Records: []string{ids[0], "rec_none"}}
	if _, err := w.issuer.BodiesOf(t.Context(), e); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("EXT-26 the list: %v", err)
	}
	if done, err := w.issuer.Erase(t.Context(), "operator", e); !errors.Is(err, issuer.ErrNotFound) || done.Bodies != 0 || w.left() != 1 {
		t.Errorf("EXT-26 %v %+v, %d left", err, done, w.left())
	}
}

func TestEXT26_AnErasureSaysWhat(t *testing.T) {
	w := newTown(t)
	w.says("documents", "user:alice", noon, 1)
	for name, e := range map[string]issuer.Erasure{
		"nothing": {}, "no user": {Principal: "alice"}, "an agent as a user": {Principal: "agent:documents"},
		"too many records": {Records: make([]string, 501)},
	} {
		var target *issuer.TargetError
		if _, err := w.issuer.Erase(t.Context(), "operator", e); !errors.As(err, &target) || w.left() != 1 {
			t.Errorf("%s: %v, %d left", name, err, w.left())
		}
	}
}

// Each agent's bodies go when their own time is over, and not before.
func TestEXT26_RetentionIsByAgent(t *testing.T) {
	w := newTown(t)
	w.says("documents", "user:alice", noon, 2)
	w.says("mail", "user:alice", noon, 1)
	keep := func(agent string) time.Duration {
		return map[string]time.Duration{"documents": time.Hour, "mail": 2 * time.Hour}[agent]
	}
	for _, step := range []struct {
		after  time.Duration
		pruned int
	}{{time.Hour - time.Millisecond, 0}, {time.Hour, 2}, {time.Hour, 0}, {2 * time.Hour, 1}} {
		w.now = noon.Add(step.after)
		if n, err := w.issuer.PruneBodies(t.Context(), keep); err != nil || n != step.pruned {
			t.Errorf("after %s: %d %v, want %d", step.after, n, err, step.pruned)
		}
	}
	err := w.store.View(t.Context(), func(r issuer.Reader) error {
		page, err := r.Records(issuer.RecordQuery{Requester: issuer.Retention})
		if len(page.Records) != 2 {
			return fmt.Errorf("%d records of what was pruned", len(page.Records))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
