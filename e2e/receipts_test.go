package e2e

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// receipt is a record with its proof, as it is handed out.
type receipt struct{ record, proof string }

func (w *town) receipt(id string) receipt {
	w.t.Helper()
	return receipt{w.run("evidence", "show", id), w.run("evidence", "proof", id)}
}

// Parts of receipts that are valid alone prove nothing that they do not say:
// another record, another place, another log, another witness.
func TestATK45_AReceiptProvesWhatItSays(t *testing.T) { onStores(t, tryATK45AReceiptProvesWhatItSays) }

func tryATK45AReceiptProvesWhatItSays(t *testing.T) {
	w := watched(t)
	one := newWatcher(t, "one.example/w", w.logKey())
	w.denied(8)
	early := w.records("limit=1")[0].ID
	w.again(func() { w.under("", one) })
	before := w.receipt(early)
	w.denied(8)
	late := w.records("limit=1")[0].ID
	now := w.receipt(early)
	other := w.receipt(late)
	trust := w.run("evidence", "trust")

	foreign := start(t, options{extra: "evidence: {origin: other.example/log}\n"})
	foreign.denied(8)
	theirs := foreign.receipt(foreign.records("limit=1")[0].ID)
	theirTrust := foreign.run("evidence", "trust")
	elsewhere := newWatcher(t, "else.example/w", w.logKey())

	// A note is its text and, behind an empty line, the signatures.
	cut := func(proof string) (text string, signatures []string) {
		at := strings.Index(proof, "\n\u2014 ") + 1
		return proof[:at], strings.SplitAfter(proof[at:], "\n")
	}
	lines := func(proof, name string) string {
		_, all := cut(proof)
		for _, line := range all {
			if strings.HasPrefix(line, "\u2014 "+name+" ") {
				return line
			}
		}
		t.Fatalf("no signature of %s in\n%s", name, proof)
		return ""
	}
	text, _ := cut(now.proof)
	mine := func() string {
		parsed, err := evidence.ParseProof([]byte(now.proof))
		if err != nil {
			t.Fatal(err)
		}
		c, err := evidence.ReadCheckpoint(parsed.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		self, err := evidence.NewCosigner("one.example/w", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return self.Cosign(c, time.Unix(1, 0))
	}()

	for name, test := range map[string]struct {
		r       receipt
		trust   string
		witness string
		code    int
	}{
		"it is whole":                            {now, trust, one.key.String(), 0},
		"it is whole, and older":                 {before, trust, one.key.String(), 0},
		"the proof is of another record":         {receipt{now.record, other.proof}, trust, one.key.String(), 4},
		"the checkpoint is of before the record": {receipt{other.record, before.proof}, trust, one.key.String(), 4},
		"another place in the log":               {receipt{now.record, strings.Replace(now.proof, "\nindex ", "\nindex 1", 1)}, trust, one.key.String(), 4},
		"the cosignature is of another size":     {receipt{now.record, text + lines(now.proof, logName) + lines(before.proof, "one.example/w")}, trust, one.key.String(), 4},
		"the cosignature is of another key":      {receipt{now.record, text + lines(now.proof, logName) + mine}, trust, one.key.String(), 4},
		"the cosignature was taken away":         {receipt{now.record, text + lines(now.proof, logName)}, trust, one.key.String(), 4},
		"the log's signature was taken away":     {receipt{now.record, text + lines(now.proof, "one.example/w")}, trust, one.key.String(), 4},
		"a witness that has not seen it":         {now, trust, elsewhere.key.String(), 4},
		"the log's own key is no witness":        {now, trust, w.logKey(), 2},
		"a receipt of another log":               {theirs, trust, one.key.String(), 4},
		"another log's keys":                     {now, theirTrust, one.key.String(), 4},
		"another log's checkpoint":               {receipt{now.record, theirs.proof}, trust, one.key.String(), 4},
		"a receipt that is no record":            {receipt{now.proof, now.proof}, trust, one.key.String(), 4},
		"the decision says another thing":        {receipt{strings.Replace(now.record, `"DENY"`, `"ALLOW"`, 1), now.proof}, trust, one.key.String(), 4},
		"the record is signed for another agent": {now, strings.Replace(trust, `"*"`, `"mail"`, 1), one.key.String(), 4},
		"the proof is the checkpoint by itself":  {receipt{now.record, now.proof[strings.Index(now.proof, logName):]}, trust, one.key.String(), 4},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"record": test.r.record, "proof": test.r.proof, "trust": test.trust} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, talk, code := ran(t, "evidence", "verify", filepath.Join(dir, "record"), "--proof", filepath.Join(dir, "proof"), "--trust", filepath.Join(dir, "trust"), "--witness", test.witness)
			if code != test.code {
				t.Errorf("%d, want %d: %s", code, test.code, fmt.Sprint(out, talk))
			}
		})
	}
	if _, talk, code := ran(t, "evidence", "verify", "x", "--proof", "y", "--trust", "z", "--seen", "s"); code != 2 || !strings.Contains(talk, "needs a bundle") {
		t.Errorf("%d %s", code, talk)
	}
}
