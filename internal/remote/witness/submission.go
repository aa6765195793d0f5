package witness

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

// maxCheckpoint bounds the bytes of a submission, as evidence bounds those of a checkpoint.
const maxCheckpoint = 512 << 10

// maxProof bounds the hashes of a proof: a log of 2^63 entries needs 63.
const maxProof = 63

// Submission is what a log asks of a witness (C2SP tlog-witness, add-checkpoint):
// to cosign a checkpoint, with the proof that it continues from the one that the
// witness has cosigned last.
type Submission struct {
	Old        int64 // size of the checkpoint that the witness cosigned last, 0 for none
	Proof      tlog.TreeProof
	Checkpoint []byte // signed note
}

// The errors of a submission that a witness answers in their own ways. A proof
// that does not hold is [evidence.ErrProof].
var (
	ErrNotSigned = errors.New("not signed by a key of the log")
	ErrOldSize   = errors.New("not the size that was cosigned last")
	ErrOtherRoot = errors.New("another tree of the size that was cosigned last")
)

// NewSubmission makes the submission of a signed checkpoint for a witness that has
// cosigned the log at size old. Hashes are those of the stored tree.
func NewSubmission(old int64, hashes tlog.HashReader, signed []byte) (Submission, error) {
	checkpoint, err := evidence.ReadCheckpoint(signed)
	if err != nil {
		return Submission{}, err
	}
	s := Submission{Old: old, Checkpoint: signed}
	if old > 0 && old < checkpoint.Size {
		if s.Proof, err = tlog.ProveTree(checkpoint.Size, old, hashes); err != nil {
			return Submission{}, fmt.Errorf("proof of %s from size %d to %d: %w", checkpoint.Origin, old, checkpoint.Size, err)
		}
	}
	return s, nil
}

// String returns the body of the request.
func (s Submission) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "old %d\n", s.Old)
	for _, hash := range s.Proof {
		text.WriteString(base64.StdEncoding.EncodeToString(hash[:]) + "\n")
	}
	text.WriteString("\n")
	text.Write(s.Checkpoint)
	return text.String()
}

// ParseSubmission reads what String writes and nothing else.
func ParseSubmission(data []byte) (Submission, error) {
	if len(data) > maxCheckpoint {
		return Submission{}, fmt.Errorf("submission of %d bytes, at most %d are allowed", len(data), maxCheckpoint)
	}
	head, checkpoint, _ := strings.Cut(string(data), "\n\n")
	lines := strings.Split(head, "\n")
	old, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	if err != nil || old < 0 || len(lines) > 1+maxProof {
		return Submission{}, fmt.Errorf("submission does not begin with a line like: old 12, and up to %d hashes", maxProof)
	}
	s := Submission{Old: old, Checkpoint: []byte(checkpoint)}
	for i, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return Submission{}, fmt.Errorf("line %d of the submission is not the base64 of 32 bytes", i+2)
		}
		s.Proof = append(s.Proof, hash)
	}
	if s.String() != string(data) {
		return Submission{}, errors.New("submission is not in its one form")
	}
	return s, nil
}

// Origin returns the name of the log in the submitted checkpoint.
func (s Submission) Origin() (string, error) {
	checkpoint, err := evidence.ReadCheckpoint(s.Checkpoint)
	return checkpoint.Origin, err
}

// Check decides whether a witness may cosign. Kept is what it has cosigned last of
// this log, the zero evidence.Checkpoint for nothing; keys are those of the log. It
// returns the checkpoint that the witness has to keep before it cosigns. Errors are
// [ErrNotSigned], [ErrOldSize], [ErrOtherRoot], [evidence.ErrProof], or say that the
// submission is malformed.
func (s Submission) Check(kept evidence.Checkpoint, keys ...note.Verifier) (evidence.Checkpoint, error) {
	claimed, err := evidence.ReadCheckpoint(s.Checkpoint)
	if err != nil {
		return evidence.Checkpoint{}, err
	}
	checkpoint, err := evidence.OpenCheckpoint(s.Checkpoint, keys...)
	switch {
	case err != nil:
		return evidence.Checkpoint{}, fmt.Errorf("%w: %w", ErrNotSigned, err)
	case s.Old > claimed.Size:
		return evidence.Checkpoint{}, fmt.Errorf("old size %d is larger than that of the checkpoint, %d", s.Old, claimed.Size)
	case s.Old != kept.Size:
		return evidence.Checkpoint{}, fmt.Errorf("%w: %d, which is %d", ErrOldSize, s.Old, kept.Size)
	case s.Old == 0 || s.Old == checkpoint.Size:
		return checkpoint, s.checkUnproven(kept, checkpoint)
	}
	return checkpoint, checkpoint.CheckConsistency(s.Proof, kept)
}

// checkUnproven is for what needs no proof: the first checkpoint of a log, and
// the same again.
func (s Submission) checkUnproven(kept, checkpoint evidence.Checkpoint) error {
	if len(s.Proof) > 0 {
		return fmt.Errorf("%w: there is nothing to prove from size %d to %d, and yet there are hashes", evidence.ErrProof, s.Old, checkpoint.Size)
	}
	root := kept.Root
	if kept.Size == 0 {
		root, _ = tlog.TreeHash(0, nil) // of the empty tree, which reads nothing
	}
	if s.Old == checkpoint.Size && checkpoint.Root != root {
		return fmt.Errorf("%w, %d", ErrOtherRoot, s.Old)
	}
	return nil
}
