package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// notStarted runs a command that must end with an error, and returns what it said.
func notStarted(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a server that starts would stay
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%v started: %v\n%s", args, err, out)
	}
	return string(out)
}

// spoil breaks a key file in one way, and returns what puts it back.
func spoil(t *testing.T, path, how string) (back func()) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch how {
	case "gone":
		err = os.Remove(path)
	case "empty":
		err = os.WriteFile(path, nil, 0o600)
	case "readable by others":
		err = os.Chmod(path, 0o644)
	case "another":
		err = os.WriteFile(path, another(t, filepath.Base(path)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// another is a key of the same kind as that in a file.
func another(t *testing.T, file string) []byte {
	t.Helper()
	if strings.HasSuffix(file, ".secret") {
		return []byte(strings.Repeat("A", 42) + "E")
	}
	path := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), binary, "keys", "new", path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestATK74_ServerDoesNotStartWithoutAKnownKey takes each key away from a server that
// has used it, empties it, opens it to others or puts another one in its place.
func TestATK74_ServerDoesNotStartWithoutAKnownKey(t *testing.T) {
	w := start(t, options{})
	w.searches(1)
	w.stop()
	keys := filepath.Join(w.dir, "powerbox-data", "keys")
	serve := []string{"serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev"}
	for _, file := range []string{"evidence.secret", "checkpoint.secret", "feed.secret", "handles.secret", "pairwise.secret", "agent-documents.jwk"} {
		name := strings.TrimSuffix(strings.TrimSuffix(file, ".secret"), ".jwk")
		for how, want := range map[string]string{
			"gone": "powerbox keys replace " + name, "empty": "powerbox keys replace " + name, "readable by others": "chmod 600", "another": "powerbox keys replace " + name,
		} {
			if file == "checkpoint.secret" && how == "another" {
				want = "restore the key that belongs to it" // the store says it first
			}
			path := filepath.Join(keys, file)
			back := spoil(t, path, how)
			if said := notStarted(t, serve...); !strings.Contains(said, want) || !strings.Contains(said, file) && how != "another" {
				t.Errorf("%s %s: want %q\n%s", file, how, want, said)
			}
			if _, err := os.Stat(path); how == "gone" && err == nil {
				t.Errorf("%s: a new key was written", file)
			}
			back()
		}
	}
	away := keys + ".away"
	if err := os.Rename(keys, away); err != nil {
		t.Fatal(err)
	}
	if said := notStarted(t, serve...); !strings.Contains(said, "checkpoint.secret") {
		t.Errorf("without any key: %s", said)
	}
	if err := os.RemoveAll(keys); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, keys); err != nil {
		t.Fatal(err)
	}
	w.boot()
	w.searches(1)
}

// TestATK74_ReplacedEvidenceKey loses the key that signs records and replaces it:
// evidence from before and after verifies, and the record names both keys.
func TestATK74_ReplacedEvidenceKey(t *testing.T) {
	w := start(t, options{})
	w.searches(2)
	w.stop()
	keys := filepath.Join(w.dir, "powerbox-data", "keys")
	spoil(t, filepath.Join(keys, "evidence.secret"), "gone")
	if out, err := w.verb("keys", "replace", "evidence"); err == nil || !strings.Contains(out, "--reason") {
		t.Errorf("without a reason: %v %s", err, out)
	}
	if out, err := w.verb("keys", "replace", "operator", "--reason", "lost"); err == nil || !strings.Contains(out, "can be replaced") {
		t.Errorf("the operator's token: %v %s", err, out)
	}
	w.must("keys", "replace", "evidence", "--reason", "the disk lost it")
	w.boot()
	w.searches(2)
	bundle, trust := w.bundle()
	report, err := evidence.Verify(bytes.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK || len(trust.RecordKeys) != 2 {
		t.Errorf("%v %v, %d keys", err, report.Problems, len(trust.RecordKeys))
	}
	replaced := w.replacements()
	if len(replaced) != 1 || replaced[0]["file"] != "evidence.secret" || replaced[0]["reason"] != "the disk lost it" || replaced[0]["before"] == "" || replaced[0]["before"] == replaced[0]["key"] {
		t.Errorf("on record: %v", replaced)
	}
}

// replacements are the replaced keys on record.
func (w *town) replacements() []map[string]string {
	w.t.Helper()
	var out []map[string]string
	bundle := w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
	for line := range bytes.Lines(bundle) {
		s, err := evidence.ParseSealed(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil || s.Record().ActionType != "key.replace" {
			continue
		}
		said := map[string]string{}
		if err := json.Unmarshal(s.Record().Intent.Details, &said); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, said)
	}
	return out
}

// TestATK74_ReplacedKeysOfEveryKind replaces each other key, also one that is there
// and was seen by others. The server starts, and serves what it can still serve.
func TestATK74_ReplacedKeysOfEveryKind(t *testing.T) {
	w := start(t, options{})
	w.searches(1)
	w.stop()
	names := []string{"checkpoint", "feed", "handles", "pairwise", "documents"}
	for _, name := range names {
		w.must("keys", "replace", name, "--reason", "it was seen")
	}
	kept, err := filepath.Glob(filepath.Join(w.dir, "powerbox-data", "keys", "*.replaced-*"))
	if err != nil || len(kept) != len(names) {
		t.Errorf("kept: %v %v", kept, err)
	}
	w.boot()
	w.searches(1)
	if got := w.replacements(); len(got) != len(names) {
		t.Errorf("on record: %v", got)
	}
	bundle, trust := w.bundle()
	if report, err := evidence.Verify(bytes.NewReader(bundle), trust); err != nil || report.Verdict() != evidence.OK {
		t.Errorf("%v %v", err, report.Problems)
	}
}

// TestATK74_GatewayDoesNotStartWithoutItsKeys does the same at a sidecar gateway.
func TestATK74_GatewayDoesNotStartWithoutItsKeys(t *testing.T) {
	_, all := startRemote(t, 1, options{})
	r := all[0]
	killed(t, r.process)
	for _, file := range []string{"gateway.secret", "evidence.secret", "agent-context.jwk"} {
		for how, want := range map[string]string{"gone": "powerbox gateway enroll", "empty": "powerbox gateway enroll", "readable by others": "chmod 600", "another": "powerbox gateway enroll"} {
			back := spoil(t, filepath.Join(r.state, "keys", file), how)
			if said := notStarted(t, "gateway", "--state", r.state, "--listen", r.address, "--dev"); !strings.Contains(said, want) || !strings.Contains(said, file) {
				t.Errorf("%s %s: want %q\n%s", file, how, want, said)
			}
			back()
		}
	}
	r.boot()
}

// TestATK74_WitnessDoesNotStartWithoutItsKey takes the key of a witness away that has
// cosigned. Its book tells that there was one.
func TestATK74_WitnessDoesNotStartWithoutItsKey(t *testing.T) {
	w := watched(t)
	v := newWatcher(t, "one.example/w", w.logKey())
	w.again(func() { w.under("", v) })
	w.denied(2)
	w.covers(1)
	killed(t, v.process)
	found, err := filepath.Glob(filepath.Join(v.dir, "*", "keys", "witness.secret"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	for how, want := range map[string]string{"gone": "empty directory", "empty": "empty directory", "readable by others": "chmod 600"} {
		back := spoil(t, found[0], how)
		if said := notStarted(t, "witness", "-c", v.file()); !strings.Contains(said, want) || !strings.Contains(said, "witness.secret") {
			t.Errorf("%s: want %q\n%s", how, want, said)
		}
		if _, err := os.Stat(found[0]); how == "gone" && err == nil {
			t.Error("a new key was written")
		}
		back()
	}
	v.boot()
}
