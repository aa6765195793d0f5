package evidence

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Edge returns the places, in the order of tlog.StoredHashIndex, of the roots of
// the whole subtrees that a tree of this size is made of, smallest first. A tree
// grows from them, and whatever is behind it can be checked with them.
func Edge(size int64) []int64 {
	var places []int64
	for ; size > 0; size &= size - 1 {
		level := bits.TrailingZeros64(uint64(size))
		places = append(places, tlog.StoredHashIndex(level, size>>level-1))
	}
	return places
}

// fromLine is the part of a header of a bundle that begins behind another one:
// how many entries are before it, and the hashes at the edge of their tree.
type fromLine struct {
	Hashes string `json:"hashes"` // base64
	Size   int64  `json:"size"`
}

func readFrom(size int64, hashes tlog.HashReader) (*fromLine, error) {
	if size == 0 {
		return nil, nil
	}
	read, err := hashes.ReadHashes(Edge(size))
	if err != nil {
		return nil, fmt.Errorf("evidence: the tree of %d entries before the bundle: %w", size, err)
	}
	var all []byte
	for _, hash := range read {
		all = append(all, hash[:]...)
	}
	return &fromLine{base64.StdEncoding.EncodeToString(all), size}, nil
}

// tree returns the tree that the bundle begins behind: the empty one for nil.
func (f *fromLine) tree() (memoryTree, error) {
	if f == nil {
		return memoryTree{}, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(f.Hashes)
	if err != nil || strings.ContainsAny(f.Hashes, "\r\n") || f.Size < 1 || f.Size > maxInteger || len(data) != tlog.HashSize*bits.OnesCount64(uint64(f.Size)) {
		return memoryTree{}, errors.New("from: a number of entries and the hashes at the edge of their tree expected")
	}
	tree := memoryTree{base: f.Size, size: f.Size, edge: map[int64]tlog.Hash{}}
	for i, place := range Edge(f.Size) {
		tree.edge[place] = tlog.Hash(data[tlog.HashSize*i:])
	}
	return tree, nil
}

// memoryTree is a tree in memory: whole, or the part behind its first entries.
type memoryTree struct {
	base   int64               // entries of which only the edge is known
	edge   map[int64]tlog.Hash // by place
	stored Hashes              // from the first place behind base
	size   int64
}

// ReadHashes implements tlog.HashReader.
func (t *memoryTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	first, hashes := tlog.StoredHashCount(t.base), make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < first {
			hashes[i] = t.edge[index]
			continue
		}
		hashes[i] = t.stored[index-first]
	}
	return hashes, nil
}

// grown returns the tree with more leaves.
func (t memoryTree) grown(leaves []tlog.Hash) memoryTree {
	for _, leaf := range leaves {
		// Reading from memory cannot fail.
		added, _ := tlog.StoredHashesForRecordHash(t.size, leaf, &t)
		t.stored = append(t.stored, added...)
		t.size++
	}
	return t
}

// root returns the root of the first size entries, which the tree must have, and
// not fewer than its base.
func (t memoryTree) root(size int64) tlog.Hash {
	root, _ := tlog.TreeHash(size, &t)
	return root
}

// part is one bundle of a series.
type part struct {
	before     int // line before its first one
	last       int // line behind its last one, or the one at which reading it ended
	begins     memoryTree
	headed     bool // its header could be read
	leaves     []tlog.Hash
	checkpoint *Checkpoint
	ended      int // line of the checkpoint, 0 before it
}

// VerifySeries is [Verify] for several bundles of one log, each of which begins
// where the one before ends: closed periods, oldest first, and the records behind them.
// What the first one begins behind need not be there, if a checkpoint that ends
// there has been seen before ([Trust.Seen]).
func VerifySeries(trust Trust, bundles ...io.Reader) (Report, error) {
	v, err := newVerifier(trust, len(bundles))
	if err != nil {
		return Report{}, err
	}
	for _, r := range bundles {
		if err := v.readBundle(r); err != nil {
			return Report{}, err
		}
	}
	v.finish()
	return v.report, nil
}

// begin is the next bundle of the series. It returns the line before its first one.
func (v *verifier) begin() int {
	v.parts = append(v.parts, &part{before: v.line})
	return v.line
}

// this is the bundle that is being read.
func (v *verifier) this() *part { return v.parts[len(v.parts)-1] }

// place says where a line is: in which bundle of several, from 1, and which line
// of it.
func (v *verifier) place(line int) (bundle, number int) {
	bundle = len(v.parts)
	for bundle > 1 && line <= v.parts[bundle-1].before {
		bundle--
	}
	number = line - v.parts[bundle-1].before
	if v.series == 1 {
		bundle = 0
	}
	return bundle, number
}

// where names a line for a person.
func (v *verifier) where(line int) string {
	bundle, number := v.place(line)
	if bundle == 0 {
		return fmt.Sprintf("line %d", number)
	}
	return fmt.Sprintf("line %d of bundle %d", number, bundle)
}

// checkFrom holds where a bundle begins against where the one before ends.
func (v *verifier) checkFrom(before, p *part) {
	if before.checkpoint == nil || !p.headed {
		return
	}
	v.line = p.before + 1
	ends, begins := *before.checkpoint, p.begins.base
	switch {
	case begins > ends.Size:
		v.problem(MissingPeriod, nil, "the bundle begins at entry %d, the one before it ends at %d: what is between them is missing", begins, ends.Size)
	case begins < ends.Size:
		v.problem(Swapped, nil, "the bundle begins at entry %d, the one before it ends at %d: they overlap, or are not in their order", begins, ends.Size)
	case p.begins.root(begins) != ends.Root:
		v.problem(Fork, nil, "the bundle begins behind another history than that of the bundle before it: their first %d entries differ", begins)
	}
}

// checkBegins wants to know what the series begins behind: a checkpoint that was
// kept ends there. Otherwise who exports could leave the beginning out.
func (v *verifier) checkBegins(p *part) {
	ends := func(c Checkpoint) bool { return c.Size == p.begins.base && c.Origin == v.report.Origin }
	if !slices.ContainsFunc(v.seen, ends) {
		v.line = p.before + 1
		v.problem(MissingHead, nil, "the bundle begins behind %d entries that are not here: verify it with the bundles before it, or under the checkpoint that the last of them ended in", p.begins.base)
	}
}

// FromReport is where a series begins.
type FromReport struct {
	Size int64  `json:"size"` // entries that are before it, and not here
	Root string `json:"root"` // of their tree, base64
}
