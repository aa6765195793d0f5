package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/web/api"
)

func newApprovalWebhooks(p *program) *cobra.Command {
	var again string
	cmd := &cobra.Command{
		Use:   "webhooks [--again ID]",
		Short: "Show what webhooks have not taken, or have a message tried again",
		Long: "A message to a webhook is tried until it is taken, until the question that it tells of is over, or, where\n" +
			"nobody has to answer, for a day. What was given up is kept for a week. This is for operators.",
		Example: "  powerbox approval webhooks\n  powerbox approval webhooks --again asked_ask_01hx.chat",
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.Flags().StringVar(&again, "again", "", "`ID` of a message that was given up, which is tried again")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		if again != "" {
			var m api.WebhookMessage
			if err := op.call(cmd.Context(), http.MethodPost, "/v1/webhooks/"+url.PathEscape(again), nil, &m); err != nil {
				return fmt.Errorf("webhooks %s: %w", again, err)
			}
			if *output == "json" {
				return json.NewEncoder(p.stdout).Encode(m)
			}
			fmt.Fprintf(p.stdout, "%s is tried again\n", printable(m.ID))
			return nil
		}
		var all api.Webhooks
		if err := op.call(cmd.Context(), http.MethodGet, "/v1/webhooks", nil, &all); err != nil {
			return fmt.Errorf("webhooks: %w", err)
		}
		if *output == "json" {
			return json.NewEncoder(p.stdout).Encode(all)
		}
		return p.showWebhooks(all)
	}
	return cmd
}

func (p *program) showWebhooks(all api.Webhooks) error {
	if len(all.Webhooks) == 0 {
		fmt.Fprintln(p.stderr, "no webhooks are configured (approvals.webhooks)")
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WEBHOOK\tWAITING\tUNDELIVERED")
	for _, h := range all.Webhooks {
		fmt.Fprintf(w, "%s\t%d\t%d\n", printable(h.Name), h.Waiting, h.Dead)
	}
	if len(all.Dead) > 0 {
		fmt.Fprintln(w, "\nMESSAGE\tGIVEN UP\tTRIES\tWHY")
		for _, m := range all.Dead {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", printable(m.ID), m.Died.UTC().Format("2006-01-02T15:04:05Z"), m.Tries, printable(m.Why))
		}
	}
	return w.Flush()
}
