package sqlite

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// act does what an action does to the store: state and its record.
func act(s *Store, t *testing.T, agent string) error {
	return s.Update(t.Context(), func(tx issuer.Tx) error {
		if err := tx.SetMode(agent, "require"); err != nil {
			return err
		}
		_, err := tx.Append(record("rec_" + agent))
		return err
	})
}

// writer runs a statement on the one connection that writes, between changes.
func (s *Store) writer(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func modeOf(t *testing.T, s *Store, agent string) (mode string) {
	t.Helper()
	err := s.View(t.Context(), func(r issuer.Reader) error { modes, err := r.Modes(); mode = modes[agent]; return err })
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

// On a disk that takes nothing more the action does not happen: SQLite's own
// page limit gives the same SQLITE_FULL as the file system. When there is room
// again, the store continues, and its evidence is whole.
func TestEXT27_OnAFullDiskNothingHappens(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "before"); err != nil {
		t.Fatal(err)
	}
	s.writer(t, "PRAGMA max_page_count = 1") // never below the pages in use
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		err = act(s, t, fmt.Sprintf("agent%d", n))
	}
	if !errors.Is(err, evidence.ErrNotWritten) && !strings.Contains(fmt.Sprint(err), "full") {
		t.Fatalf("after %d actions: %v; want a full disk", n, err)
	}
	if !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	if mode := modeOf(t, s, fmt.Sprintf("agent%d", n-1)); mode != "" {
		t.Errorf("the action that could not be recorded happened: %q", mode)
	}
	s.writer(t, "PRAGMA max_page_count = 1073741823")
	if err := act(s, t, "after"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if report := f.verify(t, s); report.Verdict() != evidence.OK || report.Records != n+1 {
		t.Errorf("%d records after %d actions: %+v", report.Records, n, report.Problems)
	}
}

// A change that continues after the disk was full, whose transaction SQLite has ended,
// leaves nothing in the file.
func TestEXT27_NothingIsWrittenBehindATransaction(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "agent"); err != nil {
		t.Fatal(err)
	}
	s.writer(t, "PRAGMA max_page_count = 1")
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		full := error(nil)
		for n := 0; full == nil && n < 10_000; n++ {
			full = tx.SetMode(fmt.Sprintf("agent%d", n), strings.Repeat("m", 1000))
		}
		if full == nil {
			t.Error("the disk is not full")
		}
		_ = tx.SetMode("agent", "off")
		return nil
	})
	if !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	if mode := modeOf(t, s, "agent"); mode != "require" {
		t.Errorf("the mode is %q; want what it was", mode)
	}
}

// Of changes that share a commit, the one that fails after it wrote leaves nothing, and
// the others happen. From then on they have savepoints, for a while.
func TestEXT27_AChangeThatFailsIsTakenBackAlone(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	for round := range 2 {
		failed, ran := errors.New("it fails"), 0
		var runs []func(issuer.Tx) error
		for i := range 5 {
			runs = append(runs, func(tx issuer.Tx) error {
				ran++
				if err := tx.SetMode(fmt.Sprint("agent", i), fmt.Sprint("mode", round)); err != nil {
					return err
				}
				if _, err := tx.Append(record(fmt.Sprint("rec_", round, i))); err != nil || i != 2 {
					return err
				}
				return failed
			})
		}
		for i, err := range s.together(t, runs) {
			if errors.Is(err, failed) != (i == 2) || err != nil && i != 2 {
				t.Errorf("round %d, change %d: %v", round, i, err)
			}
			want := fmt.Sprint("mode", round)
			if i == 2 {
				want = ""
			}
			if got := modeOf(t, s, fmt.Sprint("agent", i)); got != want {
				t.Errorf("round %d, change %d left mode %q; want %q", round, i, got, want)
			}
		}
		if again := ran > 5; again != (round == 0) {
			t.Errorf("round %d: %d runs of 5 changes", round, ran)
		}
		f.wantLog(t, s, 4*(round+1), 1)
	}
}

// On a disk that became read-only the action does not happen. PRAGMA
// query_only stands for it: file modes do not bind root.
func TestEXT27_OnAReadOnlyDiskNothingHappens(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "before"); err != nil {
		t.Fatal(err)
	}
	s.writer(t, "PRAGMA query_only = ON")
	if err := act(s, t, "during"); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	if mode := modeOf(t, s, "during"); mode != "" {
		t.Errorf("the action that could not be recorded happened: %q", mode)
	}
	s.writer(t, "PRAGMA query_only = OFF")
	if err := act(s, t, "after"); err != nil {
		t.Error(err)
	}
	if report := f.verify(t, s); report.Verdict() != evidence.OK || report.Records != 2 {
		t.Errorf("%+v", report)
	}
}

func TestADamagedRecordIsReported(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "agent"); err != nil {
		t.Fatal(err)
	}
	s.writer(t, "UPDATE record SET bytes = CAST(replace(CAST(bytes AS TEXT), 'ALLOW', 'DENY') AS BLOB)")
	if report := f.verify(t, s); report.Verdict() != evidence.Tampered {
		t.Errorf("a changed record is %s", report.Verdict())
	}
	s.writer(t, "UPDATE record SET bytes = x'7b'")
	err := s.View(t.Context(), func(r issuer.Reader) error { _, err := r.Record("rec_agent"); return err })
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v; want that the record is damaged", err)
	}
}

func TestADamagedCapabilityIsReported(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	put(t, s, capability("cap_1"))
	for _, body := range []string{`{`, `{"Authority":"x"}`, `{"ID":"cap_1"}`} {
		s.writer(t, "UPDATE capability SET body = CAST('"+body+"' AS BLOB)")
		err := s.View(t.Context(), func(r issuer.Reader) error { _, err := r.Capability("cap_1"); return err })
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v; want that the capability is damaged", body, err)
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	if err := openStore(t, f.config).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+f.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("%v; want that the schema is newer", err)
	}
}

// Evidence is not continued under a key that cannot have signed the records there.
func TestAnotherLogKeyIsRefused(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "agent"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f.config.Checkpoint = otherLogKey()
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "not signed by the key") {
		t.Errorf("%v; want that the checkpoint is another key's", err)
	}
}

// A server that moves to its public URL has another name for its log, and the same key.
func TestALogThatWasRenamedSaysHowToGoOn(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	if err := act(s, t, "agent"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := f.config.Origin
	moved, _, err := evidence.NewLogSigner("moved.example", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	f.config.Origin, f.config.Checkpoint = "moved.example", moved
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "set evidence.origin to \""+before+"\"") {
		t.Errorf("%v; want how to go on", err)
	}
}
