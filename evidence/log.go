package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// leafForm opens every leaf, so that a leaf is nothing else's hash.
const leafForm = "powerbox-evidence/v1\n"

// Leaf returns the entry of a record in the log: chain id (16 bytes), sequence
// (8, big endian), previous hash (32), record hash (32) and SHA-256 of the
// signature (32) behind the name of the form. It holds nothing of the body and
// no name, so leaves can be public, and two leaves with one chain and sequence
// prove a fork to anybody.
func Leaf(s Sealed) []byte {
	chain, prev, hash := s.wire.Details.ChainID, s.Prev(), s.Hash()
	signature := sha256.Sum256(s.signature)
	leaf := append(make([]byte, 0, len(leafForm)+len(chain)+8+3*len(hash)), leafForm...)
	leaf = append(leaf, chain[:]...)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(s.wire.Details.Sequence))
	leaf = append(leaf, prev[:]...)
	leaf = append(leaf, hash[:]...)
	return append(leaf, signature[:]...)
}

// Grow adds leaves to a tree of the given size (RFC 6962, as tlog stores it).
// It reads what it needs of the old tree through hashes and returns the hashes
// to store, the first at tlog.StoredHashCount(size), the new size and the new
// root. The caller stores them in the transaction of the records.
func Grow(size int64, hashes tlog.HashReader, leaves [][]byte) (stored []tlog.Hash, newSize int64, root tlog.Hash, err error) {
	if size < 0 {
		return nil, 0, tlog.Hash{}, fmt.Errorf("evidence: tree of size %d", size)
	}
	grown := overlay{base: hashes, from: tlog.StoredHashCount(size), added: make(Hashes, 0, 2*len(leaves)+64)}
	for _, leaf := range leaves {
		added, err := tlog.StoredHashes(size, leaf, &grown)
		if err != nil {
			return nil, 0, tlog.Hash{}, fmt.Errorf("evidence: growing the tree at %d: %w", size, err)
		}
		grown.added = append(grown.added, added...)
		size++
	}
	root, err = tlog.TreeHash(size, &grown)
	if err != nil {
		return nil, 0, tlog.Hash{}, fmt.Errorf("evidence: root of the tree of %d: %w", size, err)
	}
	return grown.added, size, root, nil
}

// overlay reads stored hashes from base, and those that are not stored yet from
// memory.
type overlay struct {
	base  tlog.HashReader
	from  int64
	added Hashes
}

// ReadHashes implements tlog.HashReader. Indexes come in ascending order, but
// nothing here depends on it.
func (o *overlay) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var old []int64
	for _, index := range indexes {
		if index < o.from {
			old = append(old, index)
		}
	}
	var read []tlog.Hash
	if len(old) > 0 {
		var err error
		if read, err = o.base.ReadHashes(old); err != nil {
			return nil, err
		}
	}
	if len(read) != len(old) {
		return nil, fmt.Errorf("evidence: %d stored hashes read, %d asked for", len(read), len(old))
	}
	hashes := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		if index < o.from {
			hashes, read = append(hashes, read[0]), read[1:]
			continue
		}
		hashes = append(hashes, o.added[index-o.from])
	}
	return hashes, nil
}

// Hashes is a tree in memory, in the order of tlog.StoredHashIndex.
type Hashes []tlog.Hash

// ReadHashes implements tlog.HashReader.
func (h Hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(h)) {
			return nil, fmt.Errorf("evidence: stored hash %d of %d", index, len(h))
		}
		hashes[i] = h[index]
	}
	return hashes, nil
}

// ErrProof says that a proof does not connect what it should.
var ErrProof = errors.New("evidence: proof does not hold")

// CheckInclusion checks that a leaf is entry number index of the log that the
// checkpoint covers (EXT-35). The proof comes from tlog.ProveRecord.
func (c Checkpoint) CheckInclusion(proof tlog.RecordProof, index int64, leaf []byte) error {
	if err := tlog.CheckRecord(proof, c.Size, c.Root, index, tlog.RecordHash(leaf)); err != nil {
		return fmt.Errorf("%w: entry %d of %s at size %d: %w", ErrProof, index, c.Origin, c.Size, err)
	}
	return nil
}

// CheckConsistency checks that the log of an older checkpoint is the beginning
// of this one (EXT-35): nothing was taken away or rewritten since. The proof
// comes from tlog.ProveTree.
func (c Checkpoint) CheckConsistency(proof tlog.TreeProof, older Checkpoint) error {
	if c.Origin != older.Origin {
		return fmt.Errorf("%w: checkpoints of two logs, %q and %q", ErrProof, older.Origin, c.Origin)
	}
	if err := tlog.CheckTree(proof, c.Size, c.Root, older.Size, older.Root); err != nil {
		return fmt.Errorf("%w: %s from size %d to %d: %w", ErrProof, c.Origin, older.Size, c.Size, err)
	}
	return nil
}
