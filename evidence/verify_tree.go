package evidence

import (
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// checkTree compares what was read with what the checkpoint signs.
func (v *verifier) checkTree(checkpoint Checkpoint) {
	v.report.Size = checkpoint.Size
	v.report.Root = checkpoint.Root.String()
	v.line = v.ended
	if checkpoint.Origin != v.report.Origin {
		v.problem(Malformed, nil, "the checkpoint is of log %q, the header of %q", checkpoint.Origin, v.report.Origin)
	}
	tree := treeOf(v.leaves)
	switch {
	case int64(len(v.leaves)) < checkpoint.Size:
		v.problem(MissingTail, nil, "the checkpoint covers %d entries, the bundle lists %d", checkpoint.Size, len(v.leaves))
	case int64(len(v.leaves)) > checkpoint.Size || tree.root(checkpoint.Size) != checkpoint.Root:
		v.problem(RootMismatch, nil, "the listed entries are not those of the checkpoint; by itself, the root of the records %s", v.rootOfRecords(checkpoint))
	default:
		v.compare()
	}
	for _, seen := range v.seen {
		v.checkSeen(checkpoint, seen, tree)
	}
}

// rootOfRecords tells whether the list or the records were changed.
func (v *verifier) rootOfRecords(checkpoint Checkpoint) string {
	var leaves []tlog.Hash
	for _, e := range v.entries {
		leaves = append(leaves, e.leaf)
	}
	if int64(len(leaves)) == checkpoint.Size && treeOf(leaves).root(checkpoint.Size) == checkpoint.Root {
		return "agrees with the checkpoint, so the list was changed"
	}
	return "does not agree with the checkpoint either"
}

// checkSeen holds the bundle against a checkpoint that the verifier has kept. A
// log only grows (ATK-43), and for everybody alike (ATK-44).
func (v *verifier) checkSeen(checkpoint, seen Checkpoint, tree memoryTree) {
	switch {
	case seen.Origin != checkpoint.Origin:
		return
	case seen.Size > checkpoint.Size:
		v.problem(MissingTail, nil, "a checkpoint of %d entries was seen before, this one covers %d: the log was cut back", seen.Size, checkpoint.Size)
	case seen.Size <= tree.size && tree.root(seen.Size) != seen.Root:
		v.problem(Fork, nil, "the first %d entries are not those of a checkpoint that was seen before: the log was rewritten, or shows different histories", seen.Size)
	}
}

// compare holds every record against the listed entries, which the checkpoint
// has signed. Swapped, replaced and missing records are told apart here even
// when every chain by itself looks whole.
func (v *verifier) compare() {
	places := make(map[tlog.Hash]int, len(v.leaves))
	for place, leaf := range v.leaves {
		places[leaf] = place
	}
	var found []int
	var holders []*entry
	strangers := 0
	for i := range v.entries {
		e := &v.entries[i]
		place, ok := places[e.leaf]
		switch {
		case e.repeated:
		case ok:
			found, holders = append(found, place), append(holders, e)
		default:
			strangers++
			if !e.damaged && !e.unsigned {
				v.problem(NotInLog, e, "record %q is not in the log that the checkpoint covers: it was added, replaced or signed again", e.id)
			}
		}
	}
	sorted := slices.Sorted(slices.Values(found))
	for i, place := range found {
		if place != sorted[i] {
			v.problem(Swapped, holders[i], "record %q is entry %d of the log and stands in the place of entry %d", holders[i].id, place, sorted[i])
		}
	}
	v.checkMissing(sorted, strangers)
}

// checkMissing names entries without a record that no gap of a chain and no
// damaged line explains: they stood at the end of a chain, or were all of it.
func (v *verifier) checkMissing(found []int, strangers int) {
	absent := len(v.leaves) - len(slices.Compact(found))
	tail := int64(absent-strangers-v.unreadable) - v.gaps
	if tail <= 0 {
		return
	}
	place := 0
	for place < len(found) && found[place] == place {
		place++
	}
	v.problem(MissingTail, nil, "%d records from the end of a chain, or a whole chain, are missing; the first log entry without a record is %d", tail, place)
}

// memoryTree is a whole tree, made from its leaf hashes.
type memoryTree struct {
	stored Hashes
	size   int64
}

func treeOf(leaves []tlog.Hash) memoryTree {
	var tree memoryTree
	for _, leaf := range leaves {
		// Reading from memory what was put there cannot fail.
		added, _ := tlog.StoredHashesForRecordHash(tree.size, leaf, tree.stored)
		tree.stored = append(tree.stored, added...)
		tree.size++
	}
	return tree
}

// root returns the root of the first size entries, which the tree must have.
func (t memoryTree) root(size int64) tlog.Hash {
	root, _ := tlog.TreeHash(size, t.stored)
	return root
}
