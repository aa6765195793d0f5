package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// auditor has a folder with what it was handed, and nothing else: no server, no
// store, no environment.
type auditor struct {
	t   *testing.T
	dir string
}

func newAuditor(t *testing.T) *auditor { return &auditor{t, t.TempDir()} }

func (a *auditor) has(name string, data []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), data, 0o700); err != nil {
		a.t.Fatal(err)
	}
}

// runs a program in the folder and returns what it printed, and its exit code.
func (a *auditor) runs(name string, args ...string) (string, int) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), name, args...)
	cmd.Dir, cmd.Env = a.dir, []string{}
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	return string(out) + talk.String(), cmd.ProcessState.ExitCode()
}

// node is where Node is, since the auditor has no PATH.
func node(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make test-deps, or install Node.js 20 or newer")
	}
	return name
}

// finding is what a verifier says of a bundle.
type finding struct {
	Verdict  string `json:"verdict"`
	Problems []struct {
		Kind     string `json:"kind"`
		Line     int    `json:"line"`
		RecordID string `json:"record_id"`
		Message  string `json:"message"`
	} `json:"problems"`
}

// caught names what caught each problem: its kind, line and record.
func (f finding) caught() []string {
	out := []string{f.Verdict}
	for _, p := range f.Problems {
		out = append(out, strings.TrimSpace(p.Kind+" "+p.RecordID))
	}
	return out
}

// audits has both verifiers judge the bundle in the folder. They agree, by
// exit code, verdict, kinds, lines and records.
func (a *auditor) audits(args ...string) finding {
	a.t.Helper()
	args = append([]string{"bundle.jsonl", "--trust", "trust.json", "--output", "json"}, args...)
	first, code := a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"evidence", "verify"}, args...)...)
	second, other := a.runs(node(a.t), append([]string{"verify.mjs"}, args...)...)
	var ours, js finding
	for text, into := range map[string]*finding{first: &ours, second: &js} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			a.t.Fatalf("%v\n%s", err, text)
		}
	}
	for i := range ours.Problems {
		if i < len(js.Problems) && js.Problems[i].Message != "" && ours.Problems[i].Message != "" {
			js.Problems[i].Message = ours.Problems[i].Message
		}
	}
	if diff := cmp.Diff(ours, js, cmpopts.EquateEmpty()); diff != "" || code != other {
		a.t.Errorf("the binary (-, exit %d) and verify.mjs (+, exit %d) disagree\n%s", code, other, diff)
	}
	if want := map[bool]int{true: 0, false: 4}[ours.Verdict == "ok"]; code != want {
		a.t.Errorf("exit %d with verdict %s", code, ours.Verdict)
	}
	return ours
}

// handed exports the evidence of a town as its operator does, and hands it to an
// auditor with the keys that it pins and both verifiers.
func (w *town) handed() *auditor {
	w.t.Helper()
	a := w.equipped()
	w.run("evidence", "export", "--out", filepath.Join(a.dir, "bundle.jsonl"))
	return a
}

// equipped is an auditor with the keys of a town that it pins, and both verifiers.
func (w *town) equipped() *auditor {
	w.t.Helper()
	a := newAuditor(w.t)
	w.run("evidence", "trust", "--out", filepath.Join(a.dir, "trust.json"))
	program, err := filepath.Abs(binary)
	if err == nil {
		err = os.Symlink(program, filepath.Join(a.dir, "powerbox"))
	}
	var script []byte
	if err == nil {
		script, err = verifier()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	a.has("verify.mjs", script)
	return a
}

// verifier is the second verifier, which the program contains.
var verifier = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command(binary, "evidence", "verifier")
	cmd.Env = []string{}
	return cmd.Output()
})

func (a *auditor) bundle() []byte {
	a.t.Helper()
	data, err := os.ReadFile(filepath.Join(a.dir, "bundle.jsonl"))
	if err != nil {
		a.t.Fatal(err)
	}
	return data
}

