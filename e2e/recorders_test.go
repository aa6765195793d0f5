package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// searches makes a few calls that are recorded, some of them denied.
func (w *town) searches(n int) {
	w.t.Helper()
	alice := w.caller(aliceToken)
	held := alice.reports()
	for range n {
		allowed(w.t, alice.present("documents", data("search_documents", map[string]any{}), proven{chain: []string{held.Token}, operation: opSearch}))
	}
}

// algorithms counts the signatures of a bundle's records.
func algorithms(bundle []byte) map[string]int {
	out := map[string]int{}
	for line := range bytes.Lines(bundle) {
		if s, err := evidence.ParseSealed(bytes.TrimSuffix(line, []byte("\n"))); err == nil && !s.Covered() {
			out[s.Algorithm()]++
		}
	}
	return out
}

// TestEXT29_RecordsForLongRetention has the server sign records by ML-DSA-87: the
// binary verifies them, and Node does or says that it cannot. A retention that
// signatures on curves are not for does not start.
func TestEXT29_RecordsForLongRetention(t *testing.T) {
	w := start(t, options{extra: "evidence: {algorithm: ML-DSA-87, retention_years: 30}"})
	w.searches(2)
	a := w.handed()
	if out, _, _ := w.exits("doctor"); strings.Contains(out, "there is no evidence") {
		t.Errorf("doctor looks for another key\n%s", out)
	}
	if keys := w.run("keys", "list"); !strings.Contains(keys, "evidence-ml-dsa-87") {
		t.Errorf("%s", keys)
	}
	if got := algorithms(a.bundle()); got[evidence.MLDSA87] < 4 || len(got) != 1 {
		t.Errorf("records are signed by %v", got)
	}
	args := []string{"bundle.jsonl", "--trust", "trust.json"}
	if out, code := a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"evidence", "verify"}, args...)...); code != 0 || !strings.HasPrefix(out, "ok:") {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code := a.runs(node(t), append([]string{"verify.mjs"}, args...)...)
	if has := code == 0 && strings.HasPrefix(out, "ok:"); !has && (code != 5 || !strings.HasPrefix(out, "unverifiable:") || !strings.Contains(out, "signatures of an algorithm that this platform lacks")) {
		t.Errorf("exit %d\n%s", code, out)
	}
	spoilt := bytes.Replace(a.bundle(), []byte(`"decision":"ALLOW"`), []byte(`"decision":"DENY"`), 1)
	a.has("bundle.jsonl", spoilt)
	for _, command := range [][]string{{filepath.Join(a.dir, "powerbox"), "evidence", "verify"}, {node(t), "verify.mjs"}} {
		if out, code := a.runs(command[0], append(command[1:], args...)...); code != 4 || !strings.Contains(out, "hash_mismatch") {
			t.Errorf("changed: exit %d\n%s", code, out)
		}
	}
	for _, algorithm := range []string{"Ed25519", "ES256"} {
		w.rewrite("powerbox.yaml", "algorithm: ML-DSA-87", "algorithm: "+algorithm)
		cmd := exec.CommandContext(t.Context(), binary, "config", "check", "-c", filepath.Join(w.dir, "powerbox.yaml"))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "want algorithm: ML-DSA-87 beyond 10 years") {
			t.Errorf("%s for 30 years: %v %s", algorithm, err, out)
		}
		w.rewrite("powerbox.yaml", "algorithm: "+algorithm, "algorithm: ML-DSA-87")
	}
}

