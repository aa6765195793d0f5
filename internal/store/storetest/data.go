package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Labels and values belong to holders, users and tasks, and end.
func dataThatWasRead(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	label := issuer.DataLabel{Source: "inbox", Untrusted: true, Since: noon, Until: noon.Add(time.Hour)}
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if err := tx.PutDataLabel("key:a", "pw_alice", label); err != nil {
			return err
		}
		return tx.PutDataValues("key:a", "pw_alice", "task-1", [][]byte{{1}, {2}}, label.Until, 100)
	})
	if err != nil {
		t.Fatal(err)
	}
	again := label
	again.Since, again.Until = noon.Add(time.Minute), noon.Add(2*time.Hour)
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutDataLabel("key:a", "pw_alice", again) }); err != nil {
		t.Fatal(err)
	}
	label.Until = again.Until // the first time stays
	err = s.View(t.Context(), func(r issuer.Reader) error {
		for _, of := range []struct {
			holders   []string
			principal string
			now       time.Time
			want      []issuer.DataLabel
		}{
			{[]string{"key:b", "key:a"}, "pw_alice", noon, []issuer.DataLabel{label}},
			{[]string{"key:a"}, "", noon, []issuer.DataLabel{label}}, // which user it is, is not known
			{[]string{"key:a"}, "pw_bob", noon, nil},
			{[]string{"key:b"}, "pw_alice", noon, nil},
			{nil, "pw_alice", noon, nil},
			{[]string{"key:a"}, "pw_alice", noon.Add(3 * time.Hour), nil},
		} {
			got, err := r.DataLabels(of.holders, of.principal, of.now)
			if diff := cmp.Diff(of.want, got); err != nil || diff != "" {
				t.Errorf("%v %s at %s: %v\n%s", of.holders, of.principal, of.now, err, diff)
			}
		}
		for _, of := range []struct {
			holder, principal, task string
			now                     time.Time
			want                    int
		}{
			{"key:a", "pw_alice", "task-1", noon, 2},
			{"key:a", "pw_alice", "task-2", noon, 0},
			{"key:a", "pw_alice", "", noon, 0},
			{"key:a", "pw_bob", "task-1", noon, 0},
			{"key:a", "", "task-1", noon, 0},
			{"key:b", "pw_alice", "task-1", noon, 0},
			{"key:a", "pw_alice", "task-1", noon.Add(3 * time.Hour), 0},
		} {
			got, err := r.DataValues([]string{of.holder}, of.principal, of.task, [][]byte{{1}, {2}, {3}}, of.now)
			if err != nil || len(got) != of.want || got[string([]byte{3})] {
				t.Errorf("%+v: %v %v", of, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	newestValuesStay(t, s)
}

// Of more values than the limit the oldest are forgotten, and everything that has ended.
func newestValuesStay(t *testing.T, s Store) {
	t.Helper()
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for n := range 5 {
			if err := tx.PutDataValues("key:c", "", "", [][]byte{[]byte(fmt.Sprint(n))}, noon.Add(time.Duration(n+1)*time.Minute), 2); err != nil {
				return err
			}
		}
		return tx.ForgetData(noon.Add(5 * time.Minute))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r issuer.Reader) error {
		got, err := r.DataValues([]string{"key:c"}, "", "", [][]byte{[]byte("2"), []byte("3"), []byte("4")}, noon)
		if err != nil || len(got) != 1 || !got["4"] {
			t.Errorf("%v %v; want the newest, which has not ended", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
