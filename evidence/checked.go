package evidence

import (
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// Checked remembers the records whose own signature held under one [Trust], so
// that a long bundle is not begun anew after an interruption, nor a later one of
// the same log. It remembers signatures and never verdicts: hashes, chains and
// the tree are checked every time. A record is known by its leaf, which holds its
// hash and that of its signature; its key is among the hashed members. Anyone who can write
// to where it is kept can have a signature passed over.
type Checked struct {
	found func(leaf tlog.Hash)

	mu    sync.RWMutex // guards known, which several look at
	known map[tlog.Hash]struct{}
}

// NewChecked returns a memory of checked signatures. The function is told of every
// further record whose signature held, once; the caller keeps it for the next
// time, with what identifies the trust.
func NewChecked(found func(leaf tlog.Hash), known ...tlog.Hash) *Checked {
	c := &Checked{known: make(map[tlog.Hash]struct{}, len(known)), found: found}
	for _, leaf := range known {
		c.known[leaf] = struct{}{}
	}
	return c
}

// holds reports whether a signature is known to hold. A nil c knows nothing.
func (c *Checked) holds(leaf tlog.Hash) bool {
	if c == nil {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.known[leaf]
	return ok
}

// note remembers that a signature held, and tells of it once.
func (c *Checked) note(leaf tlog.Hash) {
	if c == nil || c.holds(leaf) {
		return
	}
	c.mu.Lock()
	c.known[leaf] = struct{}{}
	c.mu.Unlock()
	c.found(leaf)
}
