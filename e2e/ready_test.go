package e2e

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// readyAt is the answer of /readyz.
func readyAt(t *testing.T, base string) (status int, said struct {
	Status  string
	Reasons []struct{ Dependency, Reason string }
},
) {
	t.Helper()
	r, err := http.Get(base + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, said
}

// unreadyFor waits until /readyz takes a process out for a dependency, and returns how long
// that took.
func unreadyFor(t *testing.T, base, dependency string) {
	t.Helper()
	last := ""
	eventually(t, 6*time.Second, func() string { return "ATK-76 /readyz says " + last }, func() bool {
		status, said := readyAt(t, base)
		last = said.Status
		return status == http.StatusServiceUnavailable && said.Status == "unready" && len(said.Reasons) == 1 && said.Reasons[0].Dependency == dependency && said.Reasons[0].Reason != ""
	})
}

func readyAgain(t *testing.T, base string) {
	t.Helper()
	last := ""
	eventually(t, 10*time.Second, func() string { return "ATK-76 /readyz says " + last }, func() bool {
		status, said := readyAt(t, base)
		last = said.Status
		return status == http.StatusOK && said.Status == "ready" && len(said.Reasons) == 0
	})
}

// inTime makes a call that the locked store cannot answer, and wants an error that says to
// try again, soon after the deadline of a second.
func inTime(t *testing.T, what string, call func() answer) answer {
	t.Helper()
	begin := time.Now()
	a := call()
	if took := time.Since(begin); took > 4*time.Second || took < 500*time.Millisecond {
		t.Errorf("ATK-76 %s: an answer after %v; want one after about a second", what, took)
	}
	if a.Status != http.StatusServiceUnavailable && a.reason() != "evidence_unavailable" && a.reason() != "authorization_unavailable" || a.Header.Get("Retry-After") == "" {
		t.Errorf("ATK-76 %s: %d %v %s", what, a.Status, a.Header, a.Raw)
	}
	return a
}

const aSecond = "limits: {dependency_time: 1s, denials: 0}\n"

// Another process locks the file of the store: what needs it is refused after the deadline,
// and /readyz says so until the lock is gone.
func TestATK76_ALockedFile(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{extra: aSecond, reads: ", uses: 9"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	search := func() answer { return alice.byID(held, data("search_documents", map[string]any{"query": "x"})) }
	allowed(t, search())
	reached := len(w.documents.got())
	readyAgain(t, w.url)
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "powerbox-data", "powerbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	inTime(t, "a call that a budget counts", search)
	inTime(t, "a request for a capability", func() answer { return alice.send("documents", asked) })
	unreadyFor(t, w.url, "store")
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.documents.got()); n != reached {
		t.Errorf("ATK-76 %d calls reached the agent that were not on record", n-reached)
	}
	readyAgain(t, w.url)
	if r := w.decided(search()); r.Decision != "ALLOW" {
		t.Errorf("ATK-76 afterwards: %+v", r)
	}
}

// Another session locks the table of the log in PostgreSQL.
func TestATK76_ALockedTable(t *testing.T) {
	asGiven(t)
	database := databases.Database(t)
	w := start(t, options{extra: aSecond, database: database})
	alice := w.caller(aliceToken)
	held := alice.reports()
	search := func() answer { return alice.byID(held, data("search_documents", map[string]any{"query": "x"})) }
	allowed(t, search())
	reached := len(w.documents.got())
	readyAgain(t, w.url)
	locker, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Close(t.Context()) }()
	if _, err := locker.Exec(t.Context(), "BEGIN; LOCK TABLE log IN EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if a := inTime(t, "a call while writers are locked out", search); a.reason() != "evidence_unavailable" || a.Header.Get("Powerbox-Decision") != "" {
		t.Errorf("ATK-76 %v %s", a.Header, a.Raw)
	}
	unreadyFor(t, w.url, "store")
	if _, err := locker.Exec(t.Context(), "LOCK TABLE log IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	inTime(t, "a call while readers are locked out", search)
	if _, err := locker.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.documents.got()); n != reached {
		t.Errorf("ATK-76 %d calls reached the agent that were not on record", n-reached)
	}
	readyAgain(t, w.url)
	if r := w.decided(search()); r.Decision != "ALLOW" {
		t.Errorf("ATK-76 afterwards: %+v", r)
	}
}

// The disk of a remote gateway is full: before the first call /readyz says so.
func TestATK76_AFullSpool(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	base := "http://" + all[0].address
	readyAgain(t, base)
	limit := func(bytes uint64) {
		if err := unix.Prlimit(all[0].process.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	unreadyFor(t, base, "spool")
	alice := w.caller(aliceToken)
	held := alice.reports()
	a := alice.byID(held, data("search_documents", map[string]any{"query": "x"}))
	if a.reason() != "evidence_unavailable" || a.Header.Get("Powerbox-Decision") != "" || !strings.Contains(string(a.Raw), `"retryable":"true"`) {
		t.Errorf("ATK-76 %v %s", a.Header, a.Raw)
	}
	limit(unix.RLIM_INFINITY)
	readyAgain(t, base)
	allowed(t, alice.byID(held, data("search_documents", map[string]any{"query": "x"})))
}

// The server of a remote gateway stands still when the gateway asks whose a context is: the
// call is not decided, so the answer names no record, nothing is executed, and the caller may
// try again.
func TestATK75_ACutOffGatewayDecidesNothing(t *testing.T) {
	w, _ := startRemote(t, 1, options{agent: "    enforces: context\n"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.byID(held, data("search_documents", map[string]any{"query": "x"})))
	message := rpc("SendMessage", map[string]any{"message": map[string]any{
		"messageId": nonce(), "role": "ROLE_USER", "contextId": "context-of-alice",
		"parts": []any{map[string]any{"data": map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": "x"}}}},
	}})
	reached := len(w.documents.got())
	standStill(t, w.process.Process)
	a := alice.byID(held, message)
	if err := w.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if a.reason() != "authorization_unavailable" || a.Header.Get("Powerbox-Decision") != "" || !strings.Contains(string(a.Raw), `"retryable":"true"`) {
		t.Errorf("ATK-75 %v %s", a.Header, a.Raw)
	}
	if n := len(w.documents.got()); n != reached {
		t.Errorf("ATK-75 %d calls reached the agent that were not decided", n-reached)
	}
}
