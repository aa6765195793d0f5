package e2e

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// series has both verifiers judge bundles in the folder, one after the other.
func (a *auditor) series(names []string, args ...string) finding {
	a.t.Helper()
	args = append(append([]string{}, names...), append([]string{"--trust", "trust.json", "--output", "json"}, args...)...)
	first, code := a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"evidence", "verify"}, args...)...)
	second, other := a.runs(node(a.t), append([]string{"verify.mjs"}, args...)...)
	var ours, js finding
	for text, into := range map[string]*finding{first: &ours, second: &js} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			a.t.Fatalf("%v\n%s", err, text)
		}
	}
	if got, want := strings.Join(js.caught(), ", "), strings.Join(ours.caught(), ", "); got != want || code != other {
		a.t.Errorf("the binary says %s (exit %d), verify.mjs %s (exit %d)", want, code, got, other)
	}
	return ours
}

// period closes a period and exports its bundle, with the checkpoint that it ends
// in, into the auditor's folder.
func (w *town) period(a *auditor, number string) {
	w.t.Helper()
	if said := w.run("evidence", "close"); !strings.HasPrefix(said, "closed period "+number+": ") {
		w.t.Fatalf("%s", said)
	}
	bundle := filepath.Join(a.dir, "period-"+number)
	w.run("evidence", "export", "--period", number, "--out", bundle)
	checkpoint, code := w.cli("evidence", "checkpoint", bundle)
	if code != 0 {
		w.t.Fatal(checkpoint)
	}
	a.has("end-"+number, []byte(checkpoint))
}

// Closed periods are separate bundles, which hold together wherever they are
// kept, and the store continues without their records, also after a start.
func TestEXT24_PeriodsHoldTogether(t *testing.T) { onStores(t, tryEXT24PeriodsHoldTogether) }

