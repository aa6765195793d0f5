package e2e

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// lockStore locks the file of the store, as another program could. What it returns gives
// the file back.
func (w *town) lockStore() (unlock func()) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "powerbox-data", "powerbox.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			w.t.Error(err)
		}
	}
}

// inBackground makes n calls at once. The answers come in the order in which they are had.
func inBackground(n int, call func() answer) <-chan answer {
	all := make(chan answer, n)
	for range n {
		go func() { all <- call() }()
	}
	return all
}

// turnedAway checks that an answer says in the form of its binding that the gateway is
// overloaded.
func turnedAway(t *testing.T, on wire, a answer) {
	t.Helper()
	status, grpc := http.StatusServiceUnavailable, ""
	switch on.binding {
	case overGRPC:
		status, grpc = http.StatusOK, "14"
	case overREST: // the harness says 200 for every denial that it can read
		status = http.StatusOK
		if !strings.Contains(string(a.Raw), `"code":503,"status":"UNAVAILABLE"`) {
			t.Errorf("ATK-81 the problem says %s", a.Raw)
		}
	}
	if a.reason() != "overloaded" || a.Status != status || a.Header.Get("Grpc-Status") != grpc {
		t.Errorf("ATK-81 want a call that is turned away: %d %v %s", a.Status, a.Header, a.Raw)
		return
	}
	if a.Header.Get("Retry-After") == "" || a.Header.Get("Powerbox-Decision") != "" || a.Error.Data[0].Metadata["retryable"] != "true" {
		t.Errorf("ATK-81 a call that is turned away: %v %s", a.Header, a.Raw)
	}
}

// decisions are the records of calls to the documents agent, by their decision.
func (w *town) decisions() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for _, r := range w.records("agent=documents&limit=1000") {
		if !strings.HasPrefix(r.Action, "capability") && r.Status != "ACHIEVED" {
			out[r.Decision]++
		}
	}
	return out
}

// The store is locked and four calls may be decided at once. Further ones are turned away
// at once or after the time of the queue, and leave no record. Revocations, the operator and
// the health of the process are served or wait for the store, and are not turned away.
func TestATK81_CallsThatWouldWaitAreTurnedAway(t *testing.T) {
	aboutTheFile(t)
	everyBinding(t, func(t *testing.T, on wire) {
		const places, calls = 4, 12
		metrics, section := telemetryAt(t, "")
		w := start(t, options{on: on, reads: ", uses: 50", extra: section + fmt.Sprintf("limits: {deciding: %d, queue_time: 50ms, dependency_time: 30s, denials: 0}\n", places)})
		alice, body := w.caller(aliceToken), searchBody(on)
		held, gone := alice.reports(), alice.reports()
		allowed(t, alice.byID(held, body))
		before, reached := w.decisions(), len(w.documents.got())
		unlock := w.lockStore()
		all := inBackground(calls, func() answer { return alice.byID(held, body) })
		for range calls - places {
			turnedAway(t, on, <-all)
		}
		if t.Failed() {
			return // every further call waits for its whole time
		}
		turnedAway(t, on, alice.byID(held, body))
		url := w.agentURL("documents")
		stranger := w.post(url, body, nil)
		turnedAway(t, on, stranger)
		revoked := inBackground(places+1, func() answer {
			return alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": gone.RevocationID})
		})
		byOperator := make(chan string, 1)
		go func() { byOperator <- string(w.operator(http.MethodGet, "/v1/records?limit=1", nil)) }()
		live, err := http.Get(w.url + "/livez")
		if err != nil || live.StatusCode != http.StatusOK {
			t.Errorf("ATK-81 the health of a process with a full queue: %v %v", live, err)
		}
		_ = live.Body.Close()
		select {
		case a := <-revoked:
			t.Errorf("ATK-81 a revocation is answered while the store is locked: %s", a.Raw)
		default:
		}
		unlock()
		for range places {
			allowed(t, <-all)
		}
		for range places + 1 {
			allowed(t, <-revoked)
		}
		if said := <-byOperator; !strings.Contains(said, "record_id") {
			t.Errorf("ATK-81 the operator is told %s", said)
		}
		if a := alice.byID(gone, body); a.reason() != "revoked" {
			t.Errorf("ATK-81 under the revoked capability: %s", a.Raw)
		}
		allowed(t, alice.byID(held, body))
		if n := len(w.documents.got()) - reached; n != places+1 {
			t.Errorf("ATK-81 %d calls reached the agent; want %d", n, places+1)
		}
		after := w.decisions()
		if after["ALLOW"]-before["ALLOW"] != places+1 || after["DENY"]-before["DENY"] != 1 {
			t.Errorf("ATK-81 on record are %v, and were %v", after, before)
		}
		counted(t, metrics, "powerbox_calls_shed_total", fmt.Sprint(calls-places+2))
	})
}

// An agent that does not answer takes no place: a decided call waits outside the queue, and
// other calls are decided.
func TestATK81_ASlowAgentTakesNoPlace(t *testing.T) {
	everyBinding(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, extra: "limits: {deciding: 1, queue_time: 20s, denials: 0}\n"})
		alice, body := w.caller(aliceToken), searchBody(on)
		held := alice.reports()
		release, arrived := make(chan struct{}), make(chan struct{}, 8)
		answers := sync.OnceFunc(func() { close(release) })
		t.Cleanup(answers)
		w.documents.sees(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		all := inBackground(4, func() answer { return alice.byID(held, body) })
		for range 4 {
			select {
			case <-arrived: // each was decided while the ones before it are not answered
			case a := <-all:
				t.Fatalf("ATK-81 a call waits for those that the agent does not answer: %s", a.Raw)
			}
		}
		answers()
		for range 4 {
			allowed(t, <-all)
		}
	})
}

// A body that comes slowly takes no place.
func TestATK81_ASlowBodyTakesNoPlace(t *testing.T) {
	w := start(t, options{extra: "limits: {deciding: 1, queue_time: 20s, denials: 0}\n"})
	alice := w.caller(aliceToken)
	held, body := alice.reports(), searchBody(wire{})
	slow, end := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), slow)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = alice.headers(w.agentURL("documents"))
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	if _, err := end.Write(body[:1]); err != nil { // the head was sent
		t.Fatal(err)
	}
	allowed(t, alice.byID(held, body))
	_ = end.Close()
	<-done
}
