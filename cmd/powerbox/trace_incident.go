package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/evidence/action"
)

// incident is what somebody who has to stop an agent needs to know of it.
type incident struct {
	Agent     string       `json:"agent"`
	Since     time.Time    `json:"since"`
	Touched   []touched    `json:"touched"`   // what it asked for
	Through   []touched    `json:"through"`   // what others asked for in its traces, or under what it passed on
	CameFrom  []touched    `json:"came_from"` // who asked it
	Delegated []delegation `json:"delegated"`
	Other     others       `json:"other"` // what it did beside calls, by class
	// Live is what it, and those to whom it passed something on, can still use;
	// nil where no server was asked.
	Live     []storedCapability `json:"live"`
	Commands []string           `json:"commands"` // to stop it, in order
	Bundle   string             `json:"bundle,omitempty"`
}

// touched is how often one asked another for one operation.
type touched struct {
	Requester string    `json:"requester"`
	Agent     string    `json:"agent"`
	Operation string    `json:"operation"`
	Allowed   int       `json:"allowed"` // or let through by mode observe
	Refused   int       `json:"refused"`
	Last      time.Time `json:"last"`
	Record    string    `json:"record_id"` // the last one
	Codes     []string  `json:"codes"`     // of the refusals
}

// delegation is one capability that was narrowed, for the same holder or another.
type delegation struct {
	Capability string   `json:"capability"`
	Parent     string   `json:"parent"`
	Agent      string   `json:"agent"` // at which it can be used
	To         string   `json:"to"`    // as far as its record or its uses say
	Granted    []string `json:"granted"`
	Record     string   `json:"record_id"`
}

// incident prints what an agent has done, and exports all evidence.
func (p *program) incident(ctx context.Context, from recordSource, agent string, since time.Time, bundle, output string) error {
	in := incident{Agent: agent, Since: since, Delegated: []delegation{}, Other: others{}, Bundle: bundle}
	if err := in.gather(ctx, from); err != nil {
		return err
	}
	op, asked := from.(*operator)
	if asked {
		in.Live = []storedCapability{}
		if err := op.get(ctx, "/v1/capabilities?holder="+url.QueryEscape(agent), &in.Live); err != nil {
			return err
		}
		in.recipients()
	}
	in.Commands = in.commands()
	if bundle != "" {
		if err := p.exportBundle(ctx, op, bundle); err != nil {
			return err
		}
	}
	if output == "json" {
		return p.printJSON(in)
	}
	return p.printIncident(in)
}

func (p *program) exportBundle(ctx context.Context, op *operator, name string) error {
	response, err := op.open(ctx, http.MethodGet, "/v1/evidence/bundle", nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	return p.writeOut(name, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, response.Body)
		return err
	})
}

// gather reads what the agent did, then what came to it, then what others did
// with what it began.
func (in *incident) gather(ctx context.Context, from recordSource) error {
	own, through, came := tally{}, tally{}, tally{}
	traces, passed := map[string]bool{}, map[string]int{}
	for r, err := range from.each(ctx, recordQuery{requester: in.Agent, since: in.Since, anyOrder: true}) {
		if err != nil {
			return err
		}
		own.add(r)
		in.Other.add(r)
		if r.Details.TraceID != "" {
			traces[r.Details.TraceID] = true
		}
		if action.CapabilityAttenuate.Is(r.ActionType) && issues(r) {
			passed[r.Details.Capability] = len(in.Delegated)
			in.Delegated = append(in.Delegated, delegation{r.Details.Capability, parentOf(r), r.AgentID, "", orEmpty(r.Details.Granted), r.ID})
		}
	}
	for r, err := range from.each(ctx, recordQuery{since: in.Since, anyOrder: true}) {
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
		if child && r.Details.Requester != in.Agent && isCall(r) {
			in.Delegated[at].To = r.Details.Requester
		}
	}
	in.Touched, in.Through, in.CameFrom = own.list(), through.list(), came.list()
	return nil
}

