package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/powerbox-project/powerbox/evidence"
)

// bundle exports all evidence with what a verifier pins.
func (w *town) bundle() ([]byte, evidence.Trust) {
	w.t.Helper()
	trust, err := evidence.ParseTrust(w.operator(http.MethodGet, "/v1/evidence/trust", nil))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.operator(http.MethodGet, "/v1/evidence/bundle", nil), trust
}

// evidenced is a town in which something was allowed, and something refused.
func evidenced(t *testing.T) (w *town, yes, no recorded) {
	t.Helper()
	w = start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	args, body := retrieve(c.ResourceHandles[0].Handle)
	h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
	h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	yes = w.decided(w.post(w.agentURL("documents"), body, h))
	no = w.decided(alice.present("documents", invoke("delete_document", args, ""), proven{chain: []string{c.Token}, operation: opDelete, arguments: args}))
	return w, yes, no
}

func TestEXT21_RecordMembers(t *testing.T) {
	_, yes, no := evidenced(t)
	for name, missing := range map[string]bool{
		"record_id": yes.ID == "", "agent_id": yes.AgentID != "documents", "action_type": yes.Action != "a2a.skill.invoke",
		"intent": yes.Intent.Operation != opRetrieve, "decision": yes.Decision != "ALLOW" || no.Decision != "DENY",
		"outcome_status": yes.Status != "PENDING" || no.Status != "", "timestamp_utc": !strings.HasSuffix(yes.Timestamp, "Z"),
		"prev_record_hash": len(yes.Prev) != 64, "record_hash": len(yes.Hash) != 64, "signature": yes.Signature == "",
		"signature_algorithm": yes.Algorithm != "Ed25519", "chain_id": yes.Powerbox.ChainID == "", "sequence": no.Powerbox.Sequence <= yes.Powerbox.Sequence,
		"recorder": yes.Powerbox.Recorder == "", "signing_key_id": yes.Powerbox.KeyID == "", "requester": yes.Powerbox.Requester == "",
		"principal": !strings.HasPrefix(yes.Powerbox.Principal, "pw_"), "trace_id": yes.Powerbox.TraceID != "0af7651916cd43dd8448eb211c80319c",
		"granted": len(yes.Powerbox.Granted) == 0, "exercised": len(yes.Powerbox.Exercised) == 0 || len(no.Powerbox.Exercised) > 0,
		"gate": yes.Powerbox.Gate == nil || len(yes.Powerbox.Gate.Allowed) == 0 || len(no.Powerbox.Gate.Missing) != 1,
		"mode": yes.Powerbox.Mode != "require/capability", "policy_digest": yes.Powerbox.PolicyDigest == "", "reasons": !no.has("operation_not_granted"),
	} {
		if missing {
			t.Errorf("EXT-21 %s is missing or wrong: %+v\n%+v", name, yes, no)
		}
	}
}

// The hash of the text, computed by hand from what the export holds.
func TestEXT22_RecordHash(t *testing.T) {
	w, _, _ := evidenced(t)
	data, _ := w.bundle()
	checked, prev := 0, map[string]string{}
	for _, line := range bytes.Split(data, []byte("\n")) {
		var holder map[string]json.RawMessage
		if json.Unmarshal(line, &holder) != nil {
			continue
		}
		raw, ok := holder["record"]
		if !ok {
			raw = line
		}
		var r recorded
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &r) != nil || r.Hash == "" || json.Unmarshal(raw, &members) != nil {
			continue
		}
		for _, left := range []string{"record_hash", "prev_record_hash", "signature"} {
			delete(members, left)
		}
		canonical, err := json.Marshal(members) // sorts; the record's own texts need no escapes
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(append([]byte(r.Prev), canonical...)); hex.EncodeToString(sum[:]) != r.Hash {
			t.Errorf("EXT-22 the hash of %s is not that of its bytes\n%s", r.ID, canonical)
		}
		want, later := prev[r.Powerbox.ChainID]
		if !later {
			want = strings.Repeat("0", 64)
		}
		if r.Prev != want {
			t.Errorf("EXT-22 %s follows %s; want %s", r.ID, r.Prev, want)
		}
		prev[r.Powerbox.ChainID] = r.Hash
		checked++
	}
	if checked < 4 {
		t.Errorf("only %d records in\n%s", checked, data)
	}
}

