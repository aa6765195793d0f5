package operate

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

func newGrant(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "grant", Short: "Manage single grants, and accept a wider agent card",
		Example: "  powerbox grant list --session-file session",
		Long: "A person adds and revokes the grants of their Agent Auth agents, one grant at a time.\n" +
			"\n" +
			"An operator accepts a wider card of an agent. Each grant is bound to the card at that time. If the card later offers or\n" +
			"reaches more (see powerbox card diff), the grant stops. It resumes when an operator consents, or when the card is no\n" +
			"wider than before.",
	}
	cmd.AddCommand(newGrantList(p), newGrantAdd(p), newGrantRevoke(p), newGrantConsent(p))
	return cmd
}

func newGrantConsent(p *cli.Program) *cobra.Command {
	var digest string
	cmd := &cobra.Command{
		Use:   "consent AGENT",
		Short: "Show grants that a wider card stopped, or resume them",
		Long: "Without --card-digest consent shows how the current card is wider than the cards of existing grants. It exits with 3 if\n" +
			"a grant is stopped. With the digest of the card that you reviewed, all these grants resume, and the consent is recorded.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox grant consent documents\n  powerbox grant consent documents --card-digest sha256:...",
	}
	o, output := cli.AddOperatorFlags(cmd), cli.OutputFlag(cmd)
	cli.AgentArgument(cmd)
	cmd.Flags().StringVar(&digest, "card-digest", "", "`digest` of the card to consent to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var c api.Consent
		path := api.PathRegistry + "/" + url.PathEscape(args[0]) + "/consent"
		if digest == "" {
			err = op.Get(cmd.Context(), path, &c)
		} else {
			err = op.Call(cmd.Context(), http.MethodPost, path, map[string]string{"card_digest": digest}, &c)
		}
		if err != nil {
			return err
		}
		if *output == "json" {
			err = p.PrintJSON(c)
		} else {
			printConsent(p, c, digest != "")
		}
		if err == nil && digest == "" && len(c.Stopped) > 0 {
			return cli.Exit(cli.ExitDenied, nil)
		}
		return err
	}
	return cmd
}

func printConsent(p *cli.Program, c api.Consent, given bool) {
	out := p.Stdout
	if len(c.Stopped) == 0 {
		cli.Printf(out, "nothing of %s waits; its card is %s\n", c.Agent, c.Digest)
		return
	}
	for _, s := range c.Stopped {
		cli.Printf(out, "granted with the card %s; since then it\n", s.Issued)
		for _, change := range s.Changes {
			cli.Printf(out, "  %s  %s: %s\n", change.Kind, change.Subject, change.Message)
		}
	}
	if given {
		cli.Printf(out, "goes on with the card %s\n", c.Digest)
		return
	}
	cli.Printf(out, "stopped until an operator consents: powerbox grant consent %s --card-digest %s\n", c.Agent, c.Digest)
}
