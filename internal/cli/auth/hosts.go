package auth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newAgentHosts(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hosts", Short: "As a person, list your hosts; as an administrator, all hosts", Args: cobra.NoArgs,
		Example: "  powerbox agent hosts --server https://bank.example --session-file session",
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.Person(f)
		if err != nil {
			return err
		}
		var all cli.Hosts
		raw, err := who.Call(cmd.Context(), http.MethodGet, "/v1/hosts", nil, &all)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintRaw(raw)
		}
		w := tabwriter.NewWriter(p.Visible(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "HOST\tNAME\tOF\tSTATUS\tAGENTS\tDEFAULTS THAT ARE ASKED FOR")
		for _, h := range all.Hosts {
			fmt.Fprintf(w, "%s\t%q\t%s\t%s\t%d\t%s\n", h.ID, h.Name, cmp.Or(h.User, "-"), h.Status, len(h.Agents), cmp.Or(strings.Join(h.Asked, ", "), "-"))
		}
		return w.Flush()
	}
	return cmd
}

func newAgentLink(p *cli.Program) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "link HOST",
		Short: "As an administrator, link a host to a user",
		Long: "Link assigns a host without a user to a user. New agents of the host get the default capabilities that only read, without\n" +
			"asking. Defaults that change something need a passkey: the answer names the page. Autonomous agents of the host are\n" +
			"claimed for the user, and end.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox agent link hst_... --user user:alice --server https://bank.example --session-file session",
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.Flags().StringVar(&user, "user", "", "principal that the host is linked to, such as user:alice (required)")
	cli.Required(cmd, "user")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if user == "" {
			return cli.Usage(errors.New("--user is empty; want a principal such as user:alice"))
		}
		var said struct {
			AtOnce  []string `json:"at_once"`
			Asked   []string `json:"asked_for"`
			Claimed int      `json:"agents_claimed"`
			Page    string   `json:"page"`
		}
		return changeHost(p, cmd, f, args[0], "/link", map[string]any{"user": user}, *output, &said, func() string {
			text := fmt.Sprintf("%s is of %s; its agents have at once: %s", args[0], user, cmp.Or(strings.Join(said.AtOnce, ", "), "nothing"))
			if said.Claimed > 0 {
				text += fmt.Sprintf("\nof those that acted on their own %s ended", counted(said.Claimed))
			}
			if len(said.Asked) > 0 {
				text += fmt.Sprintf("\nasked for each time: %s; to let them have it at once, with a passkey: %s", strings.Join(said.Asked, ", "), said.Page)
			}
			return text
		})
	}
	return cmd
}

func newAgentUnlink(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unlink HOST",
		Short:   "As a person, unlink one of your hosts",
		Long:    "Unlink ends the agents of the host that act for you. The provider still knows the host.",
		Example: "  powerbox agent unlink hst_... --server https://bank.example --session-file session",
		Args:    cobra.ExactArgs(1),
	}
	output, f := cli.OutputFlag(cmd), cli.AddPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var said struct {
			Ended int `json:"agents_revoked"`
		}
		return changeHost(p, cmd, f, args[0], "/unlink", map[string]any{}, *output, &said, func() string {
			return fmt.Sprintf("%s is nobody's; %s ended", args[0], counted(said.Ended))
		})
	}
	return cmd
}

// changeHost changes a host, and prints its new state.
func changeHost(p *cli.Program, cmd *cobra.Command, f *cli.PersonFlags, host, path string, body map[string]any, output string, answer any, says func() string) error {
	who, err := p.Person(f)
	if err != nil {
		return err
	}
	raw, err := who.Call(cmd.Context(), http.MethodPost, "/v1/hosts/"+url.PathEscape(host)+path, body, answer)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.PrintRaw(raw)
	}
	_, err = fmt.Fprintln(p.Visible(), says())
	return err
}

func counted(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}
