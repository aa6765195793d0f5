package design

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// preflightJSON is the stable form of what the gate says before a hand-off.
type preflightJSON struct {
	Passes bool `json:"passes"`
	*gate.Failure
	Text string `json:"text,omitempty"` // status text of the task that fails (GATE-3)
}

func newGraphPreflight(p *cli.Program) *cobra.Command {
	var g GraphFlags
	var requires []string
	cmd := &cobra.Command{
		Use:   "preflight FROM TO --requires OPERATION,... [FILE...]",
		Short: "Check whether one agent may delegate a task to another",
		Long: "The other agent must support every required operation, and the scope of the first agent must allow it. Preflight exits\n" +
			"with 3 if the delegation is not possible. It prints the text that the failed task of the first agent shows\n" +
			"(TASK_STATE_FAILED), with the exact missing operations.",
		Args:    cobra.MinimumNArgs(2),
		Example: "  powerbox graph preflight analyst mailer --requires mail.send delegation.yaml",
	}
	output := cli.OutputFlag(cmd)
	g.add(cmd)
	cmd.Flags().StringSliceVar(&requires, "requires", nil, "`operations` that the task needs (required)")
	cli.Required(cmd, "requires")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := declarations(cmd.Context(), p, args[2:], g)
		if err != nil {
			return err
		}
		graph, err := d.Graph() // with agents that only a scope names
		if err != nil {
			return cli.Invalid(err)
		}
		h, err := graph.Handoff(args[0], args[1], p.Now())
		if err != nil {
			return err
		}
		for _, name := range requires {
			op, err := powerbox.ParseOperation(d.Agents[args[1]].Prefix + name)
			if err != nil {
				return cli.Usage(fmt.Errorf("--requires: %w", err))
			}
			h.Required = append(h.Required, op)
		}
		failure := gate.Preflight(h, p.Now())
		answer := preflightJSON{Passes: failure == nil, Failure: failure}
		if failure != nil {
			answer.Text = failure.Error()
		}
		switch {
		case *output == "json":
			err = p.PrintJSON(answer)
		case failure == nil:
			cli.Printf(p.Stdout, "yes\n")
		default:
			cli.Printf(p.Stdout, "%s\n", answer.Text)
		}
		if err == nil && failure != nil {
			return cli.Exit(cli.ExitDenied, nil)
		}
		return err
	}
	return cmd
}
