package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func newFeed(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed",
		Short: "The signed feed of revocations: its key, and going on without it for a planned outage",
		Long: "Gateways apart from the server follow the feed of revocations and freezes. Without news for 30 seconds they\n" +
			"deny everything that they enforce (code revocations_stale).",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFeedExtend(p), newFeedKey(p))
	return cmd
}

func newFeedExtend(p *program) *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use:   "extend --until TIME --reason TEXT",
		Short: "Let gateways go on reading without news, for a planned outage of the server",
		Long: "For an hour at the most; what changes something is denied all the same. Every gateway that follows the feed\n" +
			"has it within a moment; do it before the outage. A time that has passed ends it.",
		Example: "  powerbox feed extend --until 20m --reason 'new disk'\n  powerbox feed extend --until 2027-01-15T08:30:00Z --reason 'new disk'",
	}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`time`, such as 2027-01-15T08:30:00Z, or how long from now, such as 20m")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the record; required")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		end, err := p.untilTime(until)
		if err == nil && reason == "" {
			err = errors.New("--reason is missing; want why it is done, for the record")
		}
		if err != nil {
			return usage(err)
		}
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		var e struct {
			Until    time.Time `json:"until"`
			By       string    `json:"by"`
			Reason   string    `json:"reason"`
			Sequence int64     `json:"sequence"`
			At       time.Time `json:"at"`
		}
		if err := op.call(cmd.Context(), http.MethodPost, "/v1/feed/extension", map[string]any{"until": end, "reason": reason}, &e); err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(e)
		}
		fmt.Fprintf(p.stdout, "gateways can read without news until %s (revocation %d)\n", shortTime(e.Until), e.Sequence)
		return nil
	}
	return cmd
}

// untilTime reads a time, or a duration from now.
func (p *program) untilTime(s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return p.now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("--until is %q; want a time such as 2027-01-15T08:30:00Z, or a duration such as 20m", s)
	}
	return t, nil
}

func newFeedKey(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Print the public key of the feed, which its followers pin"}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		var k struct {
			Issuer   string `json:"issuer"`
			Key      string `json:"key"`
			Sequence int64  `json:"sequence"`
		}
		if err := op.get(cmd.Context(), "/v1/feed/key", &k); err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(k)
		}
		fmt.Fprintln(p.stdout, k.Key)
		return nil
	}
	return cmd
}
