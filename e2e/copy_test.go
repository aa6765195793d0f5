package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// onto has a town continue with a database.
func (w *town) onto(url string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	lines := fmt.Sprintf("store: {postgres: %q, durability: single}\n", url)
	if w.database != "" {
		w.write("powerbox.yaml", strings.Replace(string(text), fmt.Sprintf("store: {postgres: %q, durability: single}\n", w.database), lines, 1))
	} else {
		w.write("powerbox.yaml", string(text)+lines)
	}
	w.database = url
}

// nameOf is the name of the database of a URL.
func nameOf(url string) string {
	_, rest, _ := strings.Cut(url, "@/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}

// TestStoreCopy takes a town from SQLite to PostgreSQL: capabilities are still held,
// revocations stay in force, waiting requests can be answered, and the evidence from
// before is in the log that continues, byte for byte.
func TestStoreCopy(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{mail: ", approval: true"})
	alice := w.caller(aliceToken)
	kept, gone := alice.reports(), alice.reports()
	mails := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"})[0]
	for range 5 {
		allowed(t, alice.searches(kept))
	}
	w.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": gone.ID})
	task := heldIn(t, alice.mailsUnder(mails, "bob@example.org"))
	body := data("search_documents", nil)
	used := alice.proof("documents", body, proven{chain: []string{kept.Token}, operation: opSearch})
	allowed(t, w.post(w.agentURL("documents"), body, used))
	before, _ := w.bundle()
	w.stop()
	w.onto(databases.Database(t))
	if out, err := w.verb("store", "copy", "--from", "sqlite", "--to", "postgres"); err == nil || !strings.Contains(out, "powerbox migrate up") {
		t.Errorf("into a database without a schema: %v %s", err, out)
	}
	w.migrate()
	if out, err := w.verb("store", "copy", "--from", "sqlite", "--to", "postgres"); err != nil || !strings.Contains(out, "copied and verified") {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := w.verb("store", "copy", "--from", "sqlite", "--to", "postgres"); err == nil {
		t.Errorf("copied twice: %s", out)
	}
	w.boot()
	allowed(t, alice.searches(kept))
	if a := alice.searches(gone); a.reason() != "revoked" {
		t.Errorf("what was revoked before: %q %s", a.reason(), a.Raw)
	}
	if a := w.post(w.agentURL("documents"), body, used); a.Error == nil {
		t.Error("a proof from before is used again")
	}
	w.answers("alice", task.URL[strings.LastIndexByte(task.URL, '/')+1:], map[string]any{})
	if done := w.polled(alice, mails, "mail", task.ID); done.State != "COMPLETED" {
		t.Errorf("what waited for a person: %+v", done)
	}
	after, trust := w.bundle()
	report, err := evidence.Verify(bytes.NewReader(after), trust)
	if err != nil || report.Verdict() != evidence.OK {
		t.Fatalf("%v %+v", err, report.Problems)
	}
	for _, line := range bytes.Split(before, []byte("\n")) {
		if bytes.Contains(line, []byte(`"record_hash"`)) && !bytes.Contains(after, line) {
			t.Fatalf("a record from before is not in the log: %s", line)
		}
	}
	w.stop()
	file := filepath.Join(w.dir, "powerbox-data", "powerbox.db")
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is where a server would go on in it")
	}
	if err := os.Rename(file+".copied", file); err != nil {
		t.Fatal(err)
	}
	if out, err := w.verb("store", "copy", "--from", "sqlite", "--to", "postgres"); err == nil || !strings.Contains(out, "not empty") {
		t.Errorf("into a database that has gone on: %v %s", err, out)
	}
}

// TestATK43_ARestoredDatabaseIsNotServed restores a dump: while it is the last state the
// server continues; when the log has grown since, a witness knows, and nothing is served.
func TestATK43_ARestoredDatabaseIsNotServed(t *testing.T) {
	asGiven(t)
	w := start(t, options{database: databases.Database(t), extra: "defaults: {request_rate: 0}\nevidence: {origin: " + logName + "}\n"})
	v := newWatcher(t, "witness.example.com/pg", w.logKey())
	w.again(func() { w.under("", v) })
	w.denied(8)
	w.covers(8)
	w.stop()
	dump, err := databases.Cluster().Dump(nameOf(w.database))
	if err != nil {
		t.Fatal(err)
	}
	restored, err := databases.Cluster().Restore(t.Context(), dump)
	if err != nil {
		t.Fatal(err)
	}
	w.onto(restored)
	w.boot() // it is the last state
	size := w.shown().Size + 8
	w.denied(8)
	w.covers(size)
	w.stop()
	old, err := databases.Cluster().Restore(t.Context(), dump)
	if err != nil {
		t.Fatal(err)
	}
	w.onto(old)
	if said := w.notServed(); !strings.Contains(said, "the store is behind") {
		t.Errorf("ATK-43 a database that was rolled back: %s", said)
	}
	w.onto(restored)
	w.boot()
	if now := w.shown().Size; now < size {
		t.Errorf("the newest one: %d records, and there were %d", now, size)
	}
}
