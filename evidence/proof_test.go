package evidence

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (l *testLog) proof(index int64) []byte {
	l.t.Helper()
	proof, err := ProveInclusion(index, l.hashes, l.signed())
	must(l.t, err)
	return []byte(proof.String())
}

func TestEXT35_OneRecordVerifiesWithItsProof(t *testing.T) {
	for _, size := range []int{1, 2, 7} {
		l := newTestLog(t).fill(size, 1, 2)
		for i, record := range l.records {
			checkpoint, err := VerifyRecord(record, l.proof(int64(i)), l.trust())
			must(t, err)
			if diff := cmp.Diff(l.checkpoint(), checkpoint); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestATK44_AProofOfAnotherRecordDoesNotHold(t *testing.T) {
	l := newTestLog(t).fill(4, 1)
	if _, err := VerifyRecord(l.records[0], l.proof(1), l.trust()); !errors.Is(err, ErrProof) {
		t.Error(err)
	}
}

func TestEXT22_AnySingleFlippedByteOfARecordOrItsProofIsFound(t *testing.T) {
	l := newTestLog(t).fill(3, 1)
	record, proof, trust := l.records[1], l.proof(1), l.trust()
	for at := range len(record) + len(proof) {
		spoilt := append(bytes.Clone(record), proof...)
		spoilt[at] ^= 1
		if _, err := VerifyRecord(spoilt[:len(record)], spoilt[len(record):], trust); err == nil {
			t.Fatalf("byte %d changed to %q and was not found", at, spoilt[at])
		}
	}
}

func TestEXT26_ARecordIsJudgedByPinnedKeys(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	_, err := VerifyRecord(l.records[0], l.proof(0), Trust{})
	wantError(t, err, "nothing is pinned")
	other := l.trust()
	other.RecordKeys[0].Agents = []string{"agent-7"}
	_, err = VerifyRecord(l.records[0], l.proof(0), other)
	wantError(t, err, "not pinned for agent")
	other.RecordKeys[0].Key, err = NewKey(ed25519Key(9).Public(), "issuer")
	must(t, err)
	_, err = VerifyRecord(l.records[0], l.proof(0), other)
	wantError(t, err, "which is not pinned")
}

func TestEXT35_AProofHasOneForm(t *testing.T) {
	l := newTestLog(t).fill(3, 1)
	text := string(l.proof(1))
	for name, test := range map[string]struct{ text, want string }{
		"empty":          {"", "does not begin"},
		"another form":   {strings.Replace(text, "@v1", "@v2", 1), "does not begin"},
		"too many":       {strings.Replace(text, "index 1\n", "index 1\n"+strings.Repeat("x\n", maxProof), 1), "does not begin"},
		"an extra line":  {strings.Replace(text, "index", "extra AAAA\nindex", 1), "second line"},
		"no index":       {strings.Replace(text, "index 1", "index one", 1), "second line"},
		"a bare index":   {strings.Replace(text, "index 1", "1", 1), "one form"},
		"a leading zero": {strings.Replace(text, "index 1", "index 01", 1), "one form"},
		"a short hash":   {strings.Replace(text, "index 1\n", "index 1\nAAAA\n", 1), "line 3"},
		"too large":      {strings.Repeat("a", maxCheckpoint+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProof([]byte(test.text))
			wantError(t, err, test.want)
		})
	}
	_, err := ProveInclusion(3, l.hashes, l.signed())
	wantError(t, err, "entry 3 of 3")
	_, err = ProveInclusion(0, l.hashes, nil)
	wantError(t, err, "checkpoint")
}
