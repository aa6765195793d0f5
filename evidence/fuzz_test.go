package evidence

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzCanonical(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}

// FuzzParseSealed checks that accepted input is kept byte for byte, and that
// no use of it can panic.
func FuzzParseSealed(f *testing.F) {
	key := newTestLog(f).keys[0]
	f.Fuzz(func(t *testing.T, data []byte) {
		agreed(t, data)
		sealed, err := ParseSealed(data)
		if err != nil {
			return
		}
		if !bytes.Equal(sealed.Bytes(), data) {
			t.Fatalf("%q is kept as %q", data, sealed.Bytes())
		}
		if canon, err := Canonical(data); err == nil && !bytes.Equal(canon, data) {
			t.Fatalf("%q is accepted and not canonical", data)
		}
		if len(Leaf(sealed)) != len(leafForm)+16+8+3*32 {
			t.Fatal("leaf has another size")
		}
		if sealed.CheckHash() == nil && sealed.CheckSignature(key) == nil {
			again, err := SealUnsafeUnsigned(Head{ChainID: sealed.Record().Details.ChainID}, sealed.Record())
			if err != nil {
				t.Fatalf("a record that was sealed once cannot be sealed: %v", err)
			}
			must(t, again.CheckHash())
		}
	})
}

// FuzzBundle checks that whatever is accepted holds the records that were
// logged, and that nothing can make the verifier fail.
func FuzzBundle(f *testing.F) {
	l := newTestLog(f).fill(3, 1, 2)
	trust := l.trust()
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := Verify(bytes.NewReader(data), trust)
		must(t, err)
		if report.Verdict() != OK {
			return
		}
		var records [][]byte
		for _, line := range lines(data)[1:] {
			if bytes.HasPrefix(line, []byte(`{"action_type"`)) {
				records = append(records, bytes.TrimSuffix(line, []byte("\n")))
			}
		}
		if !slices.EqualFunc(records, l.records, bytes.Equal) {
			t.Fatalf("accepted: %q", data)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	l := newTestLog(f).fill(3, 1, 2)
	known := verifierOf(f, l.vkey)
	f.Fuzz(func(t *testing.T, data []byte) {
		checkpoint, err := OpenCheckpoint(data, known)
		if err == nil && checkpoint != l.checkpoint() {
			t.Fatalf("accepted: %q", data)
		}
	})
}

// FuzzParseProof checks that a proof has one form, and that no proof puts a
// record where it is not.
func FuzzParseProof(f *testing.F) {
	l := newTestLog(f).fill(3, 1)
	trust := l.trust()
	f.Fuzz(func(t *testing.T, data []byte) {
		proof, err := ParseProof(data)
		if err == nil && proof.String() != string(data) {
			t.Fatalf("%q is kept as %q", data, proof)
		}
		if _, err := VerifyRecord(l.records[1], data, trust); err == nil && proof.Index != 1 {
			t.Fatalf("accepted: %q", data)
		}
	})
}