// TestEXT29_TheAlgorithmCanChange restarts the server with another algorithm: the
// chains continue, the key before is closed on record, and one trust file is for the
// whole log.
func TestEXT29_TheAlgorithmCanChange(t *testing.T) {
	w := start(t, options{extra: "evidence: {algorithm: Ed25519}"})
	w.searches(1)
	before := "Ed25519"
	for _, next := range []string{"ES256", "ML-DSA-87", "Ed25519"} {
		w.again(func() { w.rewrite("powerbox.yaml", "algorithm: "+before, "algorithm: "+next) })
		w.searches(1)
		before = next
	}
	bundle := w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
	trust, err := evidence.ParseTrust(w.operator(http.MethodGet, "/v1/evidence/trust", nil))
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(bytes.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK || len(report.Pending) > 0 {
		t.Errorf("%v %v", err, report.Problems)
	}
	if got := algorithms(bundle); got[evidence.Ed25519] == 0 || got[evidence.ES256] == 0 || got[evidence.MLDSA87] == 0 {
		t.Errorf("signed by %v", got)
	}
	if enrolled, closed := bytes.Count(bundle, []byte(`"action_type":"recorder.enroll"`)), bytes.Count(bundle, []byte(`"action_type":"recorder.close"`)); enrolled != 4 || closed != 3 {
		t.Errorf("EXT-33 %d enrolments and %d ends of keys are on record; want 4 and 3", enrolled, closed)
	}
	ended := 0
	for _, k := range trust.RecordKeys {
		if !k.NotAfter.IsZero() {
			ended++
		}
	}
	if len(trust.RecordKeys) != 3 || ended != 2 {
		t.Errorf("%d keys are to be pinned, %d of them for what is past", len(trust.RecordKeys), ended)
	}
}

// recorders is what the key endpoint of an agent says of its recorders.
func (w *town) recorders(agent string) ([]byte, evidence.Recorders) {
	w.t.Helper()
	r, err := http.Get(w.url + "/agents/" + agent + "/.well-known/recorders.json")
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		w.t.Fatalf("%d %v %s", r.StatusCode, err, text)
	}
	if bytes.Contains(text, []byte(`"d":`)) || bytes.Contains(text, []byte(`"priv":`)) {
		w.t.Errorf("a private key is published: %s", text)
	}
	list, err := evidence.ParseRecorders(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return text, list
}

// TestEXT33_TheKeyEndpointListsRecorders: the server and a remote gateway sign for
// one agent. Who has kept the list notices that a later bundle lacks a chain, with
// either verifier.
func TestEXT33_TheKeyEndpointListsRecorders(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	before := w.handed()
	_, first := w.recorders("documents")
	own := slices.IndexFunc(first.Keys, func(k evidence.PinnedKey) bool { return k.Recorder == "serve" })
	apart := slices.IndexFunc(first.Keys, func(k evidence.PinnedKey) bool { return strings.HasPrefix(k.Recorder, "gw_") })
	if len(first.Keys) != 2 || own < 0 || apart < 0 || first.Keys[apart].NotBefore.IsZero() || !first.Keys[apart].NotAfter.IsZero() || !slices.Equal(first.Keys[apart].Agents, []string{"documents"}) {
		t.Fatalf("%+v", first.Keys)
	}
	gateway := first.Keys[apart].Recorder
	if a := w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil); a.Header.Get("Powerbox-Decision") == "" {
		t.Fatalf("%s", a.Raw)
	}
	var kept []byte
	eventually(t, 20*time.Second, func() string { return "no chain of the gateway is listed\n" + all[0].log.String() }, func() bool {
		var list evidence.Recorders
		kept, list = w.recorders("documents")
		return slices.ContainsFunc(list.Chains, func(c evidence.ListedChain) bool { return c.Recorder == gateway && c.AgentID == "documents" })
	})
	// A bundle without that chain, whose log is complete without it.
	before.has("recorders.json", kept)
	if got := before.audits("--recorders", "recorders.json"); !slices.Equal(got.caught(), []string{"tampered", "missing_chain"}) {
		t.Errorf("a chain is left out: %v", got.caught())
	}
	if got := before.audits(); got.Verdict != "ok" {
		t.Errorf("without the list: %v", got.caught())
	}
	// A list of the past is no reproach to a bundle that has everything.
	after := w.handed()
	after.has("recorders.json", kept)
	if got := after.audits("--recorders", "recorders.json"); got.Verdict != "ok" {
		t.Errorf("nothing is left out: %v", got.caught())
	}
	after.has("recorders.json", bytes.Replace(kept, []byte(`"recorder":"serve"`), []byte(`"recorder":"gw_idle"`), 1))
	if out, _ := after.runs(filepath.Join(after.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--recorders", "recorders.json"); !strings.Contains(out, `recorder "gw_idle" is open and has no record here`) {
		t.Errorf("a recorder without records: %s", out)
	}
	// Its end is on record with what it leaves, and the list says until when.
	w.run("gateway", "close", gateway)
	_, list := w.recorders("documents")
	closed := slices.IndexFunc(list.Keys, func(k evidence.PinnedKey) bool { return k.Recorder == gateway })
	if closed < 0 || list.Keys[closed].NotAfter.IsZero() {
		t.Errorf("%+v", list.Keys)
	}
	bundle := w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
	for line := range bytes.Lines(bundle) {
		if !bytes.Contains(line, []byte(`"action_type":"gateway.close"`)) {
			continue
		}
		var said struct {
			Intent struct {
				Details struct {
					Chains []evidence.ListedChain `json:"chains"`
				} `json:"details"`
			} `json:"intent"`
		}
		if err := json.Unmarshal(line, &said); err != nil || len(said.Intent.Details.Chains) != 1 || said.Intent.Details.Chains[0].Records < 1 || said.Intent.Details.Chains[0].Recorder != gateway {
			t.Errorf("%v %s", err, line)
		}
		if got := w.handed().audits(); got.Verdict != "ok" {
			t.Errorf("%v", got.caught())
		}
		return
	}
	t.Error("the end of the gateway is not on record")
}

// TestEXT29_AGatewayApartSignsAsLong: a server of long retention takes no gateway
// whose records would not last, and the records of one that it takes verify.
func TestEXT29_AGatewayApartSignsAsLong(t *testing.T) {
	w, _ := startRemote(t, 0, options{extra: "evidence: {algorithm: ML-DSA-87, retention_years: 30}"})
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(w.run("gateway", "token", "--agent", "documents"))), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replica{w: w, state: filepath.Join(dir, "state"), address: "127.0.0.1:" + freePort(t)}
	enroll := func(flags ...string) (string, error) {
		args := append([]string{"gateway", "enroll", "--server", w.url, "--token-file", file, "--state", r.state}, flags...)
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := enroll(); err == nil || !strings.Contains(out, "enroll with --algorithm ML-DSA-87") {
		t.Errorf("Ed25519: %v %s", err, out)
	}
	if out, err := enroll("--algorithm", "ML-DSA-87"); err != nil { // the token was not used up
		t.Fatalf("%v %s", err, out)
	}
	r.boot()
	a := w.post("http://"+r.address+"/agents/documents", data("search_documents", map[string]any{}), nil)
	id := a.Header.Get("Powerbox-Decision")
	if id == "" {
		t.Fatalf("%s", a.Raw)
	}
	var bundle []byte
	eventually(t, 20*time.Second, func() string { return "the record does not come\n" + r.log.String() }, func() bool {
		bundle = w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
		return bytes.Contains(bundle, []byte(id))
	})
	trust, err := evidence.ParseTrust(w.operator(http.MethodGet, "/v1/evidence/trust", nil))
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(bytes.NewReader(bundle), trust)
	if got := algorithms(bundle); err != nil || report.Verdict() != evidence.OK || len(got) != 1 || got[evidence.MLDSA87] == 0 {
		t.Errorf("%v %v, signed by %v", err, report.Problems, got)
	}
}
