package evidence

import (
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// checkTrees compares the records with the signed checkpoints.
func (v *verifier) checkTrees() {
	whole := true
	var last *Checkpoint
	for n, p := range v.parts {
		if n > 0 {
			v.checkFrom(v.parts[n-1], p)
		}
		if p.ended == 0 {
			v.line = p.last
			v.problem(MissingTail, nil, "the bundle ends without a checkpoint: whatever stood behind is cut off")
		}
		if last = p.checkpoint; last == nil || !v.checkTree(p) {
			whole = false
		}
	}
	if v.midway {
		v.checkBegins(v.parts[0])
	}
	if whole {
		v.compare()
	}
	if last != nil {
		v.checkAllSeen(*last)
	}
}

// checkTree reports whether the listed entries of a bundle are those of its
// checkpoint.
func (v *verifier) checkTree(p *part) bool {
	checkpoint := *p.checkpoint
	v.report.Size = checkpoint.Size
	v.report.Root = checkpoint.Root.String()
	v.line = p.ended
	if checkpoint.Origin != v.report.Origin {
		v.problem(Malformed, nil, "the checkpoint is of log %q, the header of %q", checkpoint.Origin, v.report.Origin)
	}
	p.begins = p.begins.grown(p.leaves)
	switch {
	case p.begins.size < checkpoint.Size:
		v.problem(MissingTail, nil, "the checkpoint covers %d entries, the bundle lists %d", checkpoint.Size, p.begins.size)
	case p.begins.size > checkpoint.Size || p.begins.root(checkpoint.Size) != checkpoint.Root:
		v.problem(RootMismatch, nil, "the listed entries are not those of the checkpoint; by itself, the root of the records %s", v.rootOfRecords(p))
	default:
		return true
	}
	return false
}

// rootOfRecords tells whether the list or the records were changed.
func (v *verifier) rootOfRecords(p *part) string {
	tree := p.begins
	tree.stored, tree.size = nil, tree.base
	var leaves []tlog.Hash
	for e := range v.entries.all() {
		if e.line > p.before && e.line <= p.last {
			leaves = append(leaves, e.leaf)
		}
	}
	if tree = tree.grown(leaves); tree.size == p.checkpoint.Size && tree.root(tree.size) == p.checkpoint.Root {
		return "agrees with the checkpoint, so the list was changed"
	}
	return "does not agree with the checkpoint either"
}

// checkAllSeen holds the series against checkpoints that the verifier has kept. A
// log only grows (ATK-43), and for everybody alike (ATK-44).
func (v *verifier) checkAllSeen(last Checkpoint) {
	v.line = v.this().ended
	for _, seen := range v.seen {
		switch {
		case seen.Origin != last.Origin:
		case seen.Size > last.Size:
			v.problem(MissingTail, nil, "a checkpoint of %d entries was seen before, this one covers %d: the log was cut back", seen.Size, last.Size)
		case seen.Size < v.parts[0].begins.base:
			v.problem(MissingHead, nil, "a checkpoint of %d entries was seen before, and what is here begins behind %d: verify it with the bundles before it", seen.Size, v.parts[0].begins.base)
		default:
			v.checkSeen(seen)
		}
	}
}

// checkSeen takes the bundle in which a checkpoint that was seen before ends.
func (v *verifier) checkSeen(seen Checkpoint) {
	for _, p := range v.parts {
		if seen.Size < p.begins.base || seen.Size > p.begins.size {
			continue
		}
		if p.begins.root(seen.Size) != seen.Root {
			v.problem(Fork, nil, "the first %d entries are not those of a checkpoint that was seen before: the log was rewritten, or shows different histories", seen.Size)
		}
		return
	}
}

// compare holds every record against the listed entries, which the checkpoint
// has signed. Swapped, replaced and missing records are told apart here even
// when every single chain looks whole.
func (v *verifier) compare() {
	if v.inOrder() {
		return
	}
	places := map[tlog.Hash]int{}
	for _, p := range v.parts {
		for i, leaf := range p.leaves {
			places[leaf] = int(p.begins.base) + i
		}
	}
	var found []int
	var holders []*entry
	strangers := 0
	for e := range v.entries.all() {
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

// inOrder reports whether the records are exactly the listed entries, one by one: then there is
// nothing to compare. Every unchanged bundle passes here.
func (v *verifier) inOrder() bool {
	n, first := 0, int(v.parts[0].begins.base)
	for _, p := range v.parts {
		if int(p.begins.base) != first+n {
			return false
		}
		for _, leaf := range p.leaves {
			if n >= v.entries.len() || v.entries.at(n).leaf != leaf || v.entries.at(n).repeated {
				return false
			}
			n++
		}
	}
	return n == v.entries.len()
}

// checkMissing names entries without a record that no gap of a chain and no
// damaged line explains: they stood at the end of a chain, or were all of it.
func (v *verifier) checkMissing(found []int, strangers int) {
	first, listed := int(v.parts[0].begins.base), 0
	for _, p := range v.parts {
		listed += len(p.leaves)
	}
	absent := listed - len(slices.Compact(found))
	tail := int64(absent-strangers-v.unreadable) - v.gaps
	if tail <= 0 {
		return
	}
	place := first
	for place-first < len(found) && found[place-first] == place {
		place++
	}
	v.line = v.this().ended
	v.problem(MissingTail, nil, "%d records from the end of a chain, or a whole chain, are missing; the first log entry without a record is %d", tail, place)
}
