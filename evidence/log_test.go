package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

func TestEXT35_ALeafIsFixedAndBodyFree(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	chain := ChainID{0xc1, 0xc2}
	sealed, err := Seal(Head{ChainID: chain, Sequence: 0x0102, Hash: Hash{0xaa}}, fullRecord(), signer)
	must(t, err)
	hash, signature := sealed.Hash(), sha256.Sum256(sealed.signature)
	want := "powerbox-evidence/v1\n" + "\xc1\xc2" + string(make([]byte, 14)) + "\x00\x00\x00\x00\x00\x00\x01\x02" +
		"\xaa" + string(make([]byte, 31)) + string(hash[:]) + string(signature[:])
	if got := Leaf(sealed); string(got) != want {
		t.Errorf("leaf %x, want %x", got, want)
	}
}

// TestEXT35_AnotherImplementationComputesTheSameTree holds Grow, the proofs and
// the checks of this package against transparency-dev/merkle (ATK-44).
func TestEXT35_AnotherImplementationComputesTheSameTree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(r, "leaves")
		cut := rapid.IntRange(0, n).Draw(r, "first batch")
		var leaves [][]byte
		for i := range n {
			leaves = append(leaves, fmt.Appendf(nil, "leaf %d", i))
		}
		stored, size, oldRoot, err := Grow(0, Hashes{}, leaves[:cut])
		must(t, err)
		hashes := Hashes(stored)
		stored, size, root, err := Grow(size, hashes, leaves[cut:])
		must(t, err)
		hashes = append(hashes, stored...)
		whole, _, wholeRoot, err := Grow(0, Hashes{}, leaves)
		must(t, err)
		if wholeRoot != root || len(whole) != len(hashes) {
			r.Fatalf("two batches give root %v, one gives %v", root, wholeRoot)
		}
		checkpoint := Checkpoint{Origin: testOrigin, Size: size, Root: root}
		index := rapid.Int64Range(0, size-1).Draw(r, "index")
		inclusion, err := tlog.ProveRecord(size, index, hashes)
		must(t, err)
		must(t, checkpoint.CheckInclusion(inclusion, index, leaves[index]))
		leafHash := rfc6962.DefaultHasher.HashLeaf(leaves[index])
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size), leafHash, bytesOf(inclusion), root[:]); err != nil {
			r.Fatal(err)
		}
		if err := checkpoint.CheckInclusion(inclusion, index, []byte("another")); !errors.Is(err, ErrProof) {
			r.Fatalf("another leaf: %v", err)
		}
		if cut == 0 {
			return
		}
		older := Checkpoint{Origin: testOrigin, Size: int64(cut), Root: oldRoot}
		consistency, err := tlog.ProveTree(size, older.Size, hashes)
		must(t, err)
		must(t, checkpoint.CheckConsistency(consistency, older))
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(cut), uint64(size), bytesOf(consistency), oldRoot[:], root[:]); err != nil {
			r.Fatal(err)
		}
		older.Root[0] ^= 1
		if err := checkpoint.CheckConsistency(consistency, older); !errors.Is(err, ErrProof) {
			r.Fatalf("another history: %v", err)
		}
	})
}

func bytesOf(hashes []tlog.Hash) [][]byte {
	var list [][]byte
	for _, hash := range hashes {
		list = append(list, bytes.Clone(hash[:]))
	}
	return list
}

func TestEXT35_CheckpointsOfTwoLogsAreNotCompared(t *testing.T) {
	err := Checkpoint{Origin: "a", Size: 1}.CheckConsistency(nil, Checkpoint{Origin: "b", Size: 1})
	if !errors.Is(err, ErrProof) {
		t.Error(err)
	}
}

func TestATK44_TheEmptyTreeAndOneLeafHaveTheRootsOfRFC6962(t *testing.T) {
	_, _, empty, err := Grow(0, Hashes{}, nil)
	must(t, err)
	if want := sha256.Sum256(nil); empty != tlog.Hash(want) {
		t.Errorf("empty root %x", empty)
	}
	_, _, one, err := Grow(0, Hashes{}, [][]byte{{}})
	must(t, err)
	// RFC 6962 test vector: SHA-256 of one zero byte.
	if want := "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"; hex.EncodeToString(one[:]) != want {
		t.Errorf("root of one empty leaf %x", one)
	}
}

func TestGrowReportsAStoreThatDoesNotAnswer(t *testing.T) {
	_, _, _, err := Grow(-1, Hashes{}, nil)
	wantError(t, err, "size -1")
	_, _, _, err = Grow(1, Hashes{}, [][]byte{{}})
	wantError(t, err, "growing the tree at 1: evidence: stored hash 0 of 0")
	_, _, _, err = Grow(1, Hashes{}, nil)
	wantError(t, err, "root of the tree of 1")
	short := tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return nil, nil })
	_, _, _, err = Grow(1, short, nil)
	wantError(t, err, "0 stored hashes read, 1 asked for")
}