func TestEXT24_BundleVerifies(t *testing.T) {
	w, yes, _ := evidenced(t)
	data, trust := w.bundle()
	report, err := evidence.Verify(bytes.NewReader(data), trust)
	if err != nil || report.Verdict() != evidence.OK || report.Records < 4 || report.Size != int64(report.Records) {
		t.Fatalf("EXT-24, EXT-26: %v %+v", err, report)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	record := 0
	for i, line := range lines {
		if bytes.Contains(line, []byte(yes.ID)) && bytes.Contains(line, []byte("ALLOW")) {
			record = i
			break
		}
	}
	without := func(n int) []byte { return bytes.Join(append(append([][]byte{}, lines[:n]...), lines[n+1:]...), nil) }
	for name, c := range map[string]struct {
		data []byte
		kind evidence.Kind
	}{
		"EXT-22 flipped byte":  {bytes.Replace(data, []byte(opRetrieve), []byte(strings.ToUpper(opRetrieve)), 1), evidence.HashMismatch},
		"EXT-24 dropped head":  {without(1), evidence.MissingHead},
		"EXT-24 dropped":       {without(record), evidence.MissingMiddle},
		"EXT-23 changed signs": {bytes.Replace(data, []byte(yes.Signature), []byte(strings.Repeat("A", 86)), 1), evidence.BadSignature},
	} {
		report, err := evidence.Verify(bytes.NewReader(c.data), trust)
		found := false
		for _, p := range report.Problems {
			found = found || p.Kind == c.kind
		}
		if err != nil || !found || report.Verdict() != evidence.Tampered {
			t.Errorf("%s: want %s, got %v %+v", name, c.kind, err, report.Problems)
		}
	}
}

// What became of a call is a second record; the first stays as it was.
func TestEXT25_OutcomeIsASecondRecord(t *testing.T) {
	w, yes, no := evidenced(t)
	if got := w.outcomes(yes.ID); len(got) != 1 || got[0].Status != "ACHIEVED" || got[0].Powerbox.OutcomeOf != yes.ID || got[0].Powerbox.Sequence <= yes.Powerbox.Sequence {
		t.Errorf("EXT-25, EXT-28: %+v", got)
	}
	if again := w.record(yes.ID); again.Hash != yes.Hash || again.Status != "PENDING" {
		t.Errorf("EXT-25 the first record became %+v", again)
	}
	if got := w.outcomes(no.ID); len(got) != 0 {
		t.Errorf("EXT-28 a refusal has an outcome: %+v", got)
	}
	// An agent that answers with an error, and one that does not answer.
	alice := w.caller(aliceToken)
	c := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "p"})[0]
	failed := alice.present("mail", rpc("CancelTask", map[string]any{"id": "none"}), proven{
		chain: []string{c.Token}, operation: "a2a.task.cancel", arguments: map[string]any{"task": "none"},
	})
	if d := w.decided(failed); d.Decision != "DENY" {
		t.Errorf("a foreign task: %+v", d)
	}
	w.mail.close()
	gone := alice.present("mail", invoke("send_mail", nil, ""), proven{chain: []string{c.Token}, operation: opMail})
	if got := w.outcomes(w.decided(gone).ID); len(got) != 1 || got[0].Status != "FAILED" {
		t.Errorf("EXT-28 an agent that does not answer: %+v\n%s", got, gone.Raw)
	}
}

// outcomes are the records of what became of a decision.
func (w *town) outcomes(id string) []recorded {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if got := w.records("outcome_of=" + id); len(got) > 0 || w.record(id).Status != "PENDING" {
			return got
		}
		<-tick.C
	}
	return nil
}

// full sets how large a file the server may write, as a disk that is full, or
// not any more, would.
func (w *town) full(limit uint64) {
	w.t.Helper()
	if err := unix.Prlimit(w.process.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestEXT27_NoRecordNoAction(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	handle := c.ResourceHandles[0].Handle
	allowed(t, alice.under([]string{c.Token}, handle))
	reached := len(w.documents.got())
	w.full(0)
	request := map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1")}
	for name, a := range map[string]answer{
		"EXT-27 a call":      alice.under([]string{c.Token}, handle),
		"EXT-27 a request":   alice.call("documents", "a2a/capabilities/request", request),
		"EXT-27 a narrowing": alice.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}),
		"EXT-27 a message":   alice.present("documents", data("retrieve_document", map[string]any{"resourceHandle": handle}), proven{chain: []string{c.Token}, operation: opRetrieve, arguments: map[string]any{"resourceHandle": handle}}),
	} {
		if a.reason() != "evidence_unavailable" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	if len(w.documents.got()) != reached {
		t.Error("EXT-27 a call that could not be recorded reached the agent")
	}
	w.full(unix.RLIM_INFINITY)
	allowed(t, alice.under([]string{c.Token}, handle))
	if held := capabilities(t, alice.call("documents", "a2a/capabilities/list", map[string]any{})); len(held) != 1 {
		t.Errorf("EXT-27 issued without a record: %+v", held)
	}
	data, trust := w.bundle()
	if report, err := evidence.Verify(bytes.NewReader(data), trust); err != nil || report.Verdict() != evidence.OK {
		t.Errorf("EXT-27 the evidence after a full disk: %v %+v", err, report.Problems)
	}
}

// In observe the operator chose to continue, and every failed write is logged.
func TestEXT27_ObserveGoesOnAndLogs(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{mode: "observe"})
	alice := w.caller(aliceToken)
	allowed(t, alice.send("documents", invoke("search_documents", nil, "")))
	before := strings.Count(w.log.String(), "was not written")
	w.full(0)
	for range 2 {
		allowed(t, alice.send("documents", invoke("search_documents", nil, "")))
	}
	w.full(unix.RLIM_INFINITY)
	if len(w.documents.got()) != 3 {
		t.Errorf("%d of 3 calls reached the agent", len(w.documents.got()))
	}
	if logged := strings.Count(w.log.String(), "was not written"); logged < before+2 {
		t.Errorf("EXT-27 %d failed writes are logged\n%s", logged-before, w.log)
	}
}
