package evidence

import (
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// maxCheckpoint is the size in bytes of the largest signed checkpoint that is
// looked at, enough for a hundred ML-DSA-44 cosignatures.
const maxCheckpoint = 512 << 10

// Checkpoint says how long a log is and what it holds (C2SP tlog-checkpoint).
// A history that a checkpoint covers cannot be shortened or changed unseen by
// anybody who keeps the checkpoint (EXT-35, ATK-43).
type Checkpoint struct {
	Origin string    // unique name of the log, one line, also the name of its key
	Size   int64     // number of entries
	Root   tlog.Hash // RFC 6962 root of the first Size entries
}

// String returns the text that is signed: origin, size and root, one line each.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// parseCheckpoint reads the text of a checkpoint. Extension lines are refused:
// we write none, and an unknown line must not be signed.
func parseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return Checkpoint{}, fmt.Errorf("evidence: checkpoint of %d lines; origin, size and root are needed and nothing else", len(lines)-1)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 {
		return Checkpoint{}, errors.New("evidence: checkpoint size is not a decimal number")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Checkpoint{}, errors.New("evidence: checkpoint root is not the base64 of 32 bytes")
	}
	checkpoint := Checkpoint{Origin: lines[0], Size: size, Root: root}
	if lines[0] == "" || checkpoint.String() != text {
		return Checkpoint{}, errors.New("evidence: checkpoint is not in its one form: origin, size without leading zeros, root")
	}
	return checkpoint, nil
}

// SignCheckpoint returns the checkpoint as a signed note (C2SP signed-note). At
// least one signer must have the origin as its name.
func SignCheckpoint(c Checkpoint, signers ...note.Signer) ([]byte, error) {
	if _, err := parseCheckpoint(c.String()); err != nil {
		return nil, err
	}
	named := false
	for _, signer := range signers {
		named = named || signer.Name() == c.Origin
	}
	if !named {
		return nil, fmt.Errorf("evidence: no key with the name %q signs its checkpoint", c.Origin)
	}
	signed, err := note.Sign(&note.Note{Text: c.String()}, signers...)
	if err != nil {
		return nil, fmt.Errorf("evidence: signing the checkpoint of %s at %d: %w", c.Origin, c.Size, err)
	}
	return signed, nil
}

// OpenCheckpoint reads a signed checkpoint. It must carry a valid signature of a
// known key that has the log's origin as its name: a key of one log does not
// speak for another. Signatures of unknown keys (witnesses that are not pinned)
// are passed over, as C2SP asks; they are no evidence of anything.
func OpenCheckpoint(signed []byte, known ...note.Verifier) (Checkpoint, error) {
	if len(signed) > maxCheckpoint {
		return Checkpoint{}, fmt.Errorf("evidence: checkpoint of %d bytes, at most %d are allowed", len(signed), maxCheckpoint)
	}
	opened, err := note.Open(signed, note.VerifierList(known...))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("evidence: checkpoint: %w", err)
	}
	if err := checkSignatureLines(signed, opened); err != nil {
		return Checkpoint{}, err
	}
	checkpoint, err := parseCheckpoint(opened.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, signature := range opened.Sigs {
		if signature.Name == checkpoint.Origin {
			return checkpoint, nil
		}
	}
	return Checkpoint{}, fmt.Errorf("evidence: checkpoint of %q has no signature of a known key of that name", checkpoint.Origin)
}

// checkSignatureLines closes two doors that note.Open leaves open: stray bits
// at the end of base64, and repeated lines that are dropped unread. Through
// either, a signed checkpoint could be changed without anybody noticing.
func checkSignatureLines(signed []byte, opened *note.Note) error {
	lines := strings.Count(string(signed[len(opened.Text):]), "\n") - 1
	if lines != len(opened.Sigs)+len(opened.UnverifiedSigs) {
		return errors.New("evidence: checkpoint repeats a signature line")
	}
	for _, signature := range append(opened.Sigs, opened.UnverifiedSigs...) {
		if _, err := base64.StdEncoding.Strict().DecodeString(signature.Base64); err != nil {
			return fmt.Errorf("evidence: checkpoint signature of %q is not strict base64", signature.Name)
		}
	}
	return nil
}

// logSigner is a note.Signer whose key is inside a function, out of sight of
// every way of printing.
type logSigner struct {
	note.Verifier
	sign func(message []byte) ([]byte, error)
}

func (s logSigner) Sign(message []byte) ([]byte, error) { return s.sign(message) }

// NewLogSigner returns the signer of a log's checkpoints, and the verifier key
// (C2SP signed-note vkey) that its readers pin. The name of both is the origin.
func NewLogSigner(origin string, private crypto.Signer) (signer note.Signer, verifierKey string, err error) {
	public, err := ed25519Public(private)
	if err != nil {
		return nil, "", err
	}
	verifierKey, errKey := note.NewEd25519VerifierKey(origin, public)
	verifier, errName := note.NewVerifier(verifierKey)
	if err := errors.Join(errKey, errName); err != nil {
		return nil, "", fmt.Errorf("evidence: origin %q cannot name a key; one word without + is needed: %w", origin, err)
	}
	sign := func(message []byte) ([]byte, error) { return private.Sign(nil, message, crypto.Hash(0)) }
	return logSigner{Verifier: verifier, sign: sign}, verifierKey, nil
}

// ReadCheckpoint reads the text of a signed checkpoint, and looks at no signature:
// what it returns is someone's claim. See [OpenCheckpoint].
func ReadCheckpoint(signed []byte) (Checkpoint, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	return parseCheckpoint(text + "\n")
}