func tryEXT24PeriodsHoldTogether(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	one := alice.saying("one")
	a := w.handed()
	w.period(a, "1")
	if out, code := w.cli("evidence", "export", "--period", "2"); code == 0 {
		t.Errorf("a period that is not there: %s", out)
	}
	two := alice.saying("two")
	w.period(a, "2")
	three := alice.saying("three")
	w.run("evidence", "export", "--out", filepath.Join(a.dir, "live"))

	if v := a.series([]string{"live"}); v.Verdict != "ok" {
		t.Errorf("before anything is archived: %+v", v)
	}
	at := func(name string) string { return filepath.Join(a.dir, name) }
	archive := func(number, bundle string, more ...string) (string, int) {
		return w.cli(append([]string{"evidence", "archive", at(bundle), "--period", number, "--trust", at("trust.json")}, more...)...)
	}
	w.tilesOfPeriods(a)
	// Out of order, under another's bundle, and with a bundle that was changed.
	if out, code := archive("2", "period-2", "--seen", at("end-1")); code == 0 || !strings.Contains(out, "not archived yet") {
		t.Errorf("out of order: %d %s", code, out)
	}
	if out, code := archive("1", "period-2", "--seen", at("end-1")); code == 0 || !strings.Contains(out, "not the bundle of that period") {
		t.Errorf("another's bundle: %d %s", code, out)
	}
	data, err := os.ReadFile(at("period-1"))
	if err != nil {
		t.Fatal(err)
	}
	a.has("spoilt", bytes.Replace(data, []byte(`"ALLOW"`), []byte(`"DENY"`), 1))
	if out, code := archive("1", "spoilt"); code != 4 && code != 1 || !strings.Contains(out, "hash_mismatch") {
		t.Errorf("a changed bundle: %d %s", code, out)
	}
	if r := w.record(one.ID); r.Hash != one.Hash {
		t.Fatal("a record is gone although nothing was archived")
	}
	if out, code := archive("1", "period-1"); code != 0 || !strings.HasPrefix(out, "archived period 1: ") {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := w.cli("evidence", "show", one.ID); code == 0 {
		t.Errorf("it is still there: %s", out)
	}
	if out, code := archive("2", "period-2", "--seen", at("end-1")); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := w.cli("evidence", "export", "--period", "1"); code == 0 || !strings.Contains(out, "archived") {
		t.Errorf("a period that is elsewhere: %s", out)
	}
	w.again(func() {}) // chains continue from records that are not there
	alice = w.caller(aliceToken)
	alice.saying("four")
	w.run("evidence", "export", "--out", at("later"))
	if got := w.record(three.ID); got.Hash != three.Hash {
		t.Errorf("%+v", got)
	}
	if listed := w.run("evidence", "list", "--output", "json"); !strings.Contains(listed, three.ID) || strings.Contains(listed, two.ID) {
		t.Errorf("%s", listed)
	}
	for name, c := range map[string]struct {
		series []string
		seen   string
		want   string // begins what the verifiers say
	}{
		"everything":                          {[]string{"period-1", "period-2", "later"}, "", "ok"},
		"the first period":                    {[]string{"period-1"}, "", "ok"},
		"a period, under the one before":      {[]string{"period-2"}, "end-1", "ok"},
		"the store, under the last period":    {[]string{"later"}, "end-2", "ok"},
		"EXT-24 the store alone":              {[]string{"later"}, "", "tampered, missing_head"},
		"EXT-24 a dropped period":             {[]string{"period-1", "later"}, "", "tampered, missing_period"},
		"EXT-24 the first period dropped":     {[]string{"period-2", "later"}, "", "tampered, missing_head"},
		"EXT-24 swapped periods":              {[]string{"period-2", "period-1", "later"}, "end-1", "tampered, swapped"},
		"ATK-43 what came later is left away": {[]string{"period-1"}, "end-2", "tampered, missing_tail"},
	} {
		var args []string
		if c.seen != "" {
			args = []string{"--seen", c.seen}
		}
		if got := strings.Join(a.series(c.series, args...).caught(), ", "); !strings.HasPrefix(got, c.want) || c.want == "ok" && got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
	}
	closing := w.records("operation=evidence.period")
	if len(closing) != 0 {
		// The record that names period 2 is of the third, and the store has it.
		var end evidence.Checkpoint
		text, err := os.ReadFile(at("end-2"))
		if err == nil {
			end, err = evidence.ReadCheckpoint(text)
		}
		raw := w.operator(http.MethodGet, "/v1/records/"+closing[0].ID, nil)
		if err != nil || !bytes.Contains(raw, []byte(end.Root.String())) {
			t.Errorf("%v: the next period does not name %s\n%s", err, end.Root, raw)
		}
	} else {
		t.Error("no record names a closed period")
	}
	if out, code := w.cli("evidence", "periods"); code != 0 || strings.Count(out, "archived") != 2 {
		t.Errorf("%s", out)
	}
}

// Data kept beside records is deleted before them, and data that scores count stays.
func TestEXT26_WhatIsNotArchived(t *testing.T) {
	w := start(t, options{agent: keepArguments})
	w.caller(aliceToken).saying("canary")
	a := w.handed()
	w.period(a, "1")
	archive := func() (string, int) {
		return w.cli("evidence", "archive", filepath.Join(a.dir, "period-1"), "--period", "1", "--trust", filepath.Join(a.dir, "trust.json"))
	}
	if out, code := archive(); code == 0 || !strings.Contains(out, "bodies are kept") {
		t.Errorf("%d %s", code, out)
	}
	w.run("evidence", "erase", "--agent", "documents", "--yes")
	if out, code := archive(); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	w.again(func() { w.rewrite("powerbox.yaml", "keep: arguments}", "keep: none}\n    trust: LOW") })
	w.period(a, "2")
	out, code := w.cli("evidence", "archive", filepath.Join(a.dir, "period-2"), "--period", "2", "--trust", filepath.Join(a.dir, "trust.json"), "--seen", filepath.Join(a.dir, "end-1"))
	if code == 0 || !strings.Contains(out, "levels of trust are asked for") {
		t.Errorf("%d %s", code, out)
	}
	// A score is of everything: a bundle that begins later does not give one.
	if out, code := w.cli("trust", "documents", "--from", filepath.Join(a.dir, "period-2"), "--trust", filepath.Join(a.dir, "trust.json"), "--seen", filepath.Join(a.dir, "end-1")); code == 0 || !strings.Contains(out, "entries that are not in it") || strings.Contains(out, "HIGH") {
		t.Errorf("EXT-20 from a later period: exit %d %s", code, out)
	}
}

// tilesOfPeriods writes the tiles of two periods into one folder, whose files are those that
// the server serves.
func (w *town) tilesOfPeriods(a *auditor) {
	w.t.Helper()
	at := func(name string) string { return filepath.Join(a.dir, name) }
	tiles := func(bundle string, more ...string) (string, int) {
		return w.cli(append([]string{"evidence", "tiles", at(bundle), "--out", at("log"), "--trust", at("trust.json")}, more...)...)
	}
	if out, code := tiles("period-2", "--seen", at("end-1")); code == 0 || !strings.Contains(out, "give the bundles between them first") {
		w.t.Errorf("a period without those before: %d %s", code, out)
	}
	for _, args := range [][]string{{"period-1"}, {"period-2", "--seen", at("end-1")}, {"period-2", "--seen", at("end-1")}} {
		if out, code := tiles(args[0], args[1:]...); code != 0 {
			w.t.Fatalf("%s: %d %s", args[0], code, out)
		}
	}
	files := 0
	if err := fs.WalkDir(os.DirFS(at("log")), "tile", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(at("log"), path))
		if files++; !bytes.Equal(data, w.get(w.url+"/"+path)) {
			w.t.Errorf("%s is not what the server serves", path)
		}
		return err
	}); err != nil || files < 4 {
		w.t.Errorf("%d files, %v", files, err)
	}
	kept, err := os.ReadFile(at("log/checkpoint"))
	end, errEnd := os.ReadFile(at("end-2"))
	if err != nil || errEnd != nil || !bytes.Equal(kept, end) {
		w.t.Errorf("the checkpoint is not that of the last period: %v %v", err, errEnd)
	}
}
