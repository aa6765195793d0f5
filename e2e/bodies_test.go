package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

const keepArguments = "    bodies: {keep: arguments}\n"

// saying has a caller search for a text, by reference, and returns the record of
// the decision.
func (c *caller) saying(text string) recorded {
	c.w.t.Helper()
	held := c.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"}})[0]
	a := c.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": text}, "capabilityId": held.ID})
	if a.Error != nil {
		c.w.t.Fatalf("%s", a.Raw)
	}
	return c.w.decided(a)
}

// inFiles reports where in the server's folder some bytes are.
func (w *town) inFiles(what []byte) []string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "powerbox-data", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, what) {
			found = append(found, filepath.Base(name))
		}
	}
	return found
}

// bodyKey is the key of the body that a bundle shows of a record.
func bodyKey(t *testing.T, bundle []byte, id string) []byte {
	t.Helper()
	_, behind, _ := bytes.Cut(bundle, []byte(`"record_id":"`+id+`"`))
	_, line, _ := bytes.Cut(behind, []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	var body struct{ Key []byte }
	if err := json.Unmarshal(line, &body); err != nil || len(body.Key) != 32 {
		t.Fatalf("%v: behind record %s stands %s", err, id, line)
	}
	return body.Key
}

// withBodies exports everything again, with the bodies that are left, for an
// auditor.
func (w *town) withBodies(a *auditor) []byte {
	w.t.Helper()
	path := filepath.Join(a.dir, "bundle.jsonl")
	_ = os.Remove(path)
	w.run("evidence", "export", "--bodies", "--out", path)
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		w.t.Errorf("a bundle with bodies can be read by others: %v %v", info.Mode(), err)
	}
	return data
}

func (a *auditor) bodies() string {
	a.t.Helper()
	first, _ := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json")
	second, _ := a.runs(node(a.t), "verify.mjs", "bundle.jsonl", "--trust", "trust.json")
	line := func(text string) string {
		_, rest, _ := strings.Cut(text, "\n  ")
		for _, one := range strings.Split("\n  "+rest, "\n") {
			if strings.Contains(one, "beside the records") {
				return strings.TrimSpace(one)
			}
		}
		return ""
	}
	if line(first) != line(second) {
		a.t.Errorf("the binary says %q, verify.mjs %q", line(first), line(second))
	}
	return line(first)
}

// What callers said stands beside the chain and can be erased; the chain and its
// proofs stay, and both verifiers tell an erased body from one that was changed.
func TestEXT26_ErasureKeepsTheChain(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{agent: keepArguments})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	first, second, other := alice.saying("canary-first"), alice.saying("canary-second"), bob.saying("canary-bob")

	plain := w.handed()
	if v := plain.audits(); v.Verdict != "ok" || plain.bodies() != "3 bodies beside the records: 0 opened, 0 erased, 3 not in this bundle" {
		t.Errorf("EXT-26 without bodies: %+v, %s", v, plain.bodies())
	}
	bundle, _ := os.ReadFile(filepath.Join(plain.dir, "bundle.jsonl"))
	if bytes.Contains(bundle, []byte("canary")) || bytes.Contains(bundle, []byte(base64.StdEncoding.EncodeToString([]byte(`{"query":"canary`))[:20])) {
		t.Error("an export without --bodies has them")
	}
	full := w.withBodies(plain)
	key := bodyKey(t, full, first.ID)
	if v := plain.audits(); v.Verdict != "ok" || plain.bodies() != "3 bodies beside the records: 3 opened, 0 erased, 0 not in this bundle" {
		t.Errorf("EXT-26 with bodies: %+v, %s", v, plain.bodies())
	}
	if got := w.run("evidence", "show", first.ID, "--body"); got != `{"query":"canary-first"}`+"\n" {
		t.Errorf("the body is shown as %s", got)
	}
	// A byte of a body, and the body of another call.
	encoded := base64.StdEncoding.EncodeToString([]byte(`{"query":"canary-first"}`))
	changed := base64.StdEncoding.EncodeToString([]byte(`{"query":"canary-fxrst"}`))
	plain.has("bundle.jsonl", bytes.Replace(full, []byte(encoded), []byte(changed), 1))
	if v := plain.audits(); v.Verdict != "tampered" || len(v.Problems) != 1 || v.Problems[0].Kind != "body_mismatch" || v.Problems[0].RecordID != first.ID {
		t.Errorf("EXT-26 a changed body: %+v", v)
	}

	// Nothing is erased by a look, or without a yes.
	if listed := w.run("evidence", "erase", "--record", first.ID, "--dry-run"); !strings.Contains(listed, first.ID) || !strings.Contains(listed, "1 body to erase") {
		t.Errorf("%s", listed)
	}
	if out, code := w.cli("evidence", "erase", "--record", first.ID); code != 2 || !strings.Contains(out, first.ID) {
		t.Errorf("without a yes: %d\n%s", code, out)
	}
	if out, code := w.cli("evidence", "erase", "--yes"); code != 2 {
		t.Errorf("nothing is named: %d\n%s", code, out)
	}
	if len(w.inFiles([]byte("canary-first"))) == 0 || len(w.inFiles(key)) == 0 {
		t.Fatal("the body is not in the store before it is erased: the test looks in the wrong place")
	}
	said := w.run("evidence", "erase", "--record", first.ID, "--yes")
	if !strings.HasPrefix(said, "erased 1 body, recorded as rec_") {
		t.Errorf("%s", said)
	}
	for _, gone := range [][]byte{[]byte("canary-first"), key} {
		if found := w.inFiles(gone); len(found) > 0 {
			t.Errorf("EXT-26 %q is still in %v", gone, found)
		}
	}
	if out, code := w.cli("evidence", "show", first.ID, "--body"); code != 1 || !strings.Contains(out, "was erased") {
		t.Errorf("%d\n%s", code, out)
	}
	erasure := w.record(strings.TrimSpace(said[strings.Index(said, "rec_"):]))
	if erasure.Action != "evidence.erase" || erasure.AgentID != "powerbox" || erasure.Powerbox.Requester != "operator" {
		t.Errorf("the erasure is recorded as %+v", erasure)
	}
	// All that is left of alice, and nothing of bob.
	if said := w.run("evidence", "erase", "--for", "user:alice", "--yes"); !strings.HasPrefix(said, "erased 1 body,") {
		t.Errorf("%s", said)
	}
	if found := w.inFiles([]byte("canary-second")); len(found) > 0 {
		t.Errorf("EXT-26 still in %v", found)
	}
	w.withBodies(plain)
	if v := plain.audits(); v.Verdict != "ok" || plain.bodies() != "3 bodies beside the records: 1 opened, 2 erased, 0 not in this bundle" {
		t.Errorf("EXT-26 after the erasure: %+v, %s", v, plain.bodies())
	}
	if got := w.run("evidence", "show", other.ID, "--body"); got != `{"query":"canary-bob"}`+"\n" {
		t.Errorf("what bob said is %s", got)
	}
	for _, r := range []recorded{first, second} {
		if again := w.record(r.ID); again.Hash != r.Hash {
			t.Errorf("EXT-26 the record became %+v", again)
		}
	}
	if said := w.run("evidence", "erase", "--for", "user:alice", "--yes"); said != "erased 0 bodies\n" {
		t.Errorf("again: %s", said)
	}
}