// TestEXT26_AuditorsPath exports on one machine and audits in an empty folder:
// with the binary and pinned keys, then with Node and one file. Whatever is done
// to the bundle is caught by both, and they name the evidence that caught it.
func TestEXT26_AuditorsPath(t *testing.T) {
	w, yes, no := evidenced(t)
	a := w.handed()
	bundle := a.bundle()
	if got := a.audits(); got.Verdict != "ok" {
		t.Fatalf("EXT-26: %+v", got)
	}
	parts := bytes.SplitAfter(bundle, []byte("\n"))
	line := func(id string) int {
		return slices.IndexFunc(parts, func(part []byte) bool { return bytes.Contains(part, []byte(`"record_id":"`+id+`"`)) })
	}
	last := len(parts) - 4 // records, leaves, checkpoint, nothing
	flip := func(in, mark string) []byte {
		from := bytes.Index(bundle, []byte(in))
		at := from + bytes.Index(bundle[from:], []byte(mark)) + len(mark) + 2
		return otherAt(bundle, at)
	}
	record := `"decision":"DENY"` // a part of the only denial, from where its members are looked for
	for name, c := range map[string]struct {
		bundle []byte
		want   []string
	}{
		"EXT-22 a byte of a body":           {flip(record, `"operation":"`), []string{"tampered", "hash_mismatch " + no.ID}},
		"EXT-22 a byte of a time":           {flip(record, `"timestamp_utc":"`), []string{"tampered", "hash_mismatch " + no.ID}},
		"EXT-22 a byte of a hash":           {flip(record, `"record_hash":"`), nil},
		"EXT-23 a byte of a signature":      {flip(record, `"signature":"`), []string{"tampered", "bad_signature " + no.ID}},
		"EXT-24 a byte of a leaf":           {flip(`{"leaves":`, `"leaves":"`), []string{"tampered", "root_mismatch"}},
		"EXT-24 a byte of the checkpoint":   {flip(`{"checkpoint":`, `\n`), nil},
		"EXT-26 a byte of a key":            {flip(`{"format"`, `"kid":"`), []string{"tampered", "unknown_key"}},
		"EXT-24 ATK-43 the head is dropped": {without(parts, 1), nil},
		"EXT-24 a record is dropped":        {without(parts, line(yes.ID)), nil},
		"EXT-24 ATK-43 the tail is dropped": {without(parts, last), []string{"tampered", "missing_tail"}},
		"ATK-43 the whole log is dropped":   {bytes.Join(append([][]byte{parts[0]}, parts[last+1:]...), nil), []string{"tampered", "missing_tail"}},
		"ATK-43 the file is cut off":        {bytes.Join(parts[:last], nil), nil},
		"EXT-24 two records are swapped":    {swapped(parts, last-1, last), nil},
		"EXT-24 a record is there twice":    {bytes.Join(slices.Insert(slices.Clone(parts), last+1, parts[1]), nil), []string{"tampered", "duplicate " + idOf(parts[1])}},
		"ATK-39 a number is spelt anew":     {bytes.Replace(bundle, []byte(`"sequence":0`), []byte(`"sequence":0.0`), 1), nil},
		"ATK-40 a text is spelt anew":       {bytes.Replace(bundle, []byte(`"decision":"DENY"`), []byte(`"decision":"D\u0045NY"`), 1), []string{"malformed", "malformed"}},
	} {
		a.has("bundle.jsonl", c.bundle)
		got := a.audits()
		if got.Verdict == "ok" || len(got.Problems) == 0 || c.want != nil && !cmp.Equal(c.want, got.caught()) {
			t.Errorf("%s: want %v, got %+v", name, c.want, got)
		}
	}
}

// otherAt is a bundle with another digit or letter in one place.
func otherAt(bundle []byte, at int) []byte {
	spoilt := bytes.Clone(bundle)
	switch c := spoilt[at]; {
	case '0' <= c && c <= '9':
		spoilt[at] ^= 1
	case c == 'A':
		spoilt[at] = 'B'
	default:
		spoilt[at] = 'A'
	}
	return spoilt
}

func without(parts [][]byte, n int) []byte {
	return bytes.Join(slices.Delete(slices.Clone(parts), n, n+1), nil)
}

func swapped(parts [][]byte, a, b int) []byte {
	parts = slices.Clone(parts)
	parts[a], parts[b] = parts[b], parts[a]
	return bytes.Join(parts, nil)
}

var ownID = regexp.MustCompile(`,"record_id":"([^"]*)"`)

func idOf(line []byte) string { return string(ownID.FindSubmatch(line)[1]) }

