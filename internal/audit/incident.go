package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Incident is a report about one agent, for an operator who must stop it.
type Incident struct {
	Agent     string       `json:"agent"`
	Since     time.Time    `json:"since"`
	Touched   []Touched    `json:"touched"`   // its own requests
	Through   []Touched    `json:"through"`   // requests of others in its traces, or under capabilities that it passed on
	CameFrom  []Touched    `json:"came_from"` // who asked it
	Delegated []Delegation `json:"delegated"`
	Other     Others       `json:"other"` // its other actions, by class
	// Live are the capabilities that it, and the holders to whom it passed one on, can
	// still use; nil where no server was asked.
	Live     []Capability `json:"live"`
	Commands []string     `json:"commands"` // to stop it, in order
	Bundle   string       `json:"bundle,omitempty"`
}

// Nothing reports whether neither a record nor a capability names the agent.
func (in *Incident) Nothing() bool {
	return len(in.Touched)+len(in.Through)+len(in.CameFrom)+len(in.Delegated)+len(in.Other)+len(in.Live) == 0
}

// Touched is how often one asked another for one operation.
type Touched struct {
	Requester string    `json:"requester"`
	Agent     string    `json:"agent"`
	Operation string    `json:"operation"`
	Allowed   int       `json:"allowed"` // or let through by mode observe
	Refused   int       `json:"refused"`
	Last      time.Time `json:"last"`
	Record    string    `json:"record_id"` // the last one
	Codes     []string  `json:"codes"`     // of the refusals
}

// Delegation is one capability that was narrowed, for the same holder or another.
type Delegation struct {
	Capability string   `json:"capability"`
	Parent     string   `json:"parent"`
	Agent      string   `json:"agent"` // at which it can be used
	To         string   `json:"to"`    // as far as its record or its uses say
	Granted    []string `json:"granted"`
	Record     string   `json:"record_id"`
}

// Gather reads the agent's actions, then the requests to it, then the actions of others
// in traces that it began.
func (in *Incident) Gather(ctx context.Context, from Source) error {
	own, through, came := tally{}, tally{}, tally{}
	traces, passed := map[string]bool{}, map[string]int{}
	for r, err := range from.Each(ctx, Query{Requester: in.Agent, Since: in.Since, AnyOrder: true}) {
		if err != nil {
			return err
		}
		own.add(r)
		in.Other.Add(r)
		if r.Details.TraceID != "" {
			traces[r.Details.TraceID] = true
		}
		if action.CapabilityAttenuate.Is(r.ActionType) && issues(r) {
			passed[r.Details.Capability] = len(in.Delegated)
			in.Delegated = append(in.Delegated, Delegation{r.Details.Capability, parentOf(r), r.AgentID, "", orEmpty(r.Details.Granted), r.ID})
		}
	}
	for r, err := range from.Each(ctx, Query{Since: in.Since, AnyOrder: true}) {
		if err != nil {
			return err
		}
		at, child := passed[r.Details.Capability]
		switch {
		case r.AgentID == in.Agent:
			came.add(r)
		case r.Details.Requester == in.Agent:
		case traces[r.Details.TraceID], child:
			through.add(r)
		}
		if child && r.Details.Requester != in.Agent && IsCall(r) {
			in.Delegated[at].To = r.Details.Requester
		}
	}
	in.Touched, in.Through, in.CameFrom = own.list(), through.list(), came.list()
	return nil
}

// Recipients names the holders of capabilities that were passed on, as the server knows.
func (in *Incident) Recipients() {
	for _, c := range in.Live {
		for i := range in.Delegated {
			if d := &in.Delegated[i]; d.Capability == c.ID {
				d.To = cmp.Or(c.Requester, c.Holder)
			}
		}
	}
}

// tally counts calls.
type tally map[[3]string]*Touched

// add counts a decision about a call; the issue of capabilities and the outcomes of
// calls are none.
func (t tally) add(r evidence.Record) {
	if !IsCall(r) {
		return
	}
	key := [3]string{r.Details.Requester, r.AgentID, SubjectOf(r)}
	if t[key] == nil {
		t[key] = &Touched{Requester: key[0], Agent: key[1], Operation: key[2], Codes: []string{}}
	}
	one := t[key]
	if r.Time.After(one.Last) {
		one.Last, one.Record = r.Time, r.ID
	}
	if r.Decision != evidence.Deny {
		one.Allowed++
		return
	}
	one.Refused++
	for _, reason := range r.Details.Reasons {
		if !slices.Contains(one.Codes, reason.Code) {
			one.Codes = append(one.Codes, reason.Code)
		}
	}
}

func (t tally) list() []Touched {
	out := []Touched{}
	for _, one := range t {
		slices.Sort(one.Codes)
		out = append(out, *one)
	}
	sorting.Sort(out, func(a, b Touched) int {
		return cmp.Or(strings.Compare(a.Requester, b.Requester), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Operation, b.Operation))
	})
	return out
}

// Remedies stop the agent: the reversible one first, then the lasting ones. A
// capability dies with the one that it was narrowed from, so that only the first
// of each line is named.
func (in *Incident) Remedies() []string {
	target := in.Agent
	if IsNamed(target) {
		target = "agent:" + target
	}
	out := []string{fmt.Sprintf("powerbox freeze %s --reason 'incident'", target)}
	live := map[string]bool{}
	for _, c := range in.Live {
		live[c.ID] = true
	}
	for _, c := range in.Live {
		if !slices.ContainsFunc(c.Ancestors, func(id string) bool { return live[id] }) {
			out = append(out, "powerbox revoke "+c.ID)
		}
	}
	if in.Live == nil {
		// The live capabilities were not queried: only used ones can be named.
		for _, d := range in.Delegated {
			out = append(out, "powerbox revoke "+d.Capability)
		}
	}
	return out
}
