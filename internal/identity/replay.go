package identity

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/steady"
)

// verdict is what [replays] says about a proof.
type verdict int

const (
	fresh verdict = iota
	used
	full
)

// replays remembers proofs for single use, in two generations: each proof for
// at least the period and at most twice as long, with no timer and no search.
type replays struct {
	period   time.Duration
	capacity int
	clock    steady.Clock

	mu        sync.Mutex
	began     time.Time // of the current generation
	now, past map[[sha256.Size]byte]struct{}
}

func newReplays(period time.Duration, capacity int) *replays {
	return &replays{period: period, capacity: capacity, now: make(map[[sha256.Size]byte]struct{})}
}

// use records one proof of a key, and says whether it was used before. When
// the memory is full every proof is refused: forgetting one would let it be
// used again.
func (r *replays) use(thumbprint, id string, at time.Time) verdict {
	// The thumbprint has a fixed length, so that the pair is unambiguous.
	key := sha256.Sum256([]byte(thumbprint + " " + id))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(r.clock.Past(at))
	if _, ok := r.now[key]; ok {
		return used
	}
	if _, ok := r.past[key]; ok {
		return used
	}
	if len(r.now)+len(r.past) >= r.capacity {
		return full
	}
	r.now[key] = struct{}{}
	return fresh
}

// turn begins a new generation when the current one has lasted its period. A
// clock that was set back leaves the generation as it is.
func (r *replays) turn(at time.Time) {
	switch age := at.Sub(r.began); {
	case age < r.period:
		return
	case age < 2*r.period:
		r.past = r.now
	default:
		r.past = nil
	}
	r.now, r.began = make(map[[sha256.Size]byte]struct{}), at
}

// Proofs are the proofs that an [Authenticator] remembers, as hashes, for a start after
// this one.
type Proofs struct {
	Sessions  [][]byte `json:"sessions,omitempty"`
	Strangers [][]byte `json:"strangers,omitempty"`
}

// Used returns the used proofs, which cannot be used again.
func (a *Authenticator) Used() Proofs { return Proofs{a.sessions.all(), a.strangers.all()} }

// Restore adds proofs that were used before a restart, as if they had been used at a
// time. It is called before the first request.
func (a *Authenticator) Restore(p Proofs, at time.Time) error {
	return errors.Join(a.sessions.restore(p.Sessions, at), a.strangers.restore(p.Strangers, at))
}

func (r *replays) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out [][]byte
	for _, generation := range []map[[sha256.Size]byte]struct{}{r.past, r.now} {
		for key := range generation {
			out = append(out, bytes.Clone(key[:]))
		}
	}
	return out
}

func (r *replays) restore(keys [][]byte, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	past := r.clock.Past(at)
	r.turn(past)
	for _, key := range keys {
		if len(key) != sha256.Size {
			return fmt.Errorf("identity: a used proof has %d bytes; want %d", len(key), sha256.Size)
		}
		r.now[[sha256.Size]byte(key)] = struct{}{}
	}
	return nil
}
