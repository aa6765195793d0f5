package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// maxHeld bounds what a wallet keeps of one agent, and of how many agents.
// Others hand things over; they must not fill the memory.
const maxHeld = 64

// errFull says that a wallet takes no more.
var errFull = fmt.Errorf("holder: the wallet is full; want at most %d capabilities of %d agents each", maxHeld, maxHeld)

// Wallet keeps the capabilities of one holder for one task, by agent. One for
// all tasks would let the words of one task use the capabilities of another. It
// is safe for use by several goroutines. The zero Wallet receives nothing;
// [NewWallet] makes one that does.
type Wallet struct {
	holder token.PublicKey

	mu   sync.Mutex
	held map[string][]Capability // by issuer; newest last
}

// NewWallet returns an empty wallet for the holder of a key.
func NewWallet(holder token.PublicKey) *Wallet {
	return &Wallet{holder: holder, held: map[string][]Capability{}}
}

// Add puts capabilities in, at the end. A full wallet takes none of them.
func (w *Wallet) Add(capabilities ...Capability) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := map[string]int{}
	for _, c := range capabilities {
		added[c.Agent]++
	}
	agents := len(w.held)
	for agent, n := range added {
		if _, known := w.held[agent]; !known {
			agents++
		}
		if len(w.held[agent])+n > maxHeld {
			return errFull
		}
	}
	if agents > maxHeld {
		return errFull
	}
	if w.held == nil {
		w.held = map[string][]Capability{}
	}
	for _, c := range capabilities {
		w.held[c.Agent] = append(w.held[c.Agent], c)
	}
	return nil
}

// Forget drops what has expired, for a wallet that is kept for long: it counts
// against what the wallet takes.
func (w *Wallet) Forget(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for agent, all := range w.held {
		left := slices.DeleteFunc(all, func(c Capability) bool { return !now.Before(c.Expires) })
		if w.held[agent] = left; len(left) == 0 {
			delete(w.held, agent)
		}
	}
}

// Of returns the unexpired capabilities of the agent with that public URL,
// newest last.
func (w *Wallet) Of(agent string, now time.Time) []Capability {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Capability
	for _, c := range w.held[agent] {
		if now.Before(c.Expires) {
			out = append(out, c)
		}
	}
	return out
}

// All returns the unexpired capabilities of every agent.
func (w *Wallet) All(now time.Time) []Capability {
	w.mu.Lock()
	agents := slices.Sorted(maps.Keys(w.held))
	w.mu.Unlock()
	var out []Capability
	for _, agent := range agents {
		out = append(out, w.Of(agent, now)...)
	}
	return out
}

// Expires returns when the last held capability ends; zero for an empty wallet.
func (w *Wallet) Expires() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var last time.Time
	for _, all := range w.held {
		for _, c := range all {
			if c.Expires.After(last) {
				last = c.Expires
			}
		}
	}
	return last
}

// Pick returns the narrowest capability that permits an operation of the agent
// with those arguments, and false where there is none. Of several of which
// none is narrower than another it is the one that ends first.
func (w *Wallet) Pick(agent string, op powerbox.Operation, arguments powerbox.Value, now time.Time) (Capability, bool) {
	var best Capability
	var found bool
	for _, c := range w.Of(agent, now) {
		if c.Permits(op, arguments, now) && (!found || c.narrowerThan(best, now)) {
			best, found = c, true
		}
	}
	return best, found
}

func (held Capability) narrowerThan(other Capability, now time.Time) bool {
	mine, errMine := trusted(held.Chain, now)
	theirs, errTheirs := trusted(other.Chain, now)
	if errMine != nil || errTheirs != nil {
		return errMine == nil // a chain can be narrowed and proven; a reference cannot
	}
	a, b := mine.Authority(), theirs.Authority()
	within, around := b.Covers(a), a.Covers(b)
	if within != around {
		return within
	}
	return held.Expires.Before(other.Expires)
}

// Receive takes in the delegations that came in the metadata of a request,
// under [ExtensionURI]: [{agent, chain}] in its member delegations (SEP-13).
// One that is not bound to the holder's key, or not from the agent that it
// names, refuses them all. Metadata without delegations is no error.
func (w *Wallet) Receive(metadata map[string]any, now time.Time) error {
	member, ok := metadata[ExtensionURI].(map[string]any)
	if !ok || member["delegations"] == nil {
		return nil
	}
	raw, err := json.Marshal(member["delegations"])
	if err != nil {
		return fmt.Errorf("holder: delegations: %w", err)
	}
	var handed []struct {
		Agent string   `json:"agent"`
		Chain []string `json:"chain"`
	}
	if err := json.Unmarshal(raw, &handed); err != nil {
		return errors.New("holder: delegations: want an array of {agent, chain}, the chain an array of compact JWS")
	}
	if len(handed) > maxHeld {
		return errFull
	}
	all := make([]Capability, 0, len(handed))
	for i, d := range handed {
		c, err := w.received(d.Agent, d.Chain, now)
		if err != nil {
			return fmt.Errorf("holder: delegations[%d]: %w", i, err)
		}
		all = append(all, c)
	}
	return w.Add(all...)
}

func (w *Wallet) received(agent string, chain []string, now time.Time) (Capability, error) {
	c, v, err := fromChain(chain, now)
	switch {
	case err != nil:
		return Capability{}, err
	case v.Holder() != w.holder:
		return Capability{}, errors.New("the chain is bound to another key than the wallet's")
	case c.Agent != agent:
		return Capability{}, fmt.Errorf("the chain is of issuer %q; want %q", c.Agent, agent)
	}
	return c, nil
}

// Delegations returns capabilities as the member of request metadata under
// [ExtensionURI] that hands them over. Only chains can be handed over.
func Delegations(capabilities ...Capability) map[string]any {
	handed := make([]any, 0, len(capabilities))
	for _, c := range slices.DeleteFunc(slices.Clone(capabilities), func(c Capability) bool { return c.Chain == nil }) {
		chain := make([]any, len(c.Chain))
		for i, t := range c.Chain {
			chain[i] = t
		}
		handed = append(handed, map[string]any{"agent": c.Agent, "chain": chain})
	}
	return map[string]any{"delegations": handed}
}

// CardParams are the params of our extension with which an agent publishes,
// in its own card, the key to delegate to.
func CardParams(key token.PublicKey) (map[string]any, error) {
	var jwk map[string]any
	if err := json.Unmarshal(key.JWK().AppendJSON(nil), &jwk); err != nil {
		return nil, fmt.Errorf("holder: key: %w", err)
	}
	return map[string]any{"holder": jwk}, nil
}
