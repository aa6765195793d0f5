package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// fill appends records of several agents, in their own changes.
func fill(t *testing.T, s *Store, name string, n, agents int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := record(fmt.Sprintf("rec_%s_%d", name, i))
			r.AgentID = fmt.Sprintf("agent-%d", i%agents)
			if err := appendOne(t, s, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func appendOne(t *testing.T, s *Store, r evidence.Record) error {
	return s.Update(t.Context(), func(tx issuer.Tx) error { _, err := tx.Append(r); return err })
}

// wantLog verifies that the log is whole and has so many records and chains.
func (f fixture) wantLog(t *testing.T, s *Store, records, chains int) {
	t.Helper()
	report := f.verify(t, s)
	if report.Verdict() != evidence.OK || report.Records != records || len(report.Chains) != chains {
		t.Errorf("%d records, %d chains, %+v; want %d and %d", report.Records, len(report.Chains), report.Problems, records, chains)
	}
}

// A chain continues from its last record, whether that is noted in the row of the
// chain or has been written since, and whether the writer remembers it or not.
func TestEXT22_ChainsGoOnAfterAStart(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	const agents = 7
	total := 0
	for round, n := range []int{1, maxBehind - 2, 30, maxBehind + 30, 3, 40} {
		s := openStore(t, f.config)
		fill(t, s, fmt.Sprint(round), n, agents)
		total += n
		c, err := readCheckpoint(t.Context(), s.reads)
		if err != nil || c.size != int64(total) || c.heads > c.size || c.size-c.heads >= maxBehind {
			t.Errorf("round %d: %+v, %v", round, c, err)
		}
		if total > maxBehind && c.heads == 0 {
			t.Errorf("round %d: nothing was noted after %d records", round, total)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, f.config)
	f.wantLog(t, s, total, agents)
}

// Ends that are known from nowhere else are kept when the writer forgets.
func TestTheWriterForgetsWhatTheFileKnows(t *testing.T) {
	k := &tail{known: true, size: 10, noted: 8, ends: map[rows.Chain]end{{Agent: "moved"}: {place: 9}}}
	for i := range maxEnds {
		k.ends[rows.Chain{Agent: fmt.Sprint(i)}] = end{place: 7}
	}
	sealed := must(evidence.SealUnsafeUnsigned(evidence.Genesis(evidence.ChainID{}), record("rec_1")))
	k.follow(&transaction{tail: k, appended: appended{noted: 8, pending: []evidence.Sealed{sealed}, grown: []tlog.Hash{{1}}, ends: map[rows.Chain]end{{Agent: "new"}: {place: 10}}}})
	if len(k.ends) != 2 || len(k.hashes) != 1 || k.size != 11 {
		t.Errorf("%d ends, %d hashes, size %d", len(k.ends), len(k.hashes), k.size)
	}
}

// The edge is all that a tree needs to grow: with nothing else it gets the root
// that it has with everything.
func TestEXT35_TheTreeGrowsFromItsEdge(t *testing.T) {
	var all evidence.Hashes
	k := &tail{known: true}
	for size, batch := int64(0), int64(1); size < 300; batch = batch%7 + 1 {
		leaves := make([][]byte, batch)
		for i := range leaves {
			leaves[i] = fmt.Append(nil, size+int64(i))
		}
		want, _, root, err := evidence.Grow(size, all, leaves)
		if err != nil {
			t.Fatal(err)
		}
		tx := &transaction{tail: k, raw: nil, appended: appended{pending: make([]evidence.Sealed, batch)}}
		got, next, fromEdge, err := evidence.Grow(size, rows.NewTree(rows.Reader{}, k.hashes), leaves)
		if err != nil || root != fromEdge || !cmp.Equal(want, got) {
			t.Fatalf("at %d: %v", size, err)
		}
		tx.grown = got
		k.follow(tx)
		all, size = append(all, want...), next
	}
}

// together has changes wait while the writer is held, so that they share a commit, and
// returns what became of each.
func (s *Store) together(t *testing.T, runs []func(issuer.Tx) error) []error {
	t.Helper()
	held, begun, results := make(chan struct{}), make(chan struct{}), make(chan error, len(runs))
	go func() {
		_ = s.Update(t.Context(), func(issuer.Tx) error { close(begun); <-held; return nil })
	}()
	<-begun
	for _, run := range runs {
		s.changes <- &change{ctx: t.Context(), run: func(t *transaction) error { return run(t) }, answer: func(err error) { results <- err }}
	}
	close(held)
	var out []error
	for range runs {
		out = append(out, <-results) // in their order
	}
	return out
}

// An id that is used already, in the file or in the same commit, is refused to
// the change that uses it again, and to no other.
func TestEXT27_AnIDThatIsUsedFailsItsChangeAlone(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := appendOne(t, s, record("rec_old")); err != nil {
		t.Fatal(err)
	}
	ids := []string{"rec_1", "rec_old", "rec_2", "rec_1", "rec_3"}
	var runs []func(issuer.Tx) error
	for i, id := range ids {
		runs = append(runs, func(tx issuer.Tx) error {
			if err := tx.SetMode(fmt.Sprint("agent", i), "require"); err != nil {
				return err
			}
			_, err := tx.Append(record(id))
			return err
		})
	}
	for i, err := range s.together(t, runs) {
		want := i == 1 || i == 3
		if (err != nil) != want {
			t.Errorf("change %d: %v", i, err)
		}
		if want && (!errors.Is(err, evidence.ErrNotWritten) || !strings.Contains(err.Error(), `record id "`+ids[i]+`" is already used`)) {
			t.Errorf("change %d: %v", i, err)
		}
		if got := modeOf(t, s, fmt.Sprint("agent", i)); (got == "") != want {
			t.Errorf("change %d left mode %q", i, got)
		}
	}
	f.wantLog(t, s, 4, 1)
	if err := appendOne(t, s, record("rec_old")); err == nil {
		t.Error("an id was used twice")
	}
	if err := appendOne(t, s, record("rec_4")); err != nil {
		t.Error(err)
	}
	f.wantLog(t, s, 5, 1)
}

// A file of the schema before continues with its chains and its tree, byte for
// byte, and can be given back to the program before.
func TestTheLogOfTheThirdSchemaGoesOn(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	fill(t, s, "new", 50, 3)
	before := exported(t, f, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := must(sql.Open("sqlite", "file:"+f.config.Path))
	if _, err := must(newProvider(db)).DownTo(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	var records, hashes, wide int
	if err := db.QueryRow("SELECT (SELECT COUNT(*) FROM record WHERE agent = 'agent-1' AND length(chain) = 16 AND sequence >= 0), COUNT(*), MAX(length(hash)) FROM tree").Scan(&records, &hashes, &wide); err != nil {
		t.Fatal(err)
	}
	if records != 17 || int64(hashes) != tlog.StoredHashCount(50) || wide != 32 {
		t.Errorf("the third schema has %d records of an agent, %d hashes of %d bytes", records, hashes, wide)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, f.config)
	if diff := cmp.Diff(before, exported(t, f, s)); diff != "" {
		t.Error(diff)
	}
	fill(t, s, "more", 50, 4)
	f.wantLog(t, s, 100, 4)
}

func exported(t *testing.T, f fixture, s *Store) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A missing or damaged record in the file stops the evidence with an error.
func TestEXT27_ADamagedEndIsNotContinued(t *testing.T) {
	for name, c := range map[string]struct{ damage, want string }{
		"a hash is missing":        {"UPDATE tree SET hashes = substr(hashes, 1, 32) WHERE length(hashes) > 32", "stored hash"},
		"the tree is missing":      {"DELETE FROM tree", "stored hash"},
		"the record is damaged":    {"UPDATE record SET bytes = x'7b'", "damaged"},
		"the checkpoint is gone":   {"DROP TABLE checkpoint", "checkpoint"},
		"a noted record is gone":   {"DELETE FROM record", "the last of a chain"},
		"the chains are not there": {"DROP TABLE chain", "chain"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			fill(t, s, "first", 3, 1)
			s.writer(t, "UPDATE chain SET last = 2")
			if name == "a noted record is gone" || name == "the chains are not there" {
				s.writer(t, "UPDATE checkpoint SET heads = 3")
			}
			s.writer(t, c.damage)
			s.tail = tail{}
			r := record("rec_next")
			r.AgentID = "agent-0"
			if err := appendOne(t, s, r); !errors.Is(err, evidence.ErrNotWritten) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want one that says %q", err, c.want)
			}
		})
	}
}
