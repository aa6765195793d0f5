package witness_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
)

// Every step from every size is cosigned, and another implementation agrees that
// the proofs hold.
func TestEXT35_ALogThatGoesOnIsCosigned(t *testing.T) {
	var at []evidence.Checkpoint
	l := newLog(t)
	for size := range 20 {
		l.grow(1, "1")
		for old, kept := range append([]evidence.Checkpoint{{}}, append(at, l.checkpoint())...) {
			s := l.submission(int64(old))
			parsed, err := witness.ParseSubmission([]byte(s.String()))
			must(t, err)
			if diff := cmp.Diff(s, parsed); diff != "" {
				t.Error(diff)
			}
			got, err := parsed.Check(kept, l.key)
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
	l := newLog(t).grow(8, "1")
	fork := newLog(t).grow(5, "1").grow(9, "2")
	kept := l.checkpoint()
	stranger := newLog(t)
	stranger.signer, _, _ = evidence.NewLogSigner(origin, key(9))
	stranger.grow(9, "1")
	shorter, empty := newLog(t).grow(6, "1"), newLog(t)
	twisted := fork.submission(8)
	twisted.Proof[0][0] ^= 1
	unneeded := l.submission(8)
	unneeded.Proof = tlog.TreeProof{{}}
	for name, test := range map[string]struct {
		s    witness.Submission
		kept evidence.Checkpoint
		want error
	}{
		"another history that is longer":        {fork.submission(8), kept, evidence.ErrProof},
		"a proof that was changed":              {twisted, kept, evidence.ErrProof},
		"a proof where none is needed":          {unneeded, kept, evidence.ErrProof},
		"another tree of that size":             {newLog(t).grow(8, "2").submission(8), kept, witness.ErrOtherRoot},
		"a shorter one":                         {shorter.submission(6), kept, witness.ErrOldSize},
		"a shorter one, from where it was":      {shorter.submission(3), kept, witness.ErrOldSize},
		"from the beginning":                    {fork.submission(0), kept, witness.ErrOldSize},
		"a size that was never cosigned":        {fork.submission(3), evidence.Checkpoint{}, witness.ErrOldSize},
		"another key":                           {stranger.submission(8), kept, witness.ErrNotSigned},
		"an empty tree with the root of a full": {witness.Submission{Checkpoint: signedOf(t, l, evidence.Checkpoint{Origin: origin, Root: l.root})}, evidence.Checkpoint{}, witness.ErrOtherRoot},
		"an empty tree":                         {witness.Submission{Checkpoint: signedOf(t, l, evidence.Checkpoint{Origin: origin, Root: empty.root})}, evidence.Checkpoint{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := test.s.Check(test.kept, l.key); !errors.Is(err, test.want) {
				t.Error(err)
			}
		})
	}
	back := shorter.submission(3)
	back.Old = 8
	_, err := back.Check(kept, l.key)
	saysError(t, err, "is larger than that of the checkpoint")
	_, err = witness.Submission{}.Check(kept, l.key)
	saysError(t, err, "checkpoint")
}

func signedOf(t *testing.T, l *memory, c evidence.Checkpoint) []byte {
	t.Helper()
	signed, err := evidence.SignCheckpoint(c, l.signer)
	must(t, err)
	return signed
}

func TestEXT35_SubmissionsHaveOneForm(t *testing.T) {
	l := newLog(t).grow(7, "1")
	text := l.submission(3).String()
	name, err := l.submission(3).Origin()
	if err != nil || name != origin {
		t.Errorf("%q %v", name, err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"", "does not begin"},
		"no size":        {strings.Replace(text, "old 3", "old", 1), "does not begin"},
		"below zero":     {strings.Replace(text, "old 3", "old -3", 1), "does not begin"},
		"a leading zero": {strings.Replace(text, "old 3", "old 03", 1), "one form"},
		"a bare number":  {strings.Replace(text, "old 3", "3", 1), "one form"},
		"too many":       {"old 3\n" + strings.Repeat(l.root.String()+"\n", 64) + "\n", "does not begin"},
		"a short hash":   {strings.Replace(text, "old 3\n", "old 3\nAAAA\n", 1), "line 2"},
		"too large":      {strings.Repeat("a", 512<<10+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := witness.ParseSubmission([]byte(test.text))
			saysError(t, err, test.want)
		})
	}
	_, err = witness.NewSubmission(0, nil, nil)
	saysError(t, err, "checkpoint")
	_, err = witness.NewSubmission(3, evidence.Hashes{}, signedOf(t, l, l.checkpoint()))
	saysError(t, err, "from size 3 to 7")
}

func saysError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v; want an error with %q", err, text)
	}
}
