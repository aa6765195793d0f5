package trust

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// keptAccount is an account as JSON. It has everything that later records can meet.
type keptAccount struct {
	Counts Counts               `json:"counts"`
	Broken bool                 `json:"broken,omitempty"`
	Keys   map[string]time.Time `json:"keys,omitempty"`
	Newest string               `json:"newest,omitempty"`
	Open   []keptDecision       `json:"open,omitempty"` // oldest first
}

// keptDecision is one that waits for its outcome.
type keptDecision struct {
	ID    string           `json:"id"`
	Chain evidence.ChainID `json:"chain"`
}

// MarshalJSON implements [json.Marshaler]. A book that is read again and takes the records
// behind it comes to the same as one that took all records.
func (b *Book) MarshalJSON() ([]byte, error) {
	if !b.Until.IsZero() {
		return nil, errors.New("trust: a book as of a time is not kept")
	}
	out := make(map[string]keptAccount, len(b.agents))
	for agent, a := range b.agents {
		out[agent] = keptAccount{a.tally.counts, a.broken, a.keys, a.newest, a.tally.waiting()}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements [json.Unmarshaler] for what [Book.MarshalJSON] writes.
func (b *Book) UnmarshalJSON(data []byte) error {
	var in map[string]keptAccount
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*b = Book{}
	for agent, k := range in {
		a := b.account(agent)
		a.tally.counts, a.broken, a.newest = k.Counts, k.Broken, k.Newest
		if k.Keys != nil {
			a.keys = k.Keys
		}
		for _, d := range k.Open {
			a.tally.await(d.ID, d.Chain)
		}
	}
	return nil
}

// waiting returns the decisions whose outcome has not come, oldest first.
func (t *tally) waiting() []keptDecision {
	out := make([]keptDecision, 0, len(t.open))
	seen := make(map[string]bool, len(t.open))
	for _, id := range t.order {
		if chain, open := t.open[id]; open && !seen[id] {
			seen[id] = true
			out = append(out, keptDecision{id, chain})
		}
	}
	return out
}
