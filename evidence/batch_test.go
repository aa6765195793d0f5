package evidence

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// batch logs records of one chain of which the last n are signed.
func (l *testLog) batch(chain byte, of, signed int) {
	l.t.Helper()
	for i := range of {
		head, ok := l.heads[ChainID{chain}]
		if !ok {
			head = Genesis(ChainID{chain})
		}
		sealed, err := SealCovered(head, testRecord(fmt.Sprintf("ev-%d", len(l.records)), fmt.Sprintf("agent-%d", chain)), l.signer)
		must(l.t, err)
		if i >= of-signed {
			sealed, err = sealed.Sign(l.signer)
			must(l.t, err)
		}
		if sealed.Covered() != (i < of-signed) {
			l.t.Errorf("record %d says that a later one covers it: %v", i, sealed.Covered())
		}
		l.put(sealed)
	}
}

func (l *testLog) verifyBatches(bundle []byte) Report {
	l.t.Helper()
	trust := l.trust()
	trust.Batches = true
	report, err := Verify(bytes.NewReader(bundle), trust)
	must(l.t, err)
	return report
}

// A record without a signature stands under that of a later one of its chain,
// where the verifier admits that.
func TestEXT23_ABatchIsCoveredByItsLastSignature(t *testing.T) {
	l := newTestLog(t)
	l.batch(1, 3, 1)
	l.batch(2, 2, 1)
	l.add(1, testRecord("ev-own", "agent-1"))
	l.batch(1, 2, 2)
	report := l.verifyBatches(l.bundle())
	if report.Verdict() != OK || report.Records != 8 || report.Covered != 3 {
		t.Errorf("%d of %d covered: %v", report.Covered, report.Records, report.Problems)
	}
	want := []string{"bad_signature@2", "bad_signature@3", "bad_signature@5"}
	if diff := cmp.Diff(want, kinds(l.verify(l.bundle()))); diff != "" {
		t.Errorf("a verifier that did not admit it: %s", diff)
	}
}

// What no signature stands on is not covered.
func TestEXT23_NothingElseCovers(t *testing.T) {
	other, err := NewEd25519Signer(ed25519Key(7))
	must(t, err)
	otherKey, err := NewKey(ed25519Key(7).Public(), "issuer")
	must(t, err)
	for name, test := range map[string]struct {
		fill func(l *testLog)
		want []string
	}{
		"the end of the chain is open": {func(l *testLog) { l.batch(1, 2, 1); l.batch(1, 2, 0) }, []string{"bad_signature@4", "bad_signature@5"}},
		"another chain is signed":      {func(l *testLog) { l.batch(1, 1, 0); l.batch(2, 1, 1) }, []string{"bad_signature@2"}},
		"another key signs behind it":  {func(l *testLog) { l.batch(1, 1, 0); l.signer = other; l.batch(1, 1, 1) }, []string{"bad_signature@2"}},
		"its key is not pinned": {func(l *testLog) {
			s, k := l.signer, l.keys
			l.signer = stranger(t)
			l.batch(1, 1, 0)
			l.signer, l.keys = s, k
		}, []string{"bad_signature@2"}},
		"a record does not say so":       {func(l *testLog) { l.bare(1); l.batch(1, 1, 1) }, []string{"bad_signature@2"}},
		"the link to the signed is cut":  {func(l *testLog) { l.batch(1, 1, 0); l.cut(1); l.batch(1, 1, 1) }, []string{"bad_signature@2", "broken_link@3"}},
		"the signature behind is broken": {func(l *testLog) { l.batch(1, 1, 0); l.forged(1) }, []string{"bad_signature@2", "bad_signature@3"}},
		"the key is not for the agent": {func(l *testLog) {
			r := testRecord("ev-0", "agent-1")
			r.Details.Recorder = "someone"
			s, err := SealCovered(Genesis(ChainID{1}), r, l.signer)
			must(t, err)
			l.put(s)
		}, []string{"key_not_allowed@2", "bad_signature@2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLog(t)
			l.keys = append(l.keys, otherKey)
			test.fill(l)
			if diff := cmp.Diff(test.want, kinds(l.verifyBatches(l.bundle()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func stranger(t *testing.T) Signer {
	t.Helper()
	s, err := NewEd25519Signer(ed25519Key(9))
	must(t, err)
	return s
}

// bare logs a record that names its key and has no signature, without saying
// that its batch covers it.
func (l *testLog) bare(chain byte) {
	l.t.Helper()
	record := testRecord("ev-bare", fmt.Sprintf("agent-%d", chain))
	record.Details.SigningKeyID = l.signer.KeyID()
	sealed, err := seal(Genesis(ChainID{chain}), wire{Record: record, Algorithm: l.signer.Algorithm()})
	must(l.t, err)
	sealed.full = sealed.wire.full(sealed.body, "")
	l.put(sealed)
}

// cut makes the next record of a chain name another one before it.
func (l *testLog) cut(chain byte) {
	head := l.heads[ChainID{chain}]
	head.Hash[0] ^= 1
	l.heads[ChainID{chain}] = head
}

// forged logs a record of a batch with a signature that does not hold.
func (l *testLog) forged(chain byte) {
	l.t.Helper()
	sealed, err := SealCovered(l.heads[ChainID{chain}], testRecord("ev-forged", fmt.Sprintf("agent-%d", chain)), l.signer)
	must(l.t, err)
	sealed, err = sealed.Sign(keySigner{l.signer.KeyID(), l.signer.Algorithm(), func([]byte) ([]byte, error) { return make([]byte, ed25519.SignatureSize), nil }})
	must(l.t, err)
	l.put(sealed)
}

func TestEXT26_ARecordOfABatchWithItsProof(t *testing.T) {
	l := newTestLog(t)
	l.batch(1, 2, 1)
	for i, record := range l.records {
		proof, err := ProveInclusion(int64(i), l.hashes, l.signed())
		must(t, err)
		trust := l.trust()
		_, err = VerifyRecord(record, []byte(proof.String()), trust)
		if i == 0 {
			wantError(t, err, "is not signed")
		} else {
			must(t, err)
		}
		trust.Batches = true
		_, err = VerifyRecord(record, []byte(proof.String()), trust)
		must(t, err)
	}
}

func TestSealCoveredRefuses(t *testing.T) {
	l := newTestLog(t)
	_, err := SealCovered(Genesis(ChainID{1}), testRecord("ev-0", "agent-1"), nil)
	wantError(t, err, "no signer")
	sealed, err := SealCovered(Genesis(ChainID{1}), testRecord("ev-0", "agent-1"), l.signer)
	must(t, err)
	_, err = sealed.Sign(stranger(t))
	wantError(t, err, "was sealed for key")
	_, err = sealed.Sign(keySigner{l.signer.KeyID(), l.signer.Algorithm(), func([]byte) ([]byte, error) { return nil, errors.New("no key") }})
	wantError(t, err, "is not signed: no key")
	_, err = ParseSealed([]byte(strings.Replace(string(sealed.Bytes()), `"signatures":"batch"`, `"signatures":"none"`, 1)))
	wantError(t, err, "powerbox.signatures")
	again, err := ParseSealed(sealed.Bytes())
	must(t, err)
	if !again.Covered() || again.CheckHash() != nil {
		t.Error("a covered record is another one after it was read")
	}
}
