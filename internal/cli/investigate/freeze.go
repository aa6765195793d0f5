package investigate

import (
	"context"
	"errors"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newFreeze(p *cli.Program) *cobra.Command {
	return stopVerb(p, &cobra.Command{
		Use:   "freeze [TARGET --reason TEXT]",
		Short: "Freeze an agent, user, holder or capability, or list freezes",
		Long: "A freeze is a reversible revocation. It takes effect at once and in every mode, including observe. Calls are denied with\n" +
			"code frozen, streams end, and nothing new is issued. It survives restarts. Without TARGET freeze lists all freezes.\n" +
			"\n" +
			"TARGET is one of:\n" +
			"  agent:NAME                   the agent receives no calls and can make none\n" +
			"  user:alice or pw_...         a principal or its pseudonym\n" +
			"  key:THUMBPRINT               a holder\n" +
			"  cap_...                      a capability and everything derived from it",
		Example: "  powerbox freeze agent:documents --reason 'it answers with other users data'\n" +
			"  powerbox freeze user:alice --reason 'laptop stolen'\n" +
			"  powerbox freeze",
		Args: cobra.MaximumNArgs(1),
	}, "freezes", "frozen")
}

func newThaw(p *cli.Program) *cobra.Command {
	return stopVerb(p, &cobra.Command{
		Use:     "thaw TARGET --reason TEXT",
		Short:   "End a freeze",
		Long:    "Name TARGET as powerbox freeze lists it. Capabilities that were revoked or have expired do not return.",
		Example: "  powerbox thaw agent:documents --reason 'fixed in 1.4.2'",
		Args:    cobra.ExactArgs(1),
	}, "thaws", "thawed")
}

// stopVerb completes a verb that posts a target and a reason.
func stopVerb(p *cli.Program, cmd *cobra.Command, path, done string) *cobra.Command {
	var reason string
	v := p.OperatorVerb(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the record; required with TARGET")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && reason == "" {
			return cli.Usage(errors.New("--reason is missing; want a short text for the record, such as 'laptop stolen'"))
		}
		if len(args) == 0 {
			return cli.Show(cmd.Context(), v, cli.Get(pathFreezes), func(frozen []audit.Freeze) error { return showFreezes(p, frozen) })
		}
		stop := cli.Post("/v1/"+path, map[string]string{"target": args[0], "reason": reason}).Of(cmd.Name() + " " + args[0])
		return cli.Show(cmd.Context(), v, stop, func(e audit.Freeze) error {
			cli.Printf(p.Stdout, "%s %s (revocation %d)\n", done, e.Target, e.Sequence)
			return nil
		})
	}
	return cmd
}

const pathFreezes = "/v1/freezes"

func freezes(ctx context.Context, o *cli.Operator) ([]audit.Freeze, error) {
	frozen := []audit.Freeze{}
	err := o.Get(ctx, pathFreezes, &frozen)
	return frozen, err
}

func showFreezes(p *cli.Program, frozen []audit.Freeze) error {
	if len(frozen) == 0 {
		cli.Printf(p.Stdout, "nothing is frozen\n")
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "FROZEN\tSINCE\tBY\tREASON\n")
	for _, f := range frozen {
		cli.Printf(w, "%s\t%s\t%s\t%s\n", f.Target, plain.Time(f.At), f.By, f.Reason)
	}
	return w.Flush()
}
