package provider

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Action is one record, as a person reads an action in their name.
type Action struct {
	Record   evidence.Record // the decision
	By       string          // id of the agent of the Agent Auth Protocol, or who else
	Name     string          // of that agent in its own words, "" for another actor
	Executed string          // the capability of the Agent Auth Protocol, "" for another action
	Outcome  evidence.OutcomeStatus
}

// The bounds of one look at actions.
const (
	actions     = 100
	actionsScan = 20000
	heldShown   = 100
)

// Activity returns the actions in a person's name, by every protocol, newest first.
// Administrators see beside them the actions of all at this provider, and at no other agent.
func (p *Provider) Activity(ctx context.Context, who Person) ([]Action, error) {
	names, err := p.config.Issuer.Pseudonyms(ctx, who.Principal)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	own, err := p.actions(ctx, issuer.RecordQuery{Principals: names, Limit: actions, Scan: actionsScan})
	if err != nil || !p.config.Administrator(who.Principal, who.Groups) {
		return own, err
	}
	all, err := p.actions(ctx, issuer.RecordQuery{Agent: p.config.Agent, Limit: actions, Scan: actionsScan})
	return newest(append(all, own...)), err
}

// newest sorts actions, each once.
func newest(all []Action) []Action {
	slices.SortStableFunc(all, func(a, b Action) int {
		return cmp.Or(b.Record.Time.Compare(a.Record.Time), cmp.Compare(a.Record.ID, b.Record.ID))
	})
	all = slices.CompactFunc(all, func(a, b Action) bool { return a.Record.ID == b.Record.ID })
	return all[:min(len(all), actions)]
}

// Held returns the capabilities in force that callers over A2A and MCP have in a person's name,
// newest first.
func (p *Provider) Held(ctx context.Context, who Person) ([]issuer.Capability, error) {
	if who.Principal == "" {
		return nil, nil
	}
	all, _, err := p.config.Issuer.InForce(ctx, issuer.LiveQuery{Principal: who.Principal, Limit: heldShown})
	return slices.DeleteFunc(all, func(c issuer.Capability) bool { return strings.HasPrefix(c.Holder, holder("")) }), err
}

// actions are the records of a query, as a person reads them.
func (p *Provider) actions(ctx context.Context, query issuer.RecordQuery) ([]Action, error) {
	var out []Action
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		page, err := r.Records(query)
		if err != nil {
			return err
		}
		type told struct {
			of    string
			chain evidence.ChainID // in which alone an outcome counts
		}
		names, gone, outcomes := map[string]string{}, map[string]bool{}, map[told]evidence.OutcomeStatus{}
		for _, sealed := range page.Records {
			record := sealed.Record()
			if of := record.Details.OutcomeOf; of != "" {
				outcomes[told{of, record.Details.ChainID}] = record.OutcomeStatus
				continue
			}
			a := p.action(record)
			if status, ok := outcomes[told{record.ID, record.Details.ChainID}]; ok {
				a.Outcome = status
			}
			if id, ok := strings.CutPrefix(a.By, holder("")); ok {
				a.By = id
				if _, known := names[id]; !known {
					agent, err := r.HostAgent(id)
					if err != nil && !notFound(err) {
						return err
					}
					names[id], gone[id] = agent.Name, err != nil
				}
				if a.Name = names[id]; gone[id] {
					continue // its user took it out, or its time is over (AAP-Z3)
				}
			}
			out = append(out, a)
		}
		return nil
	})
	return out, err
}

func (p *Provider) action(r evidence.Record) Action {
	a := Action{Record: r, By: r.Details.Requester, Outcome: r.OutcomeStatus}
	if name, ok := strings.CutPrefix(r.Intent.Operation, issuer.Qualify(p.config.Agent, label, "")); ok {
		a.Executed = name
	}
	return a
}

// Offered are the capabilities, by name.
func (p *Provider) Offered() []*Capability {
	out := make([]*Capability, 0, len(p.order))
	for _, name := range p.order {
		out = append(out, p.capabilities[name])
	}
	return out
}

// How often a person says no to an agent about one capability before the person
// is left alone about it (ATK-48).
const (
	maxRefusals = 3
	coolOff     = time.Hour
)

// refused is the error for a repeated request that a person has refused again and again,
// nil where it was not so.
func refused(held []Grant, wanted []wish, now time.Time) error {
	for _, w := range wanted {
		n := 0
		for _, g := range held {
			if g.Capability == w.capability.Name && g.Status == agentauth.Denied && now.Sub(g.Updated) < coolOff {
				n++
			}
		}
		if n >= maxRefusals {
			e := agentauth.Errorf(agentauth.CodeRateLimited, "capability %q was refused %d times within %s; the person is not asked again for now", w.capability.Name, n, coolOff)
			e.RetryAfter = int(coolOff / time.Second)
			return e
		}
	}
	return nil
}
