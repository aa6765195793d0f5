package nodes

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newFeed(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "feed",
		Short:   "Show the key of the revocation feed, and plan an outage",
		Example: "  powerbox feed key",
		Long: "Remote gateways follow the feed of revocations and freezes. Without news for 30 seconds they deny everything that they\n" +
			"enforce (code revocations_stale).",
	}
	cmd.AddCommand(newFeedExtend(p), newFeedKey(p), newFeedStatus(p))
	return cmd
}

func newFeedExtend(p *cli.Program) *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use:   "extend --until TIME --reason TEXT",
		Short: "Let gateways serve reads during a planned server outage",
		Long: "An extension lasts at most one hour. Gateways still deny calls that change something. Run the command before the outage,\n" +
			"so that every gateway receives it. A time in the past ends the extension.",
		Example: "  powerbox feed extend --until 20m --reason 'new disk'\n  powerbox feed extend --until 2027-01-15T08:30:00Z --reason 'new disk'",
	}
	v := p.OperatorVerb(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`time`, such as 2027-01-15T08:30:00Z, or how long from now, such as 20m")
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the record (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		end, err := untilTime(p, until)
		if err == nil && reason == "" {
			err = errors.New("--reason is missing; want a short text for the record, such as 'new disk'")
		}
		if err != nil {
			return cli.Usage(err)
		}
		type extension struct {
			Until    time.Time `json:"until"`
			By       string    `json:"by"`
			Reason   string    `json:"reason"`
			Sequence int64     `json:"sequence"`
			At       time.Time `json:"at"`
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/feed/extension", map[string]any{"until": end, "reason": reason}), func(e extension) error {
			cli.Printf(p.Stdout, "gateways can read without news until %s (revocation %d)\n", plain.Time(e.Until), e.Sequence)
			return nil
		})
	}
	return cmd
}

// untilTime reads a time, or a duration from now.
func untilTime(p *cli.Program, s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return p.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("--until is %q; want a time such as 2027-01-15T08:30:00Z, or a duration such as 20m", s)
	}
	return t, nil
}

func newFeedKey(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Print the public key that followers of the feed pin",
		Example: "  powerbox feed key",
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		type feedKey struct {
			Issuer   string `json:"issuer"`
			Key      string `json:"key"`
			Sequence int64  `json:"sequence"`
		}
		return cli.Show(cmd.Context(), v, cli.Get("/v1/feed/key"), func(k feedKey) error {
			cli.Printf(p.Stdout, "%s\n", k.Key)
			return nil
		})
	}
	return cmd
}

func newFeedStatus(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status CAPABILITY",
		Short:   "Print the status list entry of a capability",
		Example: "  powerbox feed status cap_...",
		Long: "Status is for verifiers outside Powerbox. The entry is in the Token Status List of the agent\n" +
			"(draft-ietf-oauth-status-list), signed with the agent's issuing key and valid for 30 seconds: 0 valid, 1 revoked,\n" +
			"2 frozen. The first call assigns the entry. Gateways follow the feed instead. The list has no links that\n" +
			"holders derive offline.",
		Args: cobra.ExactArgs(1),
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		type entry struct {
			Capability string `json:"capability"`
			Status     struct {
				List struct {
					Index int    `json:"idx"`
					URI   string `json:"uri"`
				} `json:"status_list"`
			} `json:"status"`
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/capabilities/"+url.PathEscape(args[0])+"/status", nil), func(e entry) error {
			cli.Printf(p.Stdout, "%s is at %d of %s\n", e.Capability, e.Status.List.Index, e.Status.List.URI)
			return nil
		})
	}
	return cmd
}
