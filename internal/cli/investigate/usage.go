package investigate

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newUsage(p *cli.Program) *cobra.Command {
	var since, until string
	var narrow bool
	cmd := &cobra.Command{
		Use:   "usage AGENT",
		Short: "Compare granted authority with the authority that was used",
		Example: "  powerbox usage documents --since 720h\n" +
			"  powerbox usage documents --narrow",
		Long: "Usage reads what records say was possessed and what was exercised (EXT-32): of AGENT as a holder of authority\n" +
			"at other agents, and of those who hold authority at AGENT. A holder without a configured name is named as\n" +
			"records do, such as key:THUMBPRINT.\n\n" +
			"--narrow prints the smallest scopes that would have allowed everything that was used, as a file for the\n" +
			"include of powerbox.yaml, in the form of powerbox report --grants.\n\n" +
			"What is not used is a signal for policy: that less could be granted. It is no fault of the holder's, and no\n" +
			"decision and no trust score knows of it.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddSourceFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "720h", "from when on: how long ago, such as 24h, or a time in RFC 3339; with --from all, if it is not set")
	cmd.Flags().StringVar(&until, "until", "", "until when, as --since")
	cmd.Flags().BoolVar(&narrow, "narrow", false, "print the smallest scopes that would have allowed what was used")
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
	fmt.Fprintln(w, "HOLDER\tAGENT\tOPERATION\tGRANTED\tEXERCISED\tLAST")
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", plain.Printable(h.Holder), h.Agent, plain.Printable(h.Operation), granted, exercised, h.Last)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if unused > 0 {
		fmt.Fprintf(p.Stdout, "%d granted and not used in this period: powerbox usage %s --narrow prints what would have sufficed\n", unused, u.Agent)
	}
	return nil
}
