package evidence

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// receiptForm is the form of a receipt.
const receiptForm = "powerbox-receipt/v1"

// MaxReceipt is the size in bytes of the largest receipt: it travels in metadata.
const MaxReceipt = 2048

// leafSize is the size in bytes of every leaf.
const leafSize = len(leafForm) + 16 + 8 + 3*32

// Receipt shows that a record is in the log, and reveals nothing of the
// record except its hash: the leaf, the path to the root, and the signed checkpoint with
// its cosignatures. Anyone who is handed the record later holds it against the receipt.
type Receipt struct {
	leaf  []byte
	proof Proof
}

// receiptLine is a receipt as JSON in its one form (RFC 8785).
type receiptLine struct {
	Form  string `json:"form"`
	Leaf  string `json:"leaf"`  // base64
	Proof string `json:"proof"` // C2SP tlog-proof
}

// NewReceipt makes the receipt of a record from its proof.
func NewReceipt(sealed Sealed, proof Proof) ([]byte, error) {
	text, err := canonicalValue(receiptLine{receiptForm, base64.StdEncoding.EncodeToString(Leaf(sealed)), proof.String()})
	if err == nil && len(text) > MaxReceipt {
		err = fmt.Errorf("evidence: a receipt of %d bytes, at most %d are allowed; have fewer witnesses cosign", len(text), MaxReceipt)
	}
	return text, err
}

// ParseReceipt reads what [NewReceipt] writes and nothing else.
func ParseReceipt(data []byte) (Receipt, error) {
	if len(data) > MaxReceipt {
		return Receipt{}, fmt.Errorf("evidence: receipt of %d bytes, at most %d are allowed", len(data), MaxReceipt)
	}
	var line receiptLine
	if err := decodeLine(data, &line); err != nil {
		return Receipt{}, fmt.Errorf("evidence: receipt: %w", err)
	}
	leaf, err := base64.StdEncoding.Strict().DecodeString(line.Leaf)
	if err != nil || strings.ContainsAny(line.Leaf, "\r\n") || line.Form != receiptForm || len(leaf) != leafSize || string(leaf[:len(leafForm)]) != leafForm {
		return Receipt{}, fmt.Errorf("evidence: receipt is not of form %q with a leaf of %d bytes", receiptForm, leafSize)
	}
	proof, err := ParseProof([]byte(line.Proof))
	return Receipt{leaf, proof}, err
}

// Chain is the chain of the record that the receipt is about.
func (r Receipt) Chain() ChainID { return ChainID(r.leaf[len(leafForm):][:16]) }

// Sequence is the place of the record in its chain.
func (r Receipt) Sequence() int64 {
	return int64(binary.BigEndian.Uint64(r.leaf[len(leafForm)+16:]))
}

// Hash is record_hash of the record.
func (r Receipt) Hash() Hash { return Hash(r.leaf[leafSize-64 : leafSize-32]) }

// Proof is where in the log the record is.
func (r Receipt) Proof() Proof { return r.proof }

// Verify checks that the log has the entry, under a checkpoint of a pinned key and
// with the cosignatures that are demanded. It returns the checkpoint, to be kept for
// [Trust.Seen].
func (r Receipt) Verify(trust Trust) (Checkpoint, error) {
	ready, err := trust.prepare()
	if err != nil {
		return Checkpoint{}, err
	}
	checkpoint, err := OpenCheckpoint(r.proof.Checkpoint, ready.log...)
	if err != nil {
		return Checkpoint{}, err
	}
	if _, err := ready.quorum.Check(r.proof.Checkpoint); err != nil {
		return Checkpoint{}, err
	}
	return checkpoint, checkpoint.CheckInclusion(r.proof.Hashes, r.proof.Index, r.leaf)
}

// Is returns nil where a stored record is the one of the receipt, signature included.
func (r Receipt) Is(stored []byte) error {
	sealed, err := ParseSealed(stored)
	if err != nil {
		return err
	}
	if err := sealed.CheckHash(); err != nil {
		return err
	}
	if string(Leaf(sealed)) != string(r.leaf) {
		return errors.New("evidence: the receipt is of another record, or of one with another signature")
	}
	return nil
}
