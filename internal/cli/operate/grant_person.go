package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newGrantList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "As a person, list the grants of your agents at a provider", Args: cobra.NoArgs,
		Example: "  powerbox grant list --session-file session",
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get("/v1/hosts"), func(all cli.Hosts) error { return listGrants(p, all) })
	}
	return cmd
}

func listGrants(p *cli.Program, all cli.Hosts) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	p.Empty(len(all.Hosts), "you have no host, and so no agent with grants")
	cli.Printf(w, "AGENT\tNAME\tHOST\tAGENT IS\tCAPABILITY\tGRANT IS\tONLY WITH\n")
	for _, h := range all.Hosts {
		for _, a := range h.Agents {
			if len(a.Grants) == 0 {
				cli.Printf(w, "%s\t%q\t%q\t%s\t-\t-\t\n", a.ID, a.Name, h.Name, a.Status)
			}
			for _, g := range a.Grants {
				cli.Printf(w, "%s\t%q\t%q\t%s\t%s\t%s\t%s\n", a.ID, a.Name, h.Name, a.Status, g.Capability, g.Status, g.Constraints)
			}
		}
	}
	return w.Flush()
}

func newGrantAdd(p *cli.Program) *cobra.Command {
	var constraints string
	cmd := &cobra.Command{
		Use:   "add AGENT CAPABILITY",
		Short: "As a person, give one of your agents one more capability",
		Long: "Add gives one capability that the agent did not request. A capability that changes something needs a passkey: give it\n" +
			"on the page /hosts.",
		Args: cobra.ExactArgs(2),
		Example: "  powerbox grant add agt_... list_accounts --session-file session\n" +
			"  powerbox grant add agt_... transfer_money --constraints '{\"amount\": {\"max\": 100}}' --server http://127.0.0.1:4850 --as alice",
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.Flags().StringVar(&constraints, "constraints", "", "by argument, as `JSON`: {\"amount\": {\"max\": 100}}")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body := map[string]any{"capability": args[1]}
		if constraints != "" {
			if !json.Valid([]byte(constraints)) {
				return cli.Usage(errors.New("--constraints is no JSON"))
			}
			body["constraints"] = json.RawMessage(constraints)
		}
		return changeGrant(p, cmd, f, args[0], "/grants", body, *output, args[0]+" holds "+args[1])
	}
	return cmd
}

func newGrantRevoke(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke AGENT CAPABILITY",
		Short: "As a person, revoke one capability of one of your agents",
		Long: "Revoke ends one grant from the next call on. The agent keeps its other grants. To end the agent with all its grants,\n" +
			"use the page /hosts, or powerbox agent disconnect on its host.",
		Args:    cobra.ExactArgs(2),
		Example: "  powerbox grant revoke agt_... transfer_money --session-file session",
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return changeGrant(p, cmd, f, args[0], "/grants/revoke", map[string]any{"capability": args[1]}, *output, args[0]+" holds "+args[1]+" no more")
	}
	return cmd
}

// changeGrant changes one grant of an agent, and prints its new state.
func changeGrant(p *cli.Program, cmd *cobra.Command, f *cli.PersonFlags, agent, path string, body map[string]any, output, done string) error {
	who, err := p.Person(f)
	if err != nil {
		return err
	}
	var answer struct {
		Revoked *int `json:"revoked"`
	}
	raw, err := who.Call(cmd.Context(), http.MethodPost, "/v1/host-agents/"+url.PathEscape(agent)+path, body, &answer)
	if err != nil {
		return err
	}
	if answer.Revoked != nil && *answer.Revoked == 0 {
		return fmt.Errorf("%s holds no grant of %s; powerbox grant list shows what it holds", agent, body["capability"])
	}
	if output == "json" {
		return p.PrintRaw(raw)
	}
	cli.Printf(p.Stdout, "%s\n", done)
	return nil
}
