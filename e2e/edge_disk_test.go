package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// onDisk starts a town again on a disk that the test holds.
func (w *town) onDisk() *disk {
	w.t.Helper()
	d := newDisk(w.t)
	w.client = &http.Client{Timeout: time.Minute} // a call without a deadline fails the test
	w.again(func() { w.program = d.program })
	return d
}

// refusedLate checks that a call was refused because its decision was not on the disk in
// time, with the id of the record that may still be written.
func refusedLate(t *testing.T, what string, a answer) {
	t.Helper()
	if a.reason() != "evidence_unavailable" || a.Header.Get("Retry-After") == "" || a.Header.Get("Powerbox-Decision") == "" || !strings.Contains(string(a.Raw)+a.Error.Message, "in time") {
		t.Errorf("ATK-86 %s: %v %s", what, a.Header, a.Raw)
	}
}

// corrected waits until a record that was written too late is followed by an outcome which
// says that the call was not made.
func (w *town) corrected(what string, a answer) {
	w.t.Helper()
	id := a.Header.Get("Powerbox-Decision")
	eventually(w.t, atOnce, func() string {
		return fmt.Sprintf("ATK-86 %s: no outcome follows the late record: %+v, %+v\n%s", what, w.records("outcome_of="+id), w.record(id), w.log)
	}, func() bool {
		out := w.records("outcome_of=" + id)
		return len(out) == 1 && out[0].Status == "FAILED" && out[0].Outcome.Cause == "not_the_agent" && out[0].Outcome.Told == "evidence_unavailable"
	})
	if r := w.record(id); r.Decision != "ALLOW" {
		w.t.Errorf("ATK-86 %s: the late record says %s", what, r.Decision)
	}
}

// The disk hangs in fsync. A call is refused after the deadline and does not reach the
// agent. When the disk works again its record is there, followed by an outcome that says
// that the call was not made.
func TestATK86_ADiskThatHangs(t *testing.T) {
	aboutTheFile(t)
	everyBinding(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, extra: aSecond})
		d := w.onDisk()
		alice, body := w.caller(aliceToken), searchBody(on)
		held := alice.reports()
		allowed(t, alice.byID(held, body))
		reached := len(w.documents.got())
		d.hold()
		late := alice.byID(held, body)
		refusedLate(t, "a call", late)
		if !d.hangs() {
			t.Error("the disk does not hang")
		}
		if n := len(w.documents.got()); n != reached {
			t.Errorf("ATK-86 %d calls reached the agent that were not on record", n-reached)
		}
		d.release()
		w.corrected("a call", late)
		allowed(t, alice.byID(held, body))

		w.documents.sees(func(http.ResponseWriter, *http.Request) { d.hold() })
		unrecorded := alice.byID(held, body)
		if unrecorded.reason() != "outcome_unrecorded" || bytes.Contains(unrecorded.Raw, []byte("echo")) {
			t.Errorf("ATK-86 an outcome that the disk does not take: %s", unrecorded.Raw)
		}
		w.documents.sees(nil)
		d.release()
		allowed(t, alice.byID(held, body))
		if n := len(w.documents.got()) - reached; n != 3 {
			t.Errorf("ATK-86 %d calls reached the agent; want 3", n)
		}
		data, trust := w.bundle()
		if report, err := evidence.Verify(bytes.NewReader(data), trust); err != nil || report.Verdict() != evidence.OK {
			t.Errorf("ATK-86 the evidence after it: %v %+v", err, report.Problems)
		}
	})
}

// A budget is not used up by a call that was refused because the disk hung.
func TestATK86_ALateRecordGivesItsBudgetBack(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{extra: aSecond, reads: ", uses: 2"})
	d := w.onDisk()
	alice, body := w.caller(aliceToken), searchBody(wire{})
	held := alice.reports()
	d.hold()
	late := alice.byID(held, body)
	refusedLate(t, "a call that a budget counts", late)
	d.release()
	w.corrected("a call that a budget counts", late)
	// The budget is settled after the outcome.
	eventually(t, stepTime, func() string { return "ATK-86 the budget has less than it had" }, func() bool {
		return alice.byID(held, body).Error == nil
	})
	allowed(t, alice.byID(held, body))
	if a := alice.byID(held, body); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-86 a third use: %s", a.Raw)
	}
}

// Requests for capabilities have a deadline, too. A revocation that was answered with an
// error is in force once the disk has it.
func TestATK86_ARevocationOnADiskThatHangs(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{extra: aSecond})
	d := w.onDisk()
	alice, body := w.caller(aliceToken), searchBody(wire{})
	held := alice.reports()
	allowed(t, alice.byID(held, body))
	d.hold()
	a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": held.RevocationID})
	if a.reason() != "authorization_unavailable" || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Error.Message, "safe to ask again") {
		t.Errorf("ATK-86 a revocation: %s", a.Raw)
	}
	d.release()
	eventually(t, stepTime, func() string { return "ATK-86 the revocation is not in force" }, func() bool {
		return alice.byID(held, body).reason() == "revoked"
	})
}

// The same for the spool of a remote gateway.
func TestATK86_ASpoolThatHangs(t *testing.T) {
	w, all := startRemote(t, 1, options{extra: aSecond})
	d, r := newDisk(t), all[0]
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, stepTime, func() string { return "the gateway does not end" }, func() bool { return syscall.Kill(r.process.Process.Pid, 0) != nil })
	r.program = d.program
	r.boot()
	alice, body := w.caller(aliceToken), searchBody(wire{})
	held := alice.reports()
	allowed(t, alice.byID(held, body))
	reached := len(w.documents.got())
	d.hold()
	late := alice.byID(held, body)
	refusedLate(t, "a call", late)
	if n := len(w.documents.got()); n != reached {
		t.Errorf("ATK-86 %d calls reached the agent that were not on record", n-reached)
	}
	d.release()
	w.corrected("a call", late)
	allowed(t, alice.byID(held, body))
}

// A change by an operator has a deadline, too, and can be repeated.
func TestATK86_AnOperatorOnADiskThatHangs(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{extra: aSecond})
	d := w.onDisk()
	alice, body := w.caller(aliceToken), searchBody(wire{})
	held := alice.reports()
	allowed(t, alice.byID(held, body))
	changes := []struct {
		method, path string
		body         any
	}{
		{http.MethodPut, "/v1/agents/documents/mode", map[string]any{"mode": "require"}},
		{http.MethodPost, "/v1/revocations", map[string]any{"target": held.ID}},
		{http.MethodPost, "/v1/freezes", map[string]any{"target": "agent:documents", "reason": "incident"}},
	}
	d.hold()
	defer d.release()
	for _, c := range changes {
		r, said := w.operates(c.method, c.path, c.body)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(said, "may still take effect") {
			t.Errorf("ATK-86 %s on a disk that hangs: %s %v %s", c.path, r.Status, r.Header, said)
		}
	}
	d.release()
	freeze := changes[len(changes)-1]
	if r, said := w.operates(freeze.method, freeze.path, freeze.body); r.StatusCode != http.StatusOK {
		t.Errorf("ATK-86 the freeze again: %v %s", r.Status, said)
	}
	if a := alice.byID(held, body); a.reason() != "frozen" {
		t.Errorf("ATK-86 the freeze is not in force: %s", a.Raw)
	}
}

// operates calls the operator's interface and returns the answer as it is.
func (w *town) operates(method, path string, body any) (*http.Response, string) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.operatorToken())
	r, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, string(said)
}
