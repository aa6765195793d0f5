package token

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/eddsa"
)

// Memo remembers chains whose signatures have been verified, and every prefix
// of them, so that a chain seen before costs no signature and a new token on a
// known prefix costs one. It holds verified signatures, never a
// verdict: time and revocation are checked on every call (ATK-23). A refused
// chain is not remembered. A chain is known by all its bytes and by the key
// set under which it was verified, so that a token is never taken for verified
// under another parent or another issuer.
//
// A Memo is safe for use by several goroutines. [NewMemo] makes one.
type Memo struct {
	seed   maphash.Seed
	budget int // bytes that one generation may cost

	mu    sync.RWMutex
	used  int
	young map[uint64]memory
	old   map[uint64]memory
	// The keys of the holders in these chains. A key outlives the generation of a chain
	// as long as it occurs in new ones.
	youngKeys map[PublicKey]signer
	oldKeys   map[PublicKey]signer
}

// signer holds the work that is done once for the key of a holder that signs one chain after
// another.
type signer struct {
	again *eddsa.Key // nil for other algorithms
	name  string
}

// memory is one verified prefix.
type memory struct {
	fingerprint [32]byte
	chain       *chain
}

// A parsed token costs about this many times its bytes, and at least this
// much; a key costs signerCost.
const (
	memoryFactor = 6
	memoryBase   = 3 << 10
	signerCost   = 2 << 10
)

// NewMemo returns a memo that uses about that many bytes. It forgets the oldest
// half when it is full.
func NewMemo(bytes int) *Memo {
	return &Memo{seed: maphash.MakeSeed(), budget: bytes / 2, young: map[uint64]memory{}, youngKeys: map[PublicKey]signer{}}
}

// Verify does what [ParseChain] and [Unverified.Verify] do for a chain in the
// form of [JoinChain], without repeating a signature check that it remembers.
// A chain that it knows whole costs no allocation.
func (m *Memo) Verify(chain string, anchors KeySet, o Options) (Verified, error) {
	if len(chain) > MaxChainBytes+MaxDepth {
		return Verified{}, refuse(CodeTooLarge, "the chain has more than %d bytes", MaxChainBytes)
	}
	// What has no form is not even hashed.
	if len(chain) > MaxTokenBytes {
		if err := checkForm(nil, SplitChain(chain)); err != nil {
			return Verified{}, err
		}
	}
	sum := m.hash(chain, &anchors)
	if c, ok := m.recall(sum, chain, &anchors); ok {
		if err := c.admit(o); err != nil {
			return Verified{}, err
		}
		if err := c.checkRevocation(o.Revoked); err != nil {
			return Verified{}, err
		}
		return Verified{c}, nil
	}
	tokens := SplitChain(chain)
	if err := checkForm(nil, tokens); err != nil {
		return Verified{}, err
	}
	known := m.longestPrefix(chain, tokens, &anchors)
	links, err := extend(known, tokens[len(known):], o.Operation, m.know)
	if err != nil {
		return Verified{}, err
	}
	v, err := complete(links, len(known), &anchors, o)
	if err == nil {
		m.remember(sum, chain, &anchors, v.chain, len(known))
	}
	return v, err
}

// longestPrefix returns the links of the longest chain that m knows and that
// tokens, which are those of the chain, continue.
func (m *Memo) longestPrefix(chain string, tokens []string, anchors *KeySet) []*link {
	for i := len(tokens) - 1; i > 0; i-- {
		chain = chain[:len(chain)-len(tokens[i])-1]
		if c, ok := m.recall(m.hash(chain, anchors), chain, anchors); ok {
			return c.links
		}
	}
	return nil
}

// hash finds the place of a chain. The end of a chain is a signature, which
// tells chains apart as well as all their bytes do; those are compared anyway.
func (m *Memo) hash(bytes string, anchors *KeySet) uint64 {
	const tail = 64
	end := maphash.String(m.seed, bytes[max(0, len(bytes)-tail):])
	return end ^ uint64(len(bytes)) ^ binary.LittleEndian.Uint64(anchors.fingerprint[:])
}

// recall returns the chain of those very bytes, whose hash is sum, verified
// under that very key set.
func (m *Memo) recall(sum uint64, bytes string, anchors *KeySet) (*chain, bool) {
	m.mu.RLock()
	known, young := m.young[sum]
	if !young {
		known = m.old[sum]
	}
	m.mu.RUnlock()
	if known.chain == nil || known.fingerprint != anchors.fingerprint || !known.chain.is(bytes) {
		return nil, false
	}
	if !young {
		m.mu.Lock()
		m.add(sum, len(bytes), known)
		m.mu.Unlock()
	}
	return known.chain, true
}

// know gives l what m remembers of its holder's key. It puts nothing into m: the
// chain of l is not verified yet.
func (m *Memo) know(l *link) {
	m.mu.RLock()
	k, ok := m.youngKeys[l.holder]
	if !ok {
		k = m.oldKeys[l.holder]
	}
	m.mu.RUnlock()
	l.again, l.name = k.again, k.name
}

// own makes the text of l its own, so that the memo keeps no header
// alive, and keeps its key and that one's name. No other goroutine has l yet.
func (l *link) own() {
	if l.name == "" {
		l.again, l.name = l.holder.Keep().again, keyName(l.holder)
	}
	l.compact = strings.Clone(l.compact)
	l.signed = l.compact[:len(l.signed)]
}

// keepKeys remembers the keys of the holders in c, which is verified. Of the links of c
// as many as known says are shared with other chains and stay as they are.
func (m *Memo) keepKeys(c *chain, known int) {
	for i, l := range c.links {
		k, ok := m.youngKeys[l.holder]
		if ok && i >= known {
			l.again = k.again
		}
		if !ok && m.spend(signerCost) {
			m.youngKeys[l.holder] = signer{l.again, l.name}
		}
	}
}

// is reports whether bytes are the tokens of c joined by commas.
func (c *chain) is(bytes string) bool {
	ok := true
	for i, l := range c.links {
		if i > 0 && ok {
			bytes, ok = strings.CutPrefix(bytes, ",")
		}
		if ok {
			bytes, ok = strings.CutPrefix(bytes, l.compact)
		}
	}
	return ok && bytes == ""
}

// remember keeps c, whose bytes have the hash sum, and its prefixes of more
// than known tokens, as far as each could be presented itself.
func (m *Memo) remember(sum uint64, bytes string, anchors *KeySet, c *chain, known int) {
	for _, l := range c.links[known:] {
		l.own()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepKeys(c, known)
	m.add(sum, len(bytes), memory{anchors.fingerprint, c})
	for n := len(c.links) - 1; n > known; n-- {
		bytes = bytes[:len(bytes)-len(c.links[n].compact)-1]
		prefix := newChain(c.links[:n])
		if !prefix.leaf().hasEntry {
			continue
		}
		m.add(m.hash(bytes, anchors), len(bytes), memory{anchors.fingerprint, prefix})
	}
}

// add remembers a chain of that many bytes.
func (m *Memo) add(sum uint64, bytes int, known memory) {
	if _, ok := m.young[sum]; !ok && m.spend(memoryBase+memoryFactor*bytes) {
		m.young[sum] = known
	}
}

// spend makes room for that cost by forgetting the old generation. It
// reports false for a cost beyond the whole budget.
func (m *Memo) spend(cost int) bool {
	if cost > m.budget {
		return false
	}
	if m.used += cost; m.used > m.budget {
		m.old, m.young, m.used = m.young, map[uint64]memory{}, cost
		m.oldKeys, m.youngKeys = m.youngKeys, map[PublicKey]signer{}
	}
	return true
}
