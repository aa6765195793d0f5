package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// denials makes so many records at a gateway, and returns their ids.
func (w *town) denials(n int) []string {
	w.t.Helper()
	var ids []string
	for range n {
		a := w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil)
		id := a.Header.Get("Powerbox-Decision")
		if id == "" {
			w.t.Fatalf("no record: %s", a.Raw)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestATK74_DamagedSpoolOfAGateway damages the records that a sidecar gateway has not
// sent. The gateway does not start and says what to do; after a salvage every whole
// record is at the server, and the loss is on record.
func TestATK74_DamagedSpoolOfAGateway(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	r := all[0]
	sent := w.denials(3)
	w.stop()
	unsent := w.denials(30)
	killed(t, r.process)
	spool := filepath.Join(r.state, "spool")
	found, err := filepath.Glob(filepath.Join(spool, "*.seg"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	whole, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte(`"`+unsent[14]+`"`))
	whole[at] ^= 1
	if err := os.WriteFile(found[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}

	w.boot()
	said := notStarted(t, "gateway", "--state", r.state, "--listen", r.address, "--dev")
	for _, want := range []string{"powerbox gateway spool check " + r.state, "powerbox gateway spool salvage " + r.state, "damaged"} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q: %s", want, said)
		}
	}
	if out, _, code := ran(t, "gateway", "spool", "check", spool); code != 4 || !strings.Contains(out, "damaged: ") || !strings.Contains(out, " are lost") {
		t.Errorf("check: %d %s", code, out)
	}
	out, talk, code := ran(t, "gateway", "spool", "salvage", r.state)
	if code != 0 || !strings.Contains(out, "lost: records from") || !strings.Contains(out, "on record: rec_") {
		t.Fatalf("salvage: %d %s%s", code, out, talk)
	}
	if out, _, code := ran(t, "gateway", "spool", "check", r.state); code != 0 {
		t.Errorf("check, afterwards: %d %s", code, out)
	}
	r.boot()
	sent = append(sent, w.denials(1)...)
	bundle, trust := w.settledBundle(sent[3])
	report, err := evidence.Verify(strings.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK {
		t.Errorf("the evidence does not verify: %v %v", err, report.Problems)
	}
	missing := 0
	for _, id := range append(sent, unsent...) {
		if !strings.Contains(bundle, `"record_id":"`+id+`"`) {
			missing++
		}
	}
	if lost := lostRecords(t, bundle); missing != 1 || lost != 1 {
		t.Errorf("%d records are missing, %d are on record as lost; want 1", missing, lost)
	}
	if kept, err := filepath.Glob(spool + ".damaged-*"); err != nil || len(kept) != 1 {
		t.Errorf("the damaged files: %v %v", kept, err)
	}
}

// settledBundle waits until the server has a record, and exports the evidence.
func (w *town) settledBundle(id string) (string, evidence.Trust) {
	w.t.Helper()
	var bundle []byte
	eventually(w.t, patience, func() string { return "the record does not come\n" + w.log.String() }, func() bool {
		bundle = w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
		return bytes.Contains(bundle, []byte(`"`+id+`"`))
	})
	bundle, trust := w.bundle()
	return string(bundle), trust
}

// lostRecords counts the records that are on record as lost.
func lostRecords(t *testing.T, bundle string) (n int64) {
	t.Helper()
	for line := range strings.Lines(bundle) {
		s, err := evidence.ParseSealed([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil || s.Record().ActionType != "evidence.salvage" {
			continue
		}
		var said struct{ Lost []struct{ From, To int64 } }
		if err := json.Unmarshal(s.Record().Intent.Details, &said); err != nil {
			t.Fatal(err)
		}
		for _, l := range said.Lost {
			n += l.To - l.From
		}
	}
	return n
}

// TestATK74_DamagedJournalOfTheStore damages records in the journal of the store.
// The server does not start and says how to repair it. After a salvage all others
// are there, and the loss is on record: none if the store already had the damaged
// records.
func TestATK74_DamagedJournalOfTheStore(t *testing.T) {
	aboutTheFile(t)
	for how, change := range map[string]func([]byte, int){
		"a flipped bit":  func(data []byte, at int) { data[at] ^= 1 },
		"a zeroed block": func(data []byte, at int) { clear(data[at : at+1500]) },
	} {
		t.Run(how, func(t *testing.T) {
			w := start(t, options{})
			all := w.denials(30)
			killed(t, w.process)
			path := filepath.Join(w.dir, "powerbox-data", "powerbox.db-spool")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte(`"`+all[20]+`"`))
			if at < 0 {
				t.Fatal("the record is not in the journal")
			}
			change(data, at)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if said := w.notServed(); !strings.Contains(said, "powerbox store salvage") {
				t.Errorf("%s", said)
			}
			if out := w.must("store", "salvage"); !strings.Contains(out, "the damaged journal is") {
				t.Errorf("%s", out)
			}
			if out := w.must("store", "salvage"); !strings.Contains(out, "is not damaged") {
				t.Errorf("a second time: %s", out)
			}
			w.boot()
			bundle, trust := w.settledBundle(w.denials(1)[0])
			report, err := evidence.Verify(strings.NewReader(bundle), trust)
			if err != nil || report.Verdict() != evidence.OK {
				t.Errorf("the evidence does not verify: %v %v", err, report.Problems)
			}
			missing := 0
			for _, id := range all {
				if !strings.Contains(bundle, `"record_id":"`+id+`"`) {
					missing++
				}
			}
			// Where the file had the damaged record already, none is lost, and those behind it are
			// sealed anew.
			told := strings.Contains(bundle, `"evidence.salvage"`)
			if missing > 3 || missing > 0 && !told || told && !strings.Contains(bundle, fmt.Sprintf(`"records":%d}`, missing)) {
				t.Errorf("%d records are missing, and the record of the salvage says otherwise", missing)
			}
		})
	}
}

// flipped flips a bit of the last record with an id in a file.
func flipped(t *testing.T, path, id string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(`"`+id+`"`))
	if at < 0 {
		t.Fatalf("%s is not in %s", id, path)
	}
	data[at] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestATK88_DamageInTheLastRecordOfTheStore flips a bit of the record that was acknowledged
// last before a kill. The server does not take that for a write that was torn.
func TestATK88_DamageInTheLastRecordOfTheStore(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	all := w.denials(5)
	killed(t, w.process)
	flipped(t, filepath.Join(w.dir, "powerbox-data", "powerbox.db-spool"), all[4])
	if said := w.notServed(); !strings.Contains(said, "powerbox store salvage") {
		t.Errorf("ATK-88 %s", said)
	}
	w.must("store", "salvage")
	w.boot()
	bundle, trust := w.settledBundle(w.denials(1)[0])
	report, err := evidence.Verify(strings.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK {
		t.Errorf("ATK-88 the evidence does not verify: %v %v", err, report.Problems)
	}
	// The file may have had it before the kill.
	lost := !strings.Contains(bundle, `"record_id":"`+all[4]+`"`)
	if lost != strings.Contains(bundle, `"records":1}`) {
		t.Errorf("ATK-88 the record is missing: %v; and that is not what is on record", lost)
	}
	for _, id := range all[:4] {
		if !strings.Contains(bundle, `"record_id":"`+id+`"`) {
			t.Errorf("ATK-88 %s is missing", id)
		}
	}
}

// TestATK88_DamageInTheLastRecordOfAGateway does the same at a remote gateway.
func TestATK88_DamageInTheLastRecordOfAGateway(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	r := all[0]
	w.denials(1)
	w.stop()
	unsent := w.denials(5)
	killed(t, r.process)
	found, err := filepath.Glob(filepath.Join(r.state, "spool", "*.seg"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	flipped(t, found[0], unsent[4])
	w.boot()
	if said := notStarted(t, "gateway", "--state", r.state, "--listen", r.address, "--dev"); !strings.Contains(said, "powerbox gateway spool salvage "+r.state) {
		t.Errorf("ATK-88 %s", said)
	}
	if out, talk, code := ran(t, "gateway", "spool", "salvage", r.state); code != 0 || !strings.Contains(out, "on record: rec_") {
		t.Fatalf("ATK-88 salvage: %d %s%s", code, out, talk)
	}
	r.boot()
	bundle, _ := w.settledBundle(w.denials(1)[0])
	if lost := lostRecords(t, bundle); lost != 1 || strings.Contains(bundle, `"record_id":"`+unsent[4]+`"`) || !strings.Contains(bundle, `"record_id":"`+unsent[3]+`"`) {
		t.Errorf("ATK-88 %d records are on record as lost; want 1", lost)
	}
}
