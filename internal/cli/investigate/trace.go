package investigate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newTrace(p *cli.Program) *cobra.Command {
	var since, incident, bundle, tenant string
	cmd := &cobra.Command{
		Use:   "trace TASK | TRACE_ID | RECORD | --incident AGENT",
		Short: "Show every recorded call of a task",
		Long: "Trace shows for each call the caller, the agent, the authority, who or which policies granted it, its restrictions, the\n" +
			"decision and the outcome. People are named to readers who may see their answers. TASK is the id of a task or context.\n" +
			"TRACE_ID is a W3C Trace Context id (32 hex characters), RECORD a decision (rec_...). A task covers its own records and\n" +
			"the records of the same trace. A call appears below the call that caused it. An agent may use the same task ids in\n" +
			"several tenants: trace shows all of them, or the tenant of --tenant.\n" +
			"\n" +
			"--incident AGENT shows the actions of an agent or holder (for example key:THUMBPRINT) since --since: the resources,\n" +
			"the delegations, the authority that remains, and the commands that stop it.",
		Example: "  powerbox trace rec_01m81030k8rktbf8fcyfezvy0d\n" +
			"  powerbox trace task-1 --from bundle.jsonl --output json\n" +
			"  powerbox trace --incident summariser --since 2h --bundle incident.jsonl",
		Args: cobra.MaximumNArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddSourceFlags(cmd)
	cmd.Flags().StringVar(&since, "since", audit.TraceSpan, "start: how long ago, such as 24h, or a time in RFC 3339; default with --from: all")
	cmd.Flags().StringVar(&tenant, "tenant", "", "`tenant` of the agent, in which TASK is; \"\" for none")
	cmd.Flags().StringVar(&incident, "incident", "", "the `agent`, or holder, to look into")
	cmd.Flags().StringVar(&bundle, "bundle", "", "with --incident, export all evidence as it is now to this `file`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 1) == (incident != "") || bundle != "" && (incident == "" || o.From != "") {
			return cli.Usage(errors.New("want either a task, trace or record, or --incident AGENT; --bundle goes with --incident, at the server"))
		}
		t := audit.Tracer{Narrow: cmd.Flags().Changed("tenant"), Tenant: tenant}
		if t.Narrow && (incident != "" || !audit.IsTask(args[0])) {
			return cli.Usage(errors.New("--tenant goes with the id of a task or context; a trace, a record and --incident are of no single tenant, or of a known one"))
		}
		if o.From != "" && !cmd.Flags().Changed("since") {
			since = ""
		}
		at, err := p.Moment("since", since)
		if err != nil {
			return err
		}
		from, err := p.Source(o)
		if err != nil {
			return err
		}
		if incident != "" {
			return showIncident(cmd.Context(), p, from, o.File, incident, at, bundle, *output)
		}
		t.Source, t.Since = from, at
		tree, err := t.Trace(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(tree)
		}
		return printTrace(p, tree)
	}
	return cmd
}

func printTrace(p *cli.Program, t audit.Traced) error {
	cli.Printf(p.Stdout, "%s: %s, %d allowed, %d refused\n", t.Thing, plain.Count(audit.Count(t.Hops, ""), "decision"),
		audit.Count(t.Hops, evidence.Allow), audit.Count(t.Hops, evidence.Deny))
	for _, h := range t.Hops {
		printTraceHop(p, h, "  ")
	}
	if t.Truncated {
		cli.Printf(p.Stderr, "powerbox: there are more than %d records; the tree has the newest of them\n", audit.TraceLimit)
	}
	return nil
}

// grantedBy says who granted a capability, and under which policies; "" where that is not on record.
func grantedBy(s audit.TraceStep) string {
	var said []string
	switch {
	case s.Question != "" && len(s.GrantedBy) > 0:
		said = append(said, fmt.Sprintf("by %s (%s)", strings.Join(s.GrantedBy, ", "), s.Question))
	case s.Question != "":
		said = append(said, fmt.Sprintf("by people whose answers you may not see (%s)", s.Question))
	case len(s.GrantedBy) > 0:
		said = append(said, "by the operator "+strings.Join(s.GrantedBy, ", "))
	}
	if s.Policy != "" {
		said = append(said, "by policy "+s.Policy)
	}
	return strings.Join(said, ", ")
}

// printTraceHop prints one decision, and under it what it led to.
func printTraceHop(p *cli.Program, h audit.TraceHop, indent string) {
	cli.Printf(p.Stdout, "%s%-7s %s -> %s  %s  %s\n", indent, h.Decided(), h.Requester, h.Agent, h.What(), h.Record)
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			cli.Printf(p.Stdout, "%s        %-8s %s\n", indent, name, text)
		}
	}
	line("when", "%s%s%s%s", plain.Time(h.Time), plain.Prefixed(", task ", h.Task), plain.Prefixed(" in tenant ", h.Tenant), plain.Prefixed(", for ", h.Principal))
	line("why", "%s", h.Purpose)
	for _, s := range h.Under {
		line("under", "%s%s%s", s.Capability, plain.Prefixed(", requested by ", s.By), plain.Prefixed(", without ", strings.Join(s.Narrowed, ", ")))
		line("granted", "%s", grantedBy(s))
	}
	if len(h.Under) == 0 {
		line("under", "%s", plain.Prefixed("no capability; mode ", h.Mode))
	}
	line("less", "%s", strings.Join(h.Narrowed, ", "))
	line("missing", "%s", strings.Join(h.Missing, ", "))
	for _, r := range h.Reasons {
		line("reason", "%s%s", r.Code, plain.Prefixed(": ", r.Message))
	}
	line("outcome", "%s", h.Outcome)
	for _, next := range h.Hops {
		printTraceHop(p, next, indent+"    ")
	}
}
