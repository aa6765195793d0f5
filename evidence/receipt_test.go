package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// receipted is the receipt of a record of a log, and the record.
func receipted(t testing.TB) (l *testLog, receipt, stored []byte) {
	t.Helper()
	l = newTestLog(t).fill(9, 1, 2)
	stored = l.records[3]
	sealed, err := ParseSealed(stored)
	must(t, err)
	proof, err := ProveInclusion(3, l.hashes, l.signed())
	must(t, err)
	receipt, err = NewReceipt(sealed, proof)
	must(t, err)
	return l, receipt, stored
}

// TestEXT26_Receipts are verified offline by both implementations, and are of one
// record and its signature.
func TestEXT26_Receipts(t *testing.T) {
	l, good, stored := receipted(t)
	replaced := func(from, to string) string {
		out := strings.Replace(string(good), from, to, 1)
		if out == string(good) {
			t.Fatalf("the receipt has no %s", from)
		}
		return out
	}
	log := replaced("powerbox.example/log", "powerbox.example/lag")
	for name, c := range map[string]struct {
		receipt, record string
		holds           bool
	}{
		"alone":                  {string(good), "", true},
		"with its record":        {string(good), string(stored), true},
		"with another record":    {string(good), string(l.records[4]), false},
		"with a changed record":  {string(good), strings.Replace(string(stored), "ALLOW", "DENY", 1), false},
		"another place":          {replaced(`index 3`, `index 4`), "", false},
		"another leaf":           {replaced(`"leaf":"cG93ZXJib3gtZXZpZGVuY2UvdjEKAg`, `"leaf":"cG93ZXJib3gtZXZpZGVuY2UvdjEKAw`), "", false},
		"another form":           {replaced("powerbox-receipt/v1", "powerbox-receipt/v2"), "", false},
		"a leaf of another form": {replaced(`"leaf":"cG93`, `"leaf":"cG94`), "", false},
		"another log":            {log, "", false},
		"a member more":          {replaced(`"form"`, `"a":1,"form"`), "", false},
		"a space":                {replaced(`,"leaf"`, `, "leaf"`), "", false},
		"nothing":                {"", "", false},
		"too large":              {replaced(`"form":"`, `"form":"`+strings.Repeat("x", MaxReceipt)), "", false},
	} {
		question := asked{Trust: textOf(t, l.trust()), Receipt: &c.receipt}
		if c.record != "" {
			question.Record = &c.record
		}
		r, err := ParseReceipt([]byte(c.receipt))
		if err == nil {
			_, err = r.Verify(l.trust())
		}
		if err == nil && c.record != "" {
			err = r.Is([]byte(c.record))
		}
		answer := inNode(t, []asked{question})[0]
		if (err == nil) != c.holds || (answer.Error == "") != c.holds {
			t.Errorf("EXT-26 a receipt, %s: Go says %v, verify.mjs %q", name, err, answer.Error)
		}
		if c.holds && answer.Text != fmt.Sprintf("ok %s %s %d", r.Chain(), r.Hash(), r.Sequence()) {
			t.Errorf("EXT-26 a receipt, %s: verify.mjs reads %q", name, answer.Text)
		}
	}
	if len(good) >= MaxReceipt || !bytes.Contains(good, []byte(proofForm)) {
		t.Errorf("EXT-26 %s", good)
	}
}

// TestEXT26_AReceiptIsSmall: one that would not be is none.
func TestEXT26_AReceiptIsSmall(t *testing.T) {
	l, _, stored := receipted(t)
	sealed, err := ParseSealed(stored)
	must(t, err)
	proof, err := ProveInclusion(3, l.hashes, l.signed())
	must(t, err)
	proof.Checkpoint = append(proof.Checkpoint, strings.Repeat("\u2014 witness.example AAAAAAAAAA\n", 60)...)
	if text, err := NewReceipt(sealed, proof); err == nil {
		t.Errorf("EXT-26 a receipt of %d bytes", len(text))
	}
}

// TestEXT26_ReceiptsNeedTrust: nothing holds without pinned keys, nor below the quorum of
// witnesses that is demanded.
func TestEXT26_ReceiptsNeedTrust(t *testing.T) {
	l, text, _ := receipted(t)
	receipt, err := ParseReceipt(text)
	must(t, err)
	if p := receipt.Proof(); p.Index != 3 || !bytes.Equal(p.Checkpoint, l.signed()) {
		t.Errorf("EXT-26 the proof of a receipt is %+v", p)
	}
	if _, err := receipt.Verify(Trust{}); err == nil {
		t.Error("EXT-26 a receipt holds where nothing is pinned")
	}
	trust := l.trust()
	trust.Quorum = Quorum{[]WitnessKey{newTestCosigner(t, "one", 11).Key()}, 1}
	if _, err := receipt.Verify(trust); !errors.Is(err, ErrNotWitnessed) {
		t.Errorf("EXT-26 a receipt without a cosignature that is demanded: %v", err)
	}
	if err := receipt.Is([]byte("{}")); err == nil {
		t.Error("EXT-26 a receipt is of what is no record")
	}
}
