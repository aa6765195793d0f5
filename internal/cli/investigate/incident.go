package investigate

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

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// showIncident prints what an agent has done, and exports all evidence.
func showIncident(ctx context.Context, p *cli.Program, from audit.Source, file, agent string, since time.Time, bundle, output string) error {
	in := audit.Incident{Agent: agent, Since: since, Delegated: []audit.Delegation{}, Other: audit.Others{}, Bundle: bundle}
	if err := in.Gather(ctx, from); err != nil {
		return err
	}
	op, asked := from.(*cli.Operator)
	if asked {
		in.Live = []audit.Capability{}
		if err := op.Get(ctx, "/v1/capabilities?holder="+url.QueryEscape(agent), &in.Live); err != nil {
			return err
		}
		in.Recipients()
	}
	if in.Nothing() {
		if err := unknownName(ctx, p, op, file, agent, since); err != nil {
			return err
		}
	}
	in.Commands = in.Remedies()
	if bundle != "" {
		if err := exportBundle(ctx, p, op, bundle); err != nil {
			return err
		}
	}
	if output == "json" {
		return p.PrintJSON(in)
	}
	return printIncident(p, in)
}

// unknownName is the error about a name that no record has, unless it is configured: a
// report of nothing would look like one of an agent that did nothing. The server is nil
// where records are read from a bundle.
func unknownName(ctx context.Context, p *cli.Program, op *cli.Operator, file, name string, since time.Time) error {
	var known []string
	if op != nil {
		var agents []cli.AgentStatus
		if err := op.Get(ctx, "/v1/agents", &agents); err != nil {
			return err
		}
		for _, a := range agents {
			known = append(known, a.ID)
		}
		if c, err := p.LoadConfig(file); err == nil { // else the server's agents alone are known here
			for _, caller := range c.Identity.Callers {
				known = append(known, caller.Agent)
			}
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if slices.Contains(known, name) {
		return nil
	}
	from := ""
	if !since.IsZero() {
		from = " since " + plain.Time(since)
	}
	if op == nil {
		return fmt.Errorf("no record%s names %q", from, name)
	}
	return fmt.Errorf("no record%s and no configured agent is named %q; configured are [%s]", from, name, strings.Join(known, ", "))
}

func exportBundle(ctx context.Context, p *cli.Program, op *cli.Operator, name string) error {
	response, err := op.Open(ctx, http.MethodGet, "/v1/evidence/bundle", nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	return p.WriteOut(name, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, response.Body)
		return err
	})
}

func printIncident(p *cli.Program, in audit.Incident) error {
	since := "the beginning"
	if !in.Since.IsZero() {
		since = plain.Time(in.Since)
	}
	cli.Printf(p.Stdout, "%s since %s\n", in.Agent, since)
	err := errors.Join(
		printTouched(p, "it called", in.Touched, func(t audit.Touched) string { return t.Agent }),
		printTouched(p, "others called in its traces, or under capabilities that it delegated", in.Through, func(t audit.Touched) string { return t.Requester + " -> " + t.Agent }),
		printTouched(p, "it was called by", in.CameFrom, func(t audit.Touched) string { return t.Requester }),
	)
	if len(in.Other) > 0 {
		cli.Printf(p.Stdout, "\n")
	}
	printOthers(p, in.Other)
	cli.Printf(p.Stdout, "\nit delegated: %s\n", plain.Count(len(in.Delegated), "capability record"))
	for _, d := range in.Delegated {
		cli.Printf(p.Stdout, "  %s at %s, to %s: %s\n", d.Capability, d.Agent, cmp.Or(d.To, "a holder that has not used it"), strings.Join(d.Granted, ", "))
	}
	printLive(p, in)
	cli.Printf(p.Stdout, "\nto stop it:\n")
	for _, c := range in.Commands {
		cli.Printf(p.Stdout, "  %s\n", c)
	}
	if in.Bundle != "" {
		cli.Printf(p.Stdout, "\nall evidence is in %s; verify it with powerbox evidence verify\n", in.Bundle)
	}
	return err
}

func printLive(p *cli.Program, in audit.Incident) {
	if in.Live == nil {
		cli.Printf(p.Stdout, "\na bundle does not show which capabilities are still valid: ask the server, without --from\n")
		return
	}
	cli.Printf(p.Stdout, "\nstill valid: %d on record\n", len(in.Live))
	for _, c := range in.Live {
		frozen := map[bool]string{true: ", frozen"}[c.Frozen]
		cli.Printf(p.Stdout, "  %s at %s, held by %s until %s%s: %s\n", c.ID, c.Agent, cmp.Or(c.Requester, c.Holder),
			plain.Time(c.Expires), frozen, strings.Join(c.Operations, ", "))
	}
}

func printTouched(p *cli.Program, title string, list []audit.Touched, who func(audit.Touched) string) error {
	cli.Printf(p.Stdout, "\n%s: %s\n", title, plain.Count(len(list), "operation"))
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	for _, t := range list {
		cli.Printf(w, "  %s\t%s\t%d allowed\t%d refused\tlast %s\t%s\t%s\n", who(t), t.Operation, t.Allowed, t.Refused,
			plain.Time(t.Last), t.Record, strings.Join(t.Codes, ", "))
	}
	return w.Flush()
}
