package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// hosts are those of a person, as the server says.
type hosts struct {
	Hosts []struct {
		ID     string   `json:"host_id"`
		Name   string   `json:"name"`
		User   string   `json:"user_id"`
		Status string   `json:"status"`
		Asked  []string `json:"asked_for"`
		Agents []struct {
			ID     string `json:"agent_id"`
			Name   string `json:"name"`
			Status string `json:"status"`
			Grants []struct {
				Capability  string          `json:"capability"`
				Status      string          `json:"status"`
				Constraints json.RawMessage `json:"constraints"`
			} `json:"agent_capability_grants"`
		} `json:"agents"`
	} `json:"hosts"`
}

func newGrantList(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "As a person, list what your agents at a provider hold", Args: cobra.NoArgs,
		Example: "  powerbox grant list --server https://bank.example --session-file session",
	}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.person(f)
		if err != nil {
			return err
		}
		var all hosts
		raw, err := who.call(cmd.Context(), http.MethodGet, "/v1/hosts", nil, &all)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.printRaw(raw)
		}
		w := tabwriter.NewWriter(p.visible(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "AGENT\tNAME\tHOST\tAGENT IS\tCAPABILITY\tGRANT IS\tONLY WITH")
		for _, h := range all.Hosts {
			for _, a := range h.Agents {
				if len(a.Grants) == 0 {
					fmt.Fprintf(w, "%s\t%q\t%q\t%s\t-\t-\t\n", a.ID, a.Name, h.Name, a.Status)
				}
				for _, g := range a.Grants {
					fmt.Fprintf(w, "%s\t%q\t%q\t%s\t%s\t%s\t%s\n", a.ID, a.Name, h.Name, a.Status, g.Capability, g.Status, shownJSON(g.Constraints))
				}
			}
		}
		return w.Flush()
	}
	return cmd
}

func newGrantAdd(p *program) *cobra.Command {
	var constraints string
	cmd := &cobra.Command{
		Use:   "add AGENT CAPABILITY",
		Short: "As a person, give an agent of yours one capability more",
		Long:  "Add gives one capability, for which the agent did not ask. What changes something needs a passkey, and is given on the page /hosts.",
		Args:  cobra.ExactArgs(2),
		Example: "  powerbox grant add agt_... list_accounts --server https://bank.example --session-file session\n" +
			"  powerbox grant add agt_... transfer_money --constraints '{\"amount\": {\"max\": 100}}' --server http://127.0.0.1:4850 --as alice",
	}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.Flags().StringVar(&constraints, "constraints", "", "by argument, as `JSON`: {\"amount\": {\"max\": 100}}")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body := map[string]any{"capability": args[1]}
		if constraints != "" {
			if !json.Valid([]byte(constraints)) {
				return usage(errors.New("--constraints is no JSON"))
			}
			body["constraints"] = json.RawMessage(constraints)
		}
		return p.changeGrant(cmd, f, args[0], "/grants", body, *output, args[0]+" holds "+args[1])
	}
	return cmd
}

func newGrantRevoke(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke AGENT CAPABILITY",
		Short:   "As a person, take one capability from an agent of yours; it stays, with its other grants",
		Long:    "Revoke takes one grant back, from the next call on. An agent is ended with all of its grants on the page /hosts, or by its host.",
		Args:    cobra.ExactArgs(2),
		Example: "  powerbox grant revoke agt_... transfer_money --server https://bank.example --session-file session",
	}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.changeGrant(cmd, f, args[0], "/grants/revoke", map[string]any{"capability": args[1]}, *output, args[0]+" holds "+args[1]+" no more")
	}
	return cmd
}

// changeGrant has one grant of an agent changed, and says what is so then.
func (p *program) changeGrant(cmd *cobra.Command, f *personFlags, agent, path string, body map[string]any, output, done string) error {
	who, err := p.person(f)
	if err != nil {
		return err
	}
	var answer struct {
		Revoked *int `json:"revoked"`
	}
	raw, err := who.call(cmd.Context(), http.MethodPost, "/v1/host-agents/"+url.PathEscape(agent)+path, body, &answer)
	if err != nil {
		return err
	}
	if answer.Revoked != nil && *answer.Revoked == 0 {
		return fmt.Errorf("%s holds no grant of %s; powerbox grant list shows what it holds", agent, body["capability"])
	}
	if output == "json" {
		return p.printRaw(raw)
	}
	_, err = fmt.Fprintln(p.visible(), done)
	return err
}
