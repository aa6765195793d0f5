package trust

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
)

// Causes of outcomes that say nothing about the agent, in the member cause of an
// outcome (EXT-18). The gateway observes them; an agent cannot write them.
const (
	CauseCaller  = "caller_left"   // the caller broke it off
	CauseInput   = "bad_input"     // the agent was asked for something that is none
	CauseGateway = "not_the_agent" // it did not come to the agent, or was cut on the way
)

// maxOpen is how many decisions of an agent can wait for their outcome at once.
// Of more than that the oldest is forgotten, and its outcome does not count.
const maxOpen = 1 << 16

// tally counts the outcomes of one agent. The records come verified, each chain
// in its order. Its memory is bounded by [maxOpen].
type tally struct {
	Agent  string
	open   map[string]evidence.ChainID // decisions whose outcome has not come, and where it has to
	order  []string                    // they and some that have one, oldest first
	counts Counts
}

// add takes one more record.
func (t *tally) add(r evidence.Record) {
	if r.AgentID != t.Agent {
		return
	}
	if r.Details.OutcomeOf == "" {
		if r.Decision == evidence.Allow && r.OutcomeStatus == evidence.Pending && works(r) {
			t.await(strings.Clone(r.ID), r.Details.ChainID) // without the record that it is part of
		}
		return
	}
	if chain, open := t.open[r.Details.OutcomeOf]; !open || chain != r.Details.ChainID || r.OutcomeStatus == evidence.Pending {
		return
	}
	delete(t.open, r.Details.OutcomeOf)
	if excused(r.Outcome) {
		return
	}
	switch r.OutcomeStatus {
	case evidence.Achieved:
		t.counts.Achieved++
	case evidence.Failed:
		t.counts.Failed++
	case evidence.Partial:
		t.counts.Partial++
	case evidence.Pending:
	}
}

// await remembers a decision until its outcome comes.
func (t *tally) await(id string, chain evidence.ChainID) {
	if t.open == nil {
		t.open = map[string]evidence.ChainID{}
	}
	t.open[id] = chain
	t.order = append(t.order, id)
	if len(t.order) >= 2*maxOpen {
		t.order = slices.DeleteFunc(t.order, func(id string) bool {
			_, open := t.open[id]
			return !open
		})
	}
	for len(t.open) > maxOpen {
		delete(t.open, t.order[0])
		t.order = t.order[1:]
	}
}

// sum are the sums so far.
func (t *tally) sum() Counts { return t.counts }

// works reports whether a decision let the agent do something for someone else.
// Reading its results does not count as its work, and neither do its calls
// to itself (EXT-20).
func works(r evidence.Record) bool {
	op := r.Intent.Operation
	return r.Details.Requester != r.AgentID && (op == "a2a.message" || !strings.HasPrefix(op, "a2a."))
}

// excused reports whether an outcome says nothing about the agent.
func excused(outcome json.RawMessage) bool {
	var o struct {
		Cause string `json:"cause"`
	}
	if json.Unmarshal(outcome, &o) != nil {
		return false
	}
	return o.Cause == CauseCaller || o.Cause == CauseInput || o.Cause == CauseGateway
}
