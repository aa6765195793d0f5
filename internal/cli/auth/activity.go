package auth

import (
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newAgentActivity(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "activity",
		Short:   "As a person, list the activity of your agents, newest first",
		Example: "  powerbox agent activity --session-file session",
		Args:    cobra.NoArgs,
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get("/v1/activity"), func(a activity) error { return a.print(p) })
	}
	return cmd
}

// activity is what the agents of a person did, as the server tells it.
type activity struct {
	Activity []struct {
		At      string `json:"at"`
		By      string `json:"by"`
		Name    string `json:"name"`
		What    string `json:"what"`
		Allowed bool   `json:"allowed"`
		Outcome string `json:"outcome"`
	} `json:"activity"`
}

func (all activity) print(p *cli.Program) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "AT\tBY\tNAME\tWHAT\tDECISION\tOUTCOME\n")
	for _, a := range all.Activity {
		decision := "denied"
		if a.Allowed {
			decision = "allowed"
		}
		cli.Printf(w, "%s\t%s\t%q\t%s\t%s\t%s\n", a.At, a.By, a.Name, a.What, decision, a.Outcome)
	}
	return w.Flush()
}

func newAgentForget(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forget AGENT",
		Short:   "As a person, delete the stored data of an ended agent",
		Example: "  powerbox agent forget agt_... --session-file session",
		Long: "Forget deletes the agent's name, its reasons, its denied requests and its activity. Evidence keeps its records, with ids\n" +
			"and without texts.",
		Args: cobra.ExactArgs(1),
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return cli.Show(cmd.Context(), v, cli.Post("/v1/host-agents/"+url.PathEscape(args[0])+"/forget", nil), func(any) error {
			cli.Printf(p.Stdout, "%s is forgotten\n", args[0])
			return nil
		})
	}
	return cmd
}
