package operate

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newMode(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mode [AGENT [MODE]]",
		Short: "Show or set the enforcement mode of an agent",
		Example: "  powerbox mode\n" +
			"  powerbox mode documents\n" +
			"  powerbox mode documents require",
		Long: "Mode shows the current mode of all agents or of one, or sets it to observe, scoped, prefer or require. The value\n" +
			"overrides the configuration until you set another mode, or the mode \"configured\". Every change is recorded with its author.",
		Args: cobra.MaximumNArgs(2),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cli.AgentArgument(cmd, []string{"observe", "scoped", "prefer", "require", "configured"})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		if len(args) == 2 {
			return setMode(p, cmd, op, args[0], args[1], *output)
		}
		agents, err := op.Agents(cmd.Context())
		if err != nil {
			return err
		}
		return showModes(p, agents, args, *output)
	}
	return cmd
}

func setMode(p *cli.Program, cmd *cobra.Command, op *cli.Operator, agent, mode, output string) error {
	var answer struct {
		Agent  string `json:"agent"`
		Mode   string `json:"mode"`
		Before string `json:"before"`
	}
	err := op.Call(cmd.Context(), http.MethodPut, "/v1/agents/"+url.PathEscape(agent)+"/mode", map[string]string{"mode": mode}, &answer)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.PrintJSON(answer)
	}
	cli.Printf(p.Stdout, "%s is in mode %s (it was in %s)\n", answer.Agent, answer.Mode, answer.Before)
	var gateways []cli.GatewayStatus
	if op.Get(cmd.Context(), "/v1/gateways", &gateways) != nil {
		return nil // the mode is set; who may not see gateways is not told of them
	}
	if slices.ContainsFunc(gateways, func(g cli.GatewayStatus) bool { return g.Agent == agent && g.Closed == nil }) {
		cli.Printf(p.Stdout, "its remote gateways follow within seconds; until then they decide by the old mode\n")
	}
	return nil
}

func showModes(p *cli.Program, agents []cli.AgentStatus, only []string, output string) error {
	shown := []cli.AgentStatus{}
	for _, a := range agents {
		if len(only) == 0 || only[0] == a.ID {
			shown = append(shown, a)
		}
	}
	if len(shown) == 0 && len(only) > 0 {
		return fmt.Errorf("no agent %q is protected here; there are %s", only[0], agentNames(agents))
	}
	if output == "json" {
		return p.PrintJSON(shown)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "AGENT\tMODE\tURL\n")
	for _, a := range shown {
		mode := a.Mode
		if a.Canary < 100 {
			mode = plain.Share(mode, a.Canary)
		}
		if a.Frozen {
			mode += " (frozen)"
		}
		cli.Printf(w, "%s\t%s\t%s\n", a.ID, mode, a.URL)
		for _, r := range a.Rules {
			about, over := "caller "+r.Caller, ""
			if r.Grant != "" {
				about = "grant " + r.Grant
			}
			if a.Set {
				over = "; not in force, since a mode was set"
			}
			cli.Printf(w, "\t%s\t%s\n", plain.Share(r.Mode, r.Canary), about+over)
		}
	}
	return w.Flush()
}

func agentNames(agents []cli.AgentStatus) []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.ID
	}
	return names
}
