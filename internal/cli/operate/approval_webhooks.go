package operate

import (
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

func newApprovalWebhooks(p *cli.Program) *cobra.Command {
	var again string
	cmd := &cobra.Command{
		Use:   "webhooks [--again ID]",
		Short: "List undelivered webhook messages, or retry one",
		Long: "The server retries a message until the webhook accepts it or the question is closed. It retries messages without a\n" +
			"question for a day, and keeps undelivered messages for a week. This command is for operators.",
		Example: "  powerbox approval webhooks\n  powerbox approval webhooks --again asked_ask_01hx.chat",
		Args:    cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.Flags().StringVar(&again, "again", "", "`ID` of an undelivered message to retry")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if again == "" {
			return cli.Show(cmd.Context(), v, cli.Get("/v1/webhooks").Of("webhooks"), func(all api.Webhooks) error { return showWebhooks(p, all) })
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/webhooks/"+url.PathEscape(again), nil).Of("webhooks "+again), func(m api.WebhookMessage) error {
			cli.Printf(p.Stdout, "%s is tried again\n", m.ID)
			return nil
		})
	}
	return cmd
}

func showWebhooks(p *cli.Program, all api.Webhooks) error {
	p.Empty(len(all.Webhooks), "no webhooks are configured (approvals.webhooks)")
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "WEBHOOK\tWAITING\tUNDELIVERED\n")
	for _, h := range all.Webhooks {
		cli.Printf(w, "%s\t%d\t%d\n", h.Name, h.Waiting, h.Dead)
	}
	if len(all.Dead) > 0 {
		cli.Printf(w, "\nMESSAGE\tGIVEN UP\tTRIES\tWHY\n")
		for _, m := range all.Dead {
			cli.Printf(w, "%s\t%s\t%d\t%s\n", m.ID, m.Died.UTC().Format("2006-01-02T15:04:05Z"), m.Tries, m.Why)
		}
	}
	return w.Flush()
}
