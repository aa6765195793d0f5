package trust

import (
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// Issuer is the agent of whom the issuer's own records are. No protected agent
// has this name.
const Issuer = evidence.IssuerID

// Book keeps what the scores of all agents come from. Records come verified, each
// chain in its order; of one log in the order of the log, so that everybody comes
// to the same. The zero Book is an empty one as of the end of time.
type Book struct {
	Until  time.Time // later records do not count; zero for all
	agents map[string]*account
}

// account is what a book has of one agent.
type account struct {
	tally  tally
	broken bool
	keys   map[string]time.Time // when each of its keys was renewed, as first recorded
	newest string
}

func (b *Book) account(agent string) *account {
	if b.agents == nil {
		b.agents = map[string]*account{}
	}
	a, ok := b.agents[agent]
	if !ok {
		a = &account{tally: tally{Agent: agent}, keys: map[string]time.Time{}}
		b.agents[agent] = a
	}
	return a
}

// Add takes one more record.
func (b *Book) Add(r evidence.Record) {
	if !b.Until.IsZero() && r.Time.After(b.Until) {
		return
	}
	if r.AgentID == Issuer {
		b.addKey(r)
		return
	}
	b.account(r.AgentID).tally.add(r)
}

// addKey takes what the issuer recorded of an agent's key. The details of the intent have
// members agent, key (a thumbprint) and renewed (RFC 3339). A key that comes back
// is as old as it is.
func (b *Book) addKey(r evidence.Record) {
	if r.ActionType != evidence.ActionKeyUse && r.ActionType != evidence.ActionKeyRotate {
		return
	}
	var said struct {
		Agent   string    `json:"agent"`
		Key     string    `json:"key"`
		Renewed time.Time `json:"renewed"`
	}
	if json.Unmarshal(r.Intent.Details, &said) != nil || said.Agent == "" || said.Key == "" {
		return
	}
	a := b.account(said.Agent)
	if _, known := a.keys[said.Key]; !known {
		if said.Renewed.IsZero() || said.Renewed.After(r.Time) {
			said.Renewed = r.Time // no key is of the future
		}
		a.keys[said.Key] = said.Renewed
	}
	a.newest = said.Key
}

// Break notes that a chain of a recorder of the agent does not hold.
func (b *Book) Break(agent string) { b.account(agent).broken = true }

// History is what the score of an agent comes from.
func (b *Book) History(agent string, asOf time.Time) History {
	a, ok := b.agents[agent]
	if !ok {
		return History{AsOf: asOf}
	}
	return History{Counts: a.tally.sum(), Broken: a.broken, Renewed: a.keys[a.newest], AsOf: asOf}
}
