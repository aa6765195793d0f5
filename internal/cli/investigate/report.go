package investigate

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newReport(p *cli.Program) *cobra.Command {
	var q audit.Query
	var grants bool
	var since string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report calls, and what each mode would deny",
		Example: "  powerbox report\n" +
			"  powerbox report --since 168h --agent documents\n" +
			"  powerbox report --grants > powerbox.d/scopes.yaml",
		Long: "Report reads the records of calls. SCOPED WOULD counts the calls that no scope of the caller allows. REQUIRE WOULD\n" +
			"counts the calls without a capability, and the calls that could not have one. --grants prints a file of scopes that\n" +
			"cover the observed calls, for the include of powerbox.yaml. Review it first: it allows every observed call.",
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only calls of this agent")
	cli.AgentFlag(cmd, "agent")
	cmd.Flags().StringVar(&since, "since", "24h", "start: how long ago, such as 24h, or a time in RFC 3339")
	cmd.Flags().BoolVar(&grants, "grants", false, "print a file of scopes that cover what was observed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if q.Since, err = p.Moment("since", since); err != nil {
			return err
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		calls, other := audit.Summary{}, audit.Others{}
		for record, err := range op.Each(cmd.Context(), q) {
			if err != nil {
				return err
			}
			calls.Add(record)
			other.Add(record)
		}
		if q.Agent != "" && len(calls.List())+len(other) == 0 {
			if err := unknownName(cmd.Context(), p, op, o.File, q.Agent, q.Since); err != nil {
				return err
			}
		}
		r := audit.Report{Uses: calls.List(), Other: other}
		if r.Frozen, err = freezes(cmd.Context(), op); err != nil {
			return err
		}
		r.Since = q.Since.Truncate(time.Second)
		switch {
		case grants && *output == "json":
			return p.PrintJSON(r.Grants())
		case grants:
			return printGrants(p, r, "that cover what was observed")
		case *output == "json":
			return p.PrintJSON(r)
		}
		return printUse(p, r)
	}
	return cmd
}

func printUse(p *cli.Program, r audit.Report) error {
	for _, f := range r.Frozen {
		cli.Printf(p.Stdout, "frozen: %s since %s, by %s: %s\n", f.Target, plain.Time(f.At), f.By, f.Reason)
	}
	if len(r.Uses) == 0 {
		cli.Printf(p.Stdout, "no calls since %s\n", r.Since.Format(time.RFC3339))
		printOthers(p, r.Other)
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "CALLER\tAGENT\tOPERATION\tCALLS\tALLOWED\tDENIED\tOBSERVED\tSCOPED WOULD\tREQUIRE WOULD\n")
	for _, u := range r.Uses {
		cli.Printf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", u.Caller, u.Agent, u.Operation, u.Calls, u.Allowed, u.Denied, u.Observed,
			u.AtScoped.Text("a scope"), u.AtRequire.Text("a capability"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range r.Advice() {
		cli.Printf(p.Stdout, "%s\n", line)
	}
	printOthers(p, r.Other)
	return nil
}

// printOthers says which records beside those of calls there are.
func printOthers(p *cli.Program, o audit.Others) {
	if len(o) > 0 {
		cli.Printf(p.Stdout, "other records: %s; powerbox evidence list shows them\n", o)
	}
}

// printGrants prints a file for include: the scopes, in words. What cannot be in it is said in
// comments, so that readers see that it is incomplete.
func printGrants(p *cli.Program, r audit.Report, which string) error {
	g := r.Grants()
	since := "the beginning"
	if !r.Since.IsZero() {
		since = r.Since.Format(time.RFC3339)
	}
	cli.Printf(p.Stdout, "# Scopes %s since %s. Review it: it allows every call that was made.\n", which, since)
	cli.Printf(p.Stdout, "# Put it into a file that powerbox.yaml includes; a scope is what a caller may do without a capability.\n")
	for line := range strings.Lines(g.YAML()) {
		cli.Printf(p.Stdout, "%s\n", strings.TrimSuffix(line, "\n"))
	}
	for _, caller := range slices.Sorted(maps.Keys(g.Unnamed)) {
		cli.Printf(p.Stdout, "# not in it: %s. It called:\n", audit.NameCaller(caller))
		for _, operation := range g.Unnamed[caller] {
			cli.Printf(p.Stdout, "#   %s\n", operation)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(g.Left)) {
		cli.Printf(p.Stdout, "# not in it: %s, because %s\n", plain.Count(g.Left[why], "call"), why)
	}
	if len(g.Scopes) == 0 {
		return cli.Exit(cli.ExitError, errors.New("nothing that was observed can be put into scopes; the comments say why"))
	}
	return nil
}
