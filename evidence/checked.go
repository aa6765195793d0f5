package evidence

import "golang.org/x/mod/sumdb/tlog"

// Checked remembers the records whose own signature held under one [Trust], so
// that a long bundle is not begun anew after an interruption, nor a later one of
// the same log. It remembers signatures and never verdicts: hashes, chains and
// the tree are checked every time. A record is known by its leaf, which holds its
// hash and that of its signature; its key is in what was hashed. Whoever can write
// to where it is kept can have a signature passed over.
type Checked struct {
	known map[tlog.Hash]struct{}
	found func(leaf tlog.Hash)
}

// NewChecked returns a memory of what is known. The function is told of every
// further record whose signature held, once; the caller keeps it for the next
// time, with what identifies the trust.
func NewChecked(found func(leaf tlog.Hash), known ...tlog.Hash) *Checked {
	c := &Checked{known: make(map[tlog.Hash]struct{}, len(known)), found: found}
	for _, leaf := range known {
		c.known[leaf] = struct{}{}
	}
	return c
}

// signature is [Sealed.CheckSignature] of a record whose hash holds, unless that
// is known to hold. A nil c knows nothing.
func (c *Checked) signature(s Sealed, leaf tlog.Hash, key Key) error {
	if c == nil {
		return s.CheckSignature(key)
	}
	if _, ok := c.known[leaf]; ok {
		return nil
	}
	err := s.CheckSignature(key)
	if err == nil {
		c.known[leaf] = struct{}{}
		c.found(leaf)
	}
	return err
}