// TestATK43_ATK44_HistoriesThatAreSignedAnew has the operator itself lie: it puts
// an old state of its store back, with all its keys, and signs another history.
// Only a checkpoint that the auditor kept shows that.
func TestATK43_ATK44_HistoriesThatAreSignedAnew(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	alice := w.caller(aliceToken)
	alice.reports()
	data, old := filepath.Join(w.dir, "powerbox-data"), filepath.Join(t.TempDir(), "old")
	copied := func(from, to string) {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		keysAreSecret(t, to)
	}
	w.again(func() { copied(data, old) })
	alice.reports()
	alice.reports()
	before := w.handed()
	kept, code := before.runs(filepath.Join(before.dir, "powerbox"), "evidence", "checkpoint", "bundle.jsonl")
	if code != 0 {
		t.Fatal(kept)
	}
	judged := func() (alone, held []string) {
		a := w.handed()
		a.has("kept", []byte(kept))
		return a.audits().caught(), a.audits("--seen", "kept").caught()
	}
	if alone, held := judged(); !cmp.Equal(alone, []string{"ok"}) || !cmp.Equal(held, []string{"ok"}) {
		t.Errorf("the log as it is: %v %v", alone, held)
	}
	w.again(func() { copied(old, data) })
	if alone, held := judged(); !cmp.Equal(alone, []string{"ok"}) || !cmp.Equal(held, []string{"tampered", "missing_tail"}) {
		t.Errorf("ATK-43 rolled back: %v, against the kept checkpoint %v", alone, held)
	}
	for range 4 {
		alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "another history"})
	}
	if alone, held := judged(); !cmp.Equal(alone, []string{"ok"}) || !cmp.Equal(held, []string{"tampered", "fork"}) {
		t.Errorf("ATK-44 another history, signed with the stolen keys: %v, against the kept checkpoint %v", alone, held)
	}
}

// keysAreSecret gives copied keys the mode that the server wants.
func keysAreSecret(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "keys", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no keys in %s: %v", dir, err)
	}
	for _, name := range names {
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEXT41_Exports takes every format of an export, from the server and from a
// bundle, and recomputes the chains with a script that knows nothing but SHA-256.
func TestEXT41_Exports(t *testing.T) {
	w, yes, no := evidenced(t)
	w.outcomes(yes.ID)
	a := w.handed()
	bundle := string(a.bundle())
	from := filepath.Join(a.dir, "bundle.jsonl")
	lines := w.run("evidence", "export", "--format", "jsonl", "--from", from)
	if want := strings.Join(slices.DeleteFunc(strings.SplitAfter(bundle, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, `{"action_type"`)
	}), ""); lines != want {
		t.Errorf("EXT-41 the lines are not the records as they are stored:\n%s", lines)
	}
	if live := w.run("evidence", "export", "--format", "jsonl"); !strings.HasPrefix(live, lines) {
		t.Errorf("EXT-41 the server's lines:\n%s", live)
	}
	events := map[string]ocsfEvent{}
	for line := range strings.Lines(w.run("evidence", "export", "--format", "ocsf", "--from", from)) {
		var event ocsfEvent
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.Class != 6003 || event.Type != 600399 || event.Time == 0 || event.Metadata.Version == "" || !strings.Contains(lines, event.Raw+"\n") {
			t.Errorf("EXT-41 an event without what OCSF asks for: %s", line)
		}
		events[event.Metadata.ID] = event
	}
	if e := events[yes.ID]; len(events) != strings.Count(lines, "\n") || e.Action != 1 || e.Severity != 1 || e.Actor.User.ID == "" || e.API.Operation != opRetrieve || e.API.Service.Name != "documents" {
		t.Errorf("EXT-41 what was allowed: %+v", e)
	}
	if e := events[no.ID]; e.Action != 2 || e.Status != 2 || e.Severity != 3 || !strings.Contains(e.Detail, "operation_not_granted") {
		t.Errorf("EXT-41 what was denied: %+v", e)
	}
	a.has("cut.jsonl", []byte(bundle[:strings.LastIndex(bundle, `{"checkpoint"`)]))
	if out, code := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "export", "--format", "jsonl", "--from", "cut.jsonl"); code != 4 || !strings.Contains(out, "cut off") {
		t.Errorf("EXT-41 a bundle that was cut off: exit %d\n%s", code, out)
	}
	recomputed(t, a, lines)
}

type ocsfEvent struct {
	Class    int    `json:"class_uid"`
	Type     int    `json:"type_uid"`
	Time     int64  `json:"time"`
	Action   int    `json:"action_id"`
	Severity int    `json:"severity_id"`
	Status   int    `json:"status_id"`
	Detail   string `json:"status_detail"`
	Raw      string `json:"raw_data"`
	Actor    struct {
		User struct {
			ID string `json:"uid"`
		} `json:"user"`
	} `json:"actor"`
	API struct {
		Operation string `json:"operation"`
		Service   struct {
			Name string `json:"name"`
		} `json:"service"`
	} `json:"api"`
	Metadata struct {
		ID      string `json:"uid"`
		Version string `json:"version"`
	} `json:"metadata"`
}

