package operate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
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
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&again, "again", "", "`ID` of an undelivered message to retry")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		if again != "" {
			var m api.WebhookMessage
			if err := op.Call(cmd.Context(), http.MethodPost, "/v1/webhooks/"+url.PathEscape(again), nil, &m); err != nil {
				return fmt.Errorf("webhooks %s: %w", again, err)
			}
			if *output == "json" {
				return json.NewEncoder(p.Stdout).Encode(m)
			}
			fmt.Fprintf(p.Stdout, "%s is tried again\n", plain.Printable(m.ID))
			return nil
		}
		var all api.Webhooks
		if err := op.Call(cmd.Context(), http.MethodGet, "/v1/webhooks", nil, &all); err != nil {
			return fmt.Errorf("webhooks: %w", err)
		}
		if *output == "json" {
			return json.NewEncoder(p.Stdout).Encode(all)
		}
		return showWebhooks(p, all)
	}
	return cmd
}

func showWebhooks(p *cli.Program, all api.Webhooks) error {
	if len(all.Webhooks) == 0 {
		fmt.Fprintln(p.Stderr, "no webhooks are configured (approvals.webhooks)")
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WEBHOOK\tWAITING\tUNDELIVERED")
	for _, h := range all.Webhooks {
		fmt.Fprintf(w, "%s\t%d\t%d\n", plain.Printable(h.Name), h.Waiting, h.Dead)
	}
	if len(all.Dead) > 0 {
		fmt.Fprintln(w, "\nMESSAGE\tGIVEN UP\tTRIES\tWHY")
		for _, m := range all.Dead {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", plain.Printable(m.ID), m.Died.UTC().Format("2006-01-02T15:04:05Z"), m.Tries, plain.Printable(m.Why))
		}
	}
	return w.Flush()
}
