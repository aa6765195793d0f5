package issuer

import "sync"

// knownLimit bounds how many capabilities are kept in memory.
const knownLimit = 1 << 14

// known keeps capabilities that were looked up. It forgets all of them when it
// is full: later look-ups read the store again.
type known struct {
	mu  sync.RWMutex
	all map[string]Capability
}

func (k *known) get(id string) (Capability, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok := k.all[id]
	return c, ok
}

func (k *known) put(c Capability) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= knownLimit {
		k.all = map[string]Capability{}
	}
	k.all[c.ID] = c
}