// recomputed runs chains.py, of fewer than 40 lines, over the bundle and the
// lines, whole and with a byte flipped.
func recomputed(t *testing.T, a *auditor, lines string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "audit", "chains.py"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(script, []byte("\n")); n > 40 {
		t.Errorf("chains.py has %d lines", n)
	}
	a.has("chains.py", script)
	a.has("lines.jsonl", []byte(lines))
	var ends []string
	for _, name := range []string{"bundle.jsonl", "lines.jsonl"} {
		out, code := a.runs("/usr/bin/python3", "chains.py", name)
		if code != 0 {
			t.Fatalf("EXT-22 %s: exit %d\n%s", name, code, out)
		}
		ends = append(ends, out)
	}
	report, _ := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--output", "json")
	var says struct {
		Chains []struct {
			Chain string `json:"chain_id"`
			Hash  string `json:"hash"`
		} `json:"chains"`
	}
	if err := json.Unmarshal([]byte(report), &says); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, c := range says.Chains {
		_, _ = io.WriteString(&want, c.Chain+" "+c.Hash+"\n")
	}
	if ends[0] != want.String() || ends[1] != want.String() || want.Len() == 0 {
		t.Errorf("EXT-22 the script ends the chains at\n%s%s, the binary at\n%s", ends[0], ends[1], want.String())
	}
	a.has("lines.jsonl", []byte(strings.Replace(lines, `"decision":"DENY"`, `"decision":"ALLOW"`, 1)))
	if out, code := a.runs("/usr/bin/python3", "chains.py", "lines.jsonl"); code != 1 || !strings.Contains(out, "is not what was hashed") {
		t.Errorf("EXT-22 a changed record: exit %d\n%s", code, out)
	}
}

// TestEXT26_ResumedVerification continues with what an earlier run found, for the
// trust file and the signatures of that run alone.
func TestEXT26_ResumedVerification(t *testing.T) {
	w, _, no := evidenced(t)
	a := w.handed()
	bundle := a.bundle()
	records := bytes.Count(bundle, []byte(`{"action_type"`))
	verify := func(want int) {
		t.Helper()
		out, code := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--resume", "held")
		info, err := os.Stat(filepath.Join(a.dir, "held"))
		if err != nil || code != map[bool]int{true: 0, false: 4}[bytes.Equal(a.bundle(), bundle)] || info.Size() != int64(64+32*want) {
			t.Errorf("EXT-26 exit %d, %v %+v, want %d records\n%s", code, err, info, want, out)
		}
	}
	a.has("bundle.jsonl", bytes.Join(bytes.SplitAfter(bundle, []byte("\n"))[:3], nil))
	verify(2)
	a.has("bundle.jsonl", bundle)
	verify(records)
	verify(records)
	at := bytes.Index(bundle, []byte(`"record_id":"`+no.ID))
	at += bytes.Index(bundle[at:], []byte(`"signature":"`)) + len(`"signature":"`) + 5
	spoilt := otherAt(bundle, at)
	a.has("bundle.jsonl", spoilt)
	verify(records) // the other signature of a known record is not known
	trust, err := os.ReadFile(filepath.Join(a.dir, "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	a.has("trust.json", append(trust, ' '))
	verify(records - 1) // another trust file begins anew
	if out, code := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--resume", "bundle.jsonl"); code != 4 || !bytes.Equal(a.bundle(), spoilt) {
		t.Errorf("EXT-26 a bundle as the file of --resume: exit %d\n%s", code, out)
	}
}

// TestEXT26_AnyNumberOfWorkers finds the same, in a whole bundle and in a spoilt
// one, and tells a log how far it is.
func TestEXT26_AnyNumberOfWorkers(t *testing.T) {
	w, _, _ := evidenced(t)
	a := w.handed()
	program := filepath.Join(a.dir, "powerbox")
	for _, bundle := range [][]byte{a.bundle(), bytes.Replace(a.bundle(), []byte("DENY"), []byte("ALLOW"), 1)} {
		a.has("bundle.jsonl", bundle)
		want, code := a.runs(program, "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--output", "json", "--workers", "1")
		for _, n := range []string{"2", "16"} {
			if got, again := a.runs(program, "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--output", "json", "--workers", n); got != want || again != code {
				t.Errorf("exit %d and %d\n%s\n%s", code, again, want, got)
			}
		}
	}
	if out, code := a.runs(program, "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--progress"); code != 4 || !strings.Contains(out, "left\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := a.runs(program, "evidence", "verify", "bundle.jsonl", "--trust", "trust.json", "--workers", "0"); code != 2 {
		t.Errorf("exit %d\n%s", code, out)
	}
}