// erasing asks the server as its operator, and returns what it says.
func (w *town) erasing(body string) string {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, w.url+"/v1/evidence/erasures", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(said)
}

// Erasing is for operators.
func TestEXT26_NobodyElseErases(t *testing.T) {
	w := start(t, options{agent: keepArguments})
	alice := w.caller(aliceToken)
	r := alice.saying("canary")
	for path, method := range map[string]string{"/v1/evidence/erasures": http.MethodPost, "/v1/records/" + r.ID + "/body": http.MethodGet, "/v1/evidence/bundle?bodies=true": http.MethodGet} {
		request, err := http.NewRequest(method, w.url+path, strings.NewReader(`{"agent":"documents"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+aliceToken)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	for text, want := range map[string]string{
		`{}`: "nothing says which bodies to erase", `{"principal":"alice"}`: "is no user", `{"agnet":"documents"}`: "unknown field",
		`{"dry_run":true}`: "nothing says which bodies to erase",
	} {
		if said := w.erasing(text); !strings.Contains(said, want) {
			t.Errorf("%s: %s", text, said)
		}
	}
	if got := w.run("evidence", "show", r.ID, "--body"); !strings.Contains(got, "canary") {
		t.Errorf("%s", got)
	}
}

// By default nothing is kept beside records, and arguments stand in them by name
// and kind alone.
func TestEXT26_NoBodiesByDefault(t *testing.T) {
	w := start(t, options{})
	r := w.caller(aliceToken).saying("canary")
	if out, code := w.cli("evidence", "show", r.ID, "--body"); code != 1 || !strings.Contains(out, "none was kept") {
		t.Errorf("%d\n%s", code, out)
	}
	if raw := w.operator(http.MethodGet, "/v1/records/"+r.ID, nil); !bytes.Contains(raw, []byte(`"arguments":{"query":"string"}`)) || bytes.Contains(raw, []byte("body_commitment")) {
		t.Errorf("%s", raw)
	}
	if found := w.inFiles([]byte("canary")); len(found) > 0 {
		t.Errorf("what alice said is in %v", found)
	}
}

// Bodies go when their time is over, by the server's own doing, and records stay.
func TestEXT26_RetentionErases(t *testing.T) {
	w := start(t, options{agent: keepArguments})
	r := w.caller(aliceToken).saying("canary")
	w.again(func() {
		path := filepath.Join(w.dir, "powerbox.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w.write("powerbox.yaml", strings.Replace(string(text), "keep: arguments", "keep: arguments, retention: 1ms", 1))
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var erasures []recorded
	for range 1000 {
		if erasures = w.records("requester=retention"); len(erasures) > 0 {
			break
		}
		<-tick.C
	}
	if len(erasures) != 1 || erasures[0].Action != "evidence.erase" {
		t.Fatalf("%+v\n%s", erasures, w.log)
	}
	if out, code := w.cli("evidence", "show", r.ID, "--body"); code != 1 || !strings.Contains(out, "was erased") {
		t.Errorf("%d\n%s", code, out)
	}
	data, trust := w.bundle()
	report, err := evidence.Verify(bytes.NewReader(data), trust)
	if err != nil || report.Verdict() != evidence.OK || report.Bodies != (evidence.BodyReport{Committed: 1, Erased: 1}) {
		t.Errorf("%v %+v", err, report)
	}
	if again := w.record(r.ID); again.Hash != r.Hash {
		t.Errorf("the record became %+v", again)
	}
}

// Padding is no way to leave less evidence.
func TestEXT26_WhatCannotBeKeptIsRefused(t *testing.T) {
	w := start(t, options{agent: keepArguments})
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"}})[0]
	a := alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": strings.Repeat("x", evidence.MaxBody)}, "capabilityId": held.ID})
	if a.reason() != "arguments_too_large" || len(w.documents.got()) != 0 {
		t.Errorf("%.300s, %d calls reached the agent", a.Raw, len(w.documents.got()))
	}
}
