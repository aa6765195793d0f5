package investigate

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
)

func newUsage(p *cli.Program) *cobra.Command {
	var since, until string
	var narrow bool
	cmd := &cobra.Command{
		Use:   "usage AGENT",
		Short: "Compare granted authority with the authority that was used",
		Example: "  powerbox usage documents --since 720h\n" +
			"  powerbox usage documents --narrow",
		Long: "Usage compares granted and used authority in the records. It covers the authority of AGENT at other agents, and\n" +
			"the authority of others at AGENT. A holder without a configured name appears as in the records, for example key:THUMBPRINT.\n" +
			"\n" +
			"--narrow prints the smallest scopes that allow everything that was used. The file has the form of powerbox report\n" +
			"--grants, for the include of powerbox.yaml.\n" +
			"\n" +
			"Unused authority shows that you could grant less. It does not change decisions or trust scores.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddSourceFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "720h", "start: how long ago, such as 24h, or a time in RFC 3339; default with --from: all")
	cmd.Flags().StringVar(&until, "until", "", "end, in the form of --since")
	cmd.Flags().BoolVar(&narrow, "narrow", false, "print the smallest scopes that would have allowed what was used")
	cli.AgentArgument(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.From != "" && !cmd.Flags().Changed("since") {
			since = ""
		}
		var q audit.Query
		if q.Since, err = p.Moment("since", since); err != nil {
			return err
		}
		if q.Until, err = p.Moment("until", until); err != nil {
			return err
		}
		from, err := p.Source(o)
		if err != nil {
			return err
		}
		u, err := audit.UsageOf(cmd.Context(), from, args[0], q)
		if err != nil {
			return err
		}
		if op, ok := from.(*cli.Operator); ok && len(u.Uses) == 0 {
			if err := unknownName(cmd.Context(), p, op, o.File, args[0], q.Since); err != nil {
				return err
			}
		}
		switch {
		case narrow && *output == "json":
			return p.PrintJSON(u.Narrowed().Grants())
		case narrow:
			return printGrants(p, u.Narrowed(), "that allow what was used")
		case *output == "json":
			return p.PrintJSON(u)
		}
		return printUsage(p, u)
	}
	return cmd
}

func printUsage(p *cli.Program, u audit.Usage) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "HOLDER\tAGENT\tOPERATION\tGRANTED\tUSED\tLAST\n")
	unused := 0
	for _, h := range u.Uses {
		granted := "yes"
		if !h.Granted {
			granted = "no"
		}
		exercised := fmt.Sprint(h.Exercised)
		if h.Unused {
			exercised, unused = "unused", unused+1
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", h.Holder, h.Agent, h.Operation, granted, exercised, h.Last)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(u.Uses) == 0 {
		cli.Printf(p.Stderr, "powerbox: no authority and no use of %q is on record in this period; check the name, and --since\n", u.Agent)
	}
	if unused > 0 {
		cli.Printf(p.Stdout, "%d granted and not used in this period: powerbox usage %s --narrow prints the smallest scopes that would have been enough\n", unused, u.Agent)
	}
	return nil
}
