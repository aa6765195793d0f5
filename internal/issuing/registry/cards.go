package registry

import (
	"crypto/sha256"
	"sync"

	"github.com/powerbox-project/powerbox/agentcard"
)

// CardReader reads cards, and remembers what it has read: a page about all agents reads the card of
// each, and cards seldom change. The zero CardReader can be used, by many goroutines.
type CardReader struct {
	mu    sync.Mutex // guards the fields below
	known map[[sha256.Size]byte]read
	size  int
}

// read is a card that was read.
type read struct {
	card agentcard.Card
	err  error
}

// maxKnownCards is the size in bytes of the cards that are remembered. Beyond it all are
// forgotten, and read again.
const maxKnownCards = 8 << 20

// Parse is [agentcard.Parse].
func (c *CardReader) Parse(raw []byte) (agentcard.Card, error) {
	sum := sha256.Sum256(raw)
	c.mu.Lock()
	r, ok := c.known[sum]
	c.mu.Unlock()
	if ok {
		return r.card, r.err
	}
	r.card, r.err = agentcard.Parse(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(raw); c.known == nil || c.size > maxKnownCards {
		c.known, c.size = map[[sha256.Size]byte]read{}, len(raw)
	}
	c.known[sum] = r
	return r.card, r.err
}
