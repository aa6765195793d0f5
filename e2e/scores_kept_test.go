package e2e

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

const continued = "scores and graph continue from what was kept"

// keptScore compares the score of mail at the server with that of an auditor who reads the whole
// log.
func keptScore(t *testing.T, w *town, what string, achieved, failed int) {
	t.Helper()
	s := w.scores("mail")
	if s.Counts.Achieved != achieved || s.Counts.Failed != failed || s.Broken {
		t.Errorf("EXT-20 %s: %+v; want %d achieved and %d failed", what, s, achieved, failed)
	}
	a := w.handed()
	out, code := a.runs(filepath.Join(a.dir, "powerbox"), "trust", "mail", "--from", "bundle.jsonl", "--trust", "trust.json", "--output", "json")
	if theirs := scored(t, out); code != 0 || theirs.Score != s.Score || theirs.Counts != s.Counts {
		t.Errorf("EXT-20 %s: the server has %s %+v, the whole log %s %+v", what, s.Score, s.Counts, theirs.Score, theirs.Counts)
	}
}

// A server that was stopped continues counting where it was, and one that was killed comes to the
// same number.
func TestEXT20_ScoresContinueAfterARestart(t *testing.T) {
	w := trusting(t, options{})
	alice := w.caller(aliceToken)
	held := alice.mailGrant()
	allowed(t, alice.mails(held, 3))
	keptScore(t, w, "before", 3, 0)
	w.again(func() {})
	w.mail.answers(failing)
	alice.mails(held, 1)
	keptScore(t, w, "after a stop", 3, 1)
	if log := w.log.String(); !strings.Contains(log, continued) {
		t.Errorf("the log was read from its beginning:\n%s", log)
	}
	alice.mails(held, 2)
	w.killed()
	w.mail.answers(nil)
	keptScore(t, w, "after a kill", 3, 3)
	if log := w.log.String(); !strings.Contains(log, continued) {
		t.Errorf("the log was read from its beginning:\n%s", log)
	}
}

// With a required level, nothing is decided before the whole log is read, also behind a restart:
// a record that was changed meanwhile must not count.
func TestEXT18_LevelsAreOfTheWholeLogAfterARestart(t *testing.T) {
	w := trusting(t, options{})
	w.threshold("HIGH")
	alice := w.caller(aliceToken)
	held, reports := alice.mailGrant(), w.reader.reports()
	w.mail.answers(failing)
	alice.mails(held, 3)
	keptScore(t, w, "before", 0, 3)
	for range 2 {
		w.again(func() {})
		if log := w.log.String(); strings.Contains(log, continued) {
			t.Errorf("the log was not read from its beginning:\n%s", log)
		}
		if a := w.reader.looksUp(reports); a.reason() != "insufficient_trust" {
			t.Errorf("EXT-18 after a restart: %s", a.Raw)
		}
	}
}

// A score cannot be raised in the database without a record: a ledger that was changed, or is that of
// an earlier time, is not believed beyond the records that it is of.
func TestEXT20_ALedgerThatWasChangedIsReadAgain(t *testing.T) {
	aboutTheFile(t)
	w := trusting(t, options{})
	alice := w.caller(aliceToken)
	held := alice.mailGrant()
	w.mail.answers(failing)
	alice.mails(held, 2)
	keptScore(t, w, "before", 0, 2)
	inFile := func(statement string) {
		db, err := sql.Open("sqlite", filepath.Join(w.dir, "powerbox-data", "powerbox.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		done, err := db.ExecContext(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			t.Fatalf("%d rows were changed: %v", n, err)
		}
	}
	w.again(func() { inFile("UPDATE ledger_part SET body = zeroblob(length(body))") })
	keptScore(t, w, "changed", 0, 2)
	if log := w.log.String(); strings.Contains(log, continued) || !strings.Contains(log, "the log is read again from its beginning") {
		t.Errorf("a ledger that was changed is believed:\n%s", log)
	}
}