// recipients names those who hold what was passed on, as the server knows.
func (in *incident) recipients() {
	for _, c := range in.Live {
		for i := range in.Delegated {
			if d := &in.Delegated[i]; d.Capability == c.ID {
				d.To = orNobody(c.Requester, c.Holder)
			}
		}
	}
}

// tally counts calls.
type tally map[[3]string]*touched

// add counts a decision about a call; what is issued and what became of calls are
// none.
func (t tally) add(r evidence.Record) {
	if !isCall(r) {
		return
	}
	key := [3]string{r.Details.Requester, r.AgentID, subjectOf(r)}
	if t[key] == nil {
		t[key] = &touched{Requester: key[0], Agent: key[1], Operation: key[2], Codes: []string{}}
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

func (t tally) list() []touched {
	out := []touched{}
	for _, one := range t {
		slices.Sort(one.Codes)
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b touched) int {
		return cmp.Or(strings.Compare(a.Requester, b.Requester), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Operation, b.Operation))
	})
	return out
}

// commands stop the agent: the reversible one first, then the lasting ones. A
// capability dies with the one that it was narrowed from, so that only the first
// of each line is named.
func (in *incident) commands() []string {
	target := in.Agent
	if isNamed(target) {
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
		// Nobody was asked what is live: what it used is what can be named.
		for _, d := range in.Delegated {
			out = append(out, "powerbox revoke "+d.Capability)
		}
	}
	return out
}

func (p *program) printIncident(in incident) error {
	since := "the beginning"
	if !in.Since.IsZero() {
		since = shortTime(in.Since)
	}
	fmt.Fprintf(p.stdout, "%s since %s\n", printable(in.Agent), since)
	err := errors.Join(
		p.printTouched("it touched", in.Touched, func(t touched) string { return t.Agent }),
		p.printTouched("others did in its traces, or under what it passed on", in.Through, func(t touched) string { return printable(t.Requester) + " -> " + t.Agent }),
		p.printTouched("it was asked by", in.CameFrom, func(t touched) string { return printable(t.Requester) }),
	)
	p.printOthers("\n", in.Other)
	fmt.Fprintf(p.stdout, "\nit passed on: %s\n", many(len(in.Delegated), "capability record"))
	for _, d := range in.Delegated {
		fmt.Fprintf(p.stdout, "  %s at %s, to %s: %s\n", d.Capability, d.Agent, printable(orNobody(d.To, "somebody who has not used it")), strings.Join(d.Granted, ", "))
	}
	p.printLive(in)
	fmt.Fprintln(p.stdout, "\nto stop it:")
	for _, c := range in.Commands {
		fmt.Fprintf(p.stdout, "  %s\n", c)
	}
	if in.Bundle != "" {
		fmt.Fprintf(p.stdout, "\nall evidence is in %s; verify it with powerbox evidence verify\n", in.Bundle)
	}
	return err
}

func (p *program) printLive(in incident) {
	if in.Live == nil {
		fmt.Fprintln(p.stdout, "\nwhat is still live is known to the server alone: ask it, without --from")
		return
	}
	fmt.Fprintf(p.stdout, "\nstill live: %d on record\n", len(in.Live))
	for _, c := range in.Live {
		frozen := map[bool]string{true: ", frozen"}[c.Frozen]
		fmt.Fprintf(p.stdout, "  %s at %s, held by %s until %s%s: %s\n", c.ID, c.Agent, printable(orNobody(c.Requester, c.Holder)),
			shortTime(c.Expires), frozen, strings.Join(c.Operations, ", "))
	}
}

func (p *program) printTouched(title string, list []touched, who func(touched) string) error {
	fmt.Fprintf(p.stdout, "\n%s: %s\n", title, many(len(list), "operation"))
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, t := range list {
		fmt.Fprintf(w, "  %s\t%s\t%d allowed\t%d refused\tlast %s\t%s\t%s\n", who(t), printable(t.Operation), t.Allowed, t.Refused,
			shortTime(t.Last), t.Record, strings.Join(t.Codes, ", "))
	}
	return w.Flush()
}
