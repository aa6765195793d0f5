package evidence

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// proofForm is the first line of a C2SP tlog-proof.
const proofForm = "c2sp.org/tlog-proof@v1"

// maxProof bounds the hashes of a proof: a log of 2^63 entries needs 63.
const maxProof = 63

// Proof shows with a checkpoint alone that one record is in the log (EXT-35): a
// record can be handed out with it, and none of its neighbours.
type Proof struct {
	Index      int64            // of the record's entry, the first is 0
	Hashes     tlog.RecordProof // from the leaf to the root
	Checkpoint []byte           // signed note
}

// ProveInclusion makes the proof for one entry of the tree that a signed
// checkpoint covers.
func ProveInclusion(index int64, hashes tlog.HashReader, signed []byte) (Proof, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	checkpoint, err := parseCheckpoint(text + "\n")
	if err != nil {
		return Proof{}, err
	}
	path, err := tlog.ProveRecord(checkpoint.Size, index, hashes)
	if err != nil {
		return Proof{}, fmt.Errorf("evidence: proof of entry %d of %d: %w", index, checkpoint.Size, err)
	}
	return Proof{Index: index, Hashes: path, Checkpoint: signed}, nil
}

// String returns the proof as text (C2SP tlog-proof): the form, the index, one
// hash per line, an empty line, the checkpoint.
func (p Proof) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nindex %d\n", proofForm, p.Index)
	for _, hash := range p.Hashes {
		text.WriteString(base64.StdEncoding.EncodeToString(hash[:]) + "\n")
	}
	text.WriteString("\n")
	text.Write(p.Checkpoint)
	return text.String()
}

// ParseProof reads what String writes and nothing else. The optional extra line
// of C2SP is refused, since nothing here would look at it.
func ParseProof(data []byte) (Proof, error) {
	if len(data) > maxCheckpoint {
		return Proof{}, fmt.Errorf("evidence: proof of %d bytes, at most %d are allowed", len(data), maxCheckpoint)
	}
	text, checkpoint, _ := strings.Cut(string(data), "\n\n")
	lines := strings.Split(text, "\n")
	if len(lines) < 2 || len(lines) > 2+maxProof || lines[0] != proofForm {
		return Proof{}, fmt.Errorf("evidence: proof does not begin with %q, an index and up to %d hashes", proofForm, maxProof)
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return Proof{}, errors.New("evidence: second line of the proof is not like: index 12")
	}
	proof := Proof{Index: index, Checkpoint: []byte(checkpoint)}
	for i, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return Proof{}, fmt.Errorf("evidence: line %d of the proof is not the base64 of 32 bytes", i+3)
		}
		proof.Hashes = append(proof.Hashes, hash)
	}
	if proof.String() != string(data) {
		return Proof{}, errors.New("evidence: proof is not in its one form")
	}
	return proof, nil
}

// VerifyRecord checks one record that was handed out with its proof: form, hash,
// signature by a pinned key, and the entry in the log (EXT-26). It returns the
// checkpoint that covers the record, to be kept for [Trust.Seen]. It says
// nothing about the record's neighbours: that takes a bundle and [Verify]. Where
// [Trust.Batches] admits a record without its own signature
// ([Sealed.Covered]), what covers it here is that of the checkpoint alone.
func VerifyRecord(stored, proof []byte, trust Trust) (Checkpoint, error) {
	ready, err := trust.prepare()
	if err != nil {
		return Checkpoint{}, err
	}
	sealed, err := ParseSealed(stored)
	if err != nil {
		return Checkpoint{}, err
	}
	if err := sealed.CheckHash(); err != nil {
		return Checkpoint{}, err
	}
	record := sealed.Record()
	key, ok := ready.keys[record.Details.SigningKeyID]
	if !ok {
		return Checkpoint{}, fmt.Errorf("evidence: record %q is signed with key %q, which is not pinned", record.ID, record.Details.SigningKeyID)
	}
	err = sealed.CheckSignature(key.Key)
	if ready.batches && sealed.Covered() {
		err = nil
	}
	if err := errors.Join(err, key.allows(record)); err != nil {
		return Checkpoint{}, err
	}
	parsed, err := ParseProof(proof)
	if err != nil {
		return Checkpoint{}, err
	}
	checkpoint, err := OpenCheckpoint(parsed.Checkpoint, ready.log...)
	if err != nil {
		return Checkpoint{}, err
	}
	if _, err := ready.quorum.Check(parsed.Checkpoint); err != nil {
		return Checkpoint{}, err
	}
	return checkpoint, checkpoint.CheckInclusion(parsed.Hashes, parsed.Index, Leaf(sealed))
}
