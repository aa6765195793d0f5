package evidence

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// submission asks for a cosignature of what the log is now.
func (l *testLog) submission(old int64) Submission {
	l.t.Helper()
	s, err := NewSubmission(old, l.hashes, l.signed())
	must(l.t, err)
	return s
}

func (l *testLog) verifier() note.Verifier {
	l.t.Helper()
	v, err := note.NewVerifier(l.vkey)
	must(l.t, err)
	return v
}

// Every step from every size is cosigned, and another implementation agrees that
// the proofs hold.
func TestEXT35_ALogThatGoesOnIsCosigned(t *testing.T) {
	var at []Checkpoint
	l := newTestLog(t)
	for size := range 20 {
		l.fill(1, 1)
		for old, kept := range append([]Checkpoint{{}}, append(at, l.checkpoint())...) {
			s := l.submission(int64(old))
			parsed, err := ParseSubmission([]byte(s.String()))
			must(t, err)
			if diff := cmp.Diff(s, parsed); diff != "" {
				t.Error(diff)
			}
			got, err := parsed.Check(kept, l.verifier())
			if err != nil || got != l.checkpoint() {
				t.Errorf("%d to %d: %v", old, size+1, err)
			}
			if old == 0 {
				continue
			}
			path := make([][]byte, len(s.Proof))
			for i, hash := range s.Proof {
				path[i] = hash[:]
			}
			if err := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(l.size), path, kept.Root[:], l.root[:]); err != nil {
				t.Errorf("%d to %d: %v", old, l.size, err)
			}
		}
		at = append(at, l.checkpoint())
	}
}

func TestATK43_ALogThatDoesNotGoOnIsNotCosigned(t *testing.T) {
	l := newTestLog(t).fill(8, 1)
	fork := newTestLog(t).fill(5, 1).fill(9, 2)
	kept := l.checkpoint()
	stranger := newTestLog(t)
	stranger.log, _, _ = NewLogSigner(testOrigin, ed25519Key(9))
	stranger.fill(9, 1)
	shorter, empty := newTestLog(t).fill(6, 1), newTestLog(t)
	empty.root, _ = tlog.TreeHash(0, nil)
	twisted := fork.submission(8)
	twisted.Proof[0][0] ^= 1
	unneeded := l.submission(8)
	unneeded.Proof = tlog.TreeProof{{}}
	for name, test := range map[string]struct {
		s    Submission
		kept Checkpoint
		want error
	}{
		"another history that is longer":        {fork.submission(8), kept, ErrProof},
		"a proof that was changed":              {twisted, kept, ErrProof},
		"a proof where none is needed":          {unneeded, kept, ErrProof},
		"another tree of that size":             {newTestLog(t).fill(8, 2).submission(8), kept, ErrOtherRoot},
		"a shorter one":                         {shorter.submission(6), kept, ErrOldSize},
		"a shorter one, from where it was":      {shorter.submission(3), kept, ErrOldSize},
		"from the beginning":                    {fork.submission(0), kept, ErrOldSize},
		"a size that was never cosigned":        {fork.submission(3), Checkpoint{}, ErrOldSize},
		"another key":                           {stranger.submission(8), kept, ErrNotSigned},
		"an empty tree with the root of a full": {Submission{Checkpoint: signedOf(t, l, Checkpoint{Origin: testOrigin, Root: l.root})}, Checkpoint{}, ErrOtherRoot},
		"an empty tree":                         {Submission{Checkpoint: signedOf(t, l, Checkpoint{Origin: testOrigin, Root: empty.root})}, Checkpoint{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := test.s.Check(test.kept, l.verifier()); !errors.Is(err, test.want) {
				t.Error(err)
			}
		})
	}
	back := shorter.submission(3)
	back.Old = 8
	_, err := back.Check(kept, l.verifier())
	wantError(t, err, "is larger than that of the checkpoint")
	_, err = Submission{}.Check(kept, l.verifier())
	wantError(t, err, "checkpoint")
}

func signedOf(t *testing.T, l *testLog, c Checkpoint) []byte {
	t.Helper()
	signed, err := SignCheckpoint(c, l.log)
	must(t, err)
	return signed
}

func TestEXT35_SubmissionsHaveOneForm(t *testing.T) {
	l := newTestLog(t).fill(7, 1)
	text := l.submission(3).String()
	origin, err := l.submission(3).Origin()
	if err != nil || origin != testOrigin {
		t.Errorf("%q %v", origin, err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"", "does not begin"},
		"no size":        {strings.Replace(text, "old 3", "old", 1), "does not begin"},
		"below zero":     {strings.Replace(text, "old 3", "old -3", 1), "does not begin"},
		"a leading zero": {strings.Replace(text, "old 3", "old 03", 1), "one form"},
		"a bare number":  {strings.Replace(text, "old 3", "3", 1), "one form"},
		"too many":       {"old 3\n" + strings.Repeat(l.root.String()+"\n", maxProof+1) + "\n", "does not begin"},
		"a short hash":   {strings.Replace(text, "old 3\n", "old 3\nAAAA\n", 1), "line 2"},
		"too large":      {strings.Repeat("a", maxCheckpoint+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSubmission([]byte(test.text))
			wantError(t, err, test.want)
		})
	}
	_, err = NewSubmission(0, nil, nil)
	wantError(t, err, "checkpoint")
	_, err = NewSubmission(3, Hashes{}, l.signed())
	wantError(t, err, "from size 3 to 7")
}
