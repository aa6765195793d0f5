package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newAgentActivity(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "activity",
		Short:   "As a person, list the activity of your agents, newest first",
		Example: "  powerbox agent activity --server https://bank.example --session-file session",
		Args:    cobra.NoArgs,
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.Person(f)
		if err != nil {
			return err
		}
		var answer struct {
			Activity []struct {
				At      string `json:"at"`
				By      string `json:"by"`
				Name    string `json:"name"`
				What    string `json:"what"`
				Allowed bool   `json:"allowed"`
				Outcome string `json:"outcome"`
			} `json:"activity"`
		}
		raw, err := who.Call(cmd.Context(), http.MethodGet, "/v1/activity", nil, &answer)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintRaw(raw)
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "AT\tBY\tNAME\tWHAT\tDECISION\tOUTCOME")
		for _, a := range answer.Activity {
			decision := "denied"
			if a.Allowed {
				decision = "allowed"
			}
			fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%s\t%s\n", a.At, a.By, a.Name, a.What, decision, a.Outcome)
		}
		return w.Flush()
	}
	return cmd
}

func newAgentForget(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forget AGENT",
		Short:   "As a person, delete the stored data of an ended agent",
		Example: "  powerbox agent forget agt_... --server https://bank.example --session-file session",
		Long: "Forget deletes the agent's name, its reasons, its denied requests and its activity. Evidence keeps its records, with ids\n" +
			"and without texts.",
		Args: cobra.ExactArgs(1),
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		who, err := p.Person(f)
		if err != nil {
			return err
		}
		raw, err := who.Call(cmd.Context(), http.MethodPost, "/v1/host-agents/"+url.PathEscape(args[0])+"/forget", nil, new(any))
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintRaw(raw)
		}
		_, err = fmt.Fprintln(p.Stdout, args[0]+" is forgotten")
		return err
	}
	return cmd
}
