package auth

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

func newAgentHosts(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hosts", Short: "As a person, list your hosts; as an administrator, all hosts", Args: cobra.NoArgs,
		Example: "  powerbox agent hosts --session-file session",
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get("/v1/hosts"), func(all cli.Hosts) error {
			w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
			cli.Printf(w, "HOST\tNAME\tOF\tSTATUS\tAGENTS\tDEFAULTS THAT ARE ASKED FOR\n")
			p.Empty(len(all.Hosts), "you have no host")
			for _, h := range all.Hosts {
				cli.Printf(w, "%s\t%q\t%s\t%s\t%d\t%s\n", h.ID, h.Name, cmp.Or(h.User, "-"), h.Status, len(h.Agents), cmp.Or(strings.Join(h.Asked, ", "), "-"))
			}
			return w.Flush()
		})
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
		Example: "  powerbox agent link hst_... --user user:alice --session-file session",
	}
	v := p.PersonVerb(cmd)
	cmd.Flags().StringVar(&user, "user", "", "principal that the host is linked to, such as user:alice (required)")
	cli.Required(cmd, "user")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if user == "" {
			return cli.Usage(errors.New("--user is empty; want a principal such as user:alice"))
		}
		type linked struct {
			AtOnce  []string `json:"at_once"`
			Asked   []string `json:"asked_for"`
			Claimed int      `json:"agents_claimed"`
			Page    string   `json:"page"`
		}
		return cli.Show(cmd.Context(), v, ofHost(args[0], "/link", map[string]any{"user": user}), func(said linked) error {
			lines := []string{fmt.Sprintf("%s is of %s; its agents have at once: %s", args[0], user, cmp.Or(strings.Join(said.AtOnce, ", "), "nothing"))}
			if said.Claimed > 0 {
				lines = append(lines, fmt.Sprintf("of those that acted on their own %s ended", counted(said.Claimed)))
			}
			if len(said.Asked) > 0 {
				lines = append(lines, fmt.Sprintf("asked for each time: %s; to let them have it at once, with a passkey: %s", strings.Join(said.Asked, ", "), said.Page))
			}
			for _, line := range lines {
				cli.Printf(p.Stdout, "%s\n", line)
			}
			return nil
		})
	}
	return cmd
}

func newAgentUnlink(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unlink HOST",
		Short:   "As a person, unlink one of your hosts",
		Long:    "Unlink ends the agents of the host that act for you. The provider still knows the host.",
		Example: "  powerbox agent unlink hst_... --session-file session",
		Args:    cobra.ExactArgs(1),
	}
	v := p.PersonVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		type unlinked struct {
			Ended int `json:"agents_revoked"`
		}
		return cli.Show(cmd.Context(), v, ofHost(args[0], "/unlink", map[string]any{}), func(said unlinked) error {
			cli.Printf(p.Stdout, "%s is nobody's; %s ended\n", args[0], counted(said.Ended))
			return nil
		})
	}
	return cmd
}

// ofHost is a call that changes a host.
func ofHost(host, path string, body map[string]any) cli.Call {
	return cli.Post("/v1/hosts/"+url.PathEscape(host)+path, body)
}

func counted(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}
