package evidence

import (
	"cmp"
	"slices"
)

// checkChains checks the records of each chain alone, as a holder of
// records and keys can see without any tree (EXT-24).
func (v *verifier) checkChains() {
	chains := map[ChainID][]*entry{}
	var order []ChainID
	for e := range v.entries.all() {
		if e.damaged || e.repeated {
			continue
		}
		if chains[e.chain] == nil {
			order = append(order, e.chain)
		}
		chains[e.chain] = append(chains[e.chain], e)
	}
	for _, chain := range order {
		v.checkChain(chains[chain])
	}
}

func (v *verifier) checkChain(chain []*entry) {
	sorted := chain
	if !slices.IsSortedFunc(chain, bySequence) {
		v.checkOrder(chain)
		sorted = slices.Clone(chain)
		slices.SortStableFunc(sorted, bySequence)
	}
	first, last := sorted[0], sorted[len(sorted)-1]
	v.report.Chains = append(v.report.Chains, ChainReport{
		Chain: first.chain.String(), AgentID: first.agent, Recorder: first.recorder, Records: len(sorted), Hash: last.hash.String(),
	})
	length := int64(len(sorted))
	if v.midway {
		length += first.sequence
	}
	v.lengths = append(v.lengths, length)
	v.checkGenesis(first)
	for i, e := range sorted[1:] {
		if e.agent != first.agent || e.recorder != first.recorder {
			v.problem(Stranger, e, "record %q is of agent %q and recorder %q in a chain of %q and %q", e.id, e.agent, e.recorder, first.agent, first.recorder)
		}
		v.checkLink(sorted[:i+1], e)
	}
	v.checkCovered(sorted)
}

// checkCovered looks, from the end of a chain, for the signature that covers a
// record without one: that of the next record that has one, where every hash in
// between stands on the one before, and of the key that the record names.
func (v *verifier) checkCovered(sorted []*entry) {
	signer, next := "", (*entry)(nil)
	for _, e := range slices.Backward(sorted) {
		switch {
		case !e.covered:
			signer = e.key // none where its signature does not hold
		case signer == e.key && next.sequence == e.sequence+1 && next.prev == e.hash:
			v.report.Covered++
		default:
			signer, e.unsigned = "", true
			v.problem(BadSignature, e, "record %q has no signature of its own, and none of a later record of its chain covers it", e.id)
		}
		next = e
	}
}

func bySequence(a, b *entry) int { return cmp.Compare(a.sequence, b.sequence) }

// checkOrder compares the chain as it stands with the chain in order. The later
// of two records with one sequence is a fork and has no place of its own.
func (v *verifier) checkOrder(chain []*entry) {
	seen := map[int64]bool{}
	var standing []*entry
	for _, e := range chain {
		if !seen[e.sequence] {
			seen[e.sequence] = true
			standing = append(standing, e)
		}
	}
	sorted := slices.SortedFunc(slices.Values(standing), bySequence)
	for i, e := range standing {
		if e != sorted[i] {
			v.problem(Swapped, e, "record %q has sequence %d and stands where its chain has %d", e.id, e.sequence, sorted[i].sequence)
		}
	}
}

func (v *verifier) checkGenesis(first *entry) {
	if first.sequence == 0 {
		if first.prev != (Hash{}) {
			v.problem(BrokenLink, first, "record %q is the first of its chain and names a record before it", first.id)
		}
		return
	}
	if v.midway {
		return // what it follows is before all that is here
	}
	if missing := v.unexplained(0, first.line, first.sequence); missing > 0 {
		v.problem(MissingHead, first, "the first %d records of the chain are missing: it begins with sequence %d", missing, first.sequence)
	}
}

// checkLink compares a record with those that have lower or equal sequences.
func (v *verifier) checkLink(earlier []*entry, e *entry) {
	before := earlier[len(earlier)-1]
	switch e.sequence - before.sequence {
	case 0:
		v.problem(Fork, e, "records %q (%s) and %q have one chain and sequence %d: its recorder tells two histories", before.id, v.where(before.line), e.id, e.sequence)
	case 1:
		if !follows(e, earlier) {
			v.problem(BrokenLink, e, "record %q follows a record with hash %s, but %q has hash %s", e.id, e.prev, before.id, before.hash)
		}
	default:
		gap := e.sequence - before.sequence - 1
		if missing := v.unexplained(min(before.line, e.line), max(before.line, e.line), gap); missing > 0 {
			v.problem(MissingMiddle, e, "%d records are missing before %q: sequence %d follows %d", missing, e.id, e.sequence, before.sequence)
		}
	}
}

// follows tells whether the record names one with the sequence before its own,
// of which a fork has several.
func follows(e *entry, earlier []*entry) bool {
	for _, before := range slices.Backward(earlier) {
		if before.sequence != e.sequence-1 {
			return false
		}
		if before.hash == e.prev {
			return true
		}
	}
	return false
}

// unexplained says how many of the records that miss between two lines cannot
// be those on damaged lines there. Each damaged line, which has been reported
// already, explains one.
func (v *verifier) unexplained(after, before int, missing int64) int64 {
	kept := v.excuses[:0:0]
	for _, line := range v.excuses {
		if missing > 0 && after < line && line < before {
			missing--
			continue
		}
		kept = append(kept, line)
	}
	v.excuses = kept
	v.gaps += missing
	return missing
}
