package operate

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// signsRecords is why a key that signs records is not rotated.
const signsRecords = "what verifies records that are there is pinned by it: change evidence.algorithm, which closes it and enrols another on record, or begin a new server"

// fixedKeys are the keys that rotating would break what they are for, with why
// and what to do instead.
var fixedKeys = map[string]string{
	"evidence":           signsRecords,
	"evidence-es256":     signsRecords,
	"evidence-ml-dsa-87": signsRecords,
	"checkpoint":         "the log is known by it: whoever pinned it would take the log for another one",
	"feed":               "gateways apart know the server by it: enrol them anew with a new server",
	"handles":            "every handle that was handed out would be void",
	"pairwise":           "users would have other pseudonyms in evidence and freezes",
	"operator":           "stop the server, delete keys/operator.secret and start it again",
}

func newKeysRotate(p *cli.Program) *cobra.Command {
	var grace, lead time.Duration
	cmd := &cobra.Command{
		Use:   "rotate AGENT [--grace D]",
		Short: "Replace the issuing key of an agent, with a grace period",
		Example: "  powerbox keys rotate documents\n" +
			"  powerbox keys rotate documents --grace 0s",
		Long: "Rotate makes a new issuing key for an agent at the running server. It is published at once and signs after a lead, when\n" +
			"those who keep published keys have it. What the old key signed is accepted until the grace is over: by default as long as\n" +
			"a capability lives, so that nothing ends by it. With --grace 0s the old key is gone at once, and every chain under it:\n" +
			"for a key that was stolen. The rotation is on record, with the time from which the agent's key is new.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long what the old key signed is accepted; issuer.maximum_lifetime and the lead where absent")
	cmd.Flags().DurationVar(&lead, "lead", 0, "how long the new key is published before it signs; 1m30s where absent, and never longer than the grace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if why, fixed := fixedKeys[args[0]]; fixed {
			return cli.Usage(fmt.Errorf("the key %s is not rotated: %s", args[0], why))
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var asked api.Rotation
		if cmd.Flags().Changed("grace") {
			asked.Grace = &grace
		}
		if cmd.Flags().Changed("lead") {
			asked.Lead = &lead
		}
		var done api.Rotated
		if err := op.Call(cmd.Context(), http.MethodPost, "/v1/agents/"+url.PathEscape(args[0])+"/keys", asked, &done); err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(done)
		}
		printRotated(p, done)
		return nil
	}
	return cmd
}

func printRotated(p *cli.Program, done api.Rotated) {
	fmt.Fprintf(p.Stdout, "%s signs with %s from %s\n", done.Agent, done.Key, done.Signs.UTC().Format(time.RFC3339))
	if done.Until == nil {
		fmt.Fprintf(p.Stdout, "%s is gone: nothing that it signed is accepted any more\n", done.Before)
		return
	}
	fmt.Fprintf(p.Stdout, "what %s signed is accepted until %s\n", done.Before, done.Until.UTC().Format(time.RFC3339))
	if done.Ends {
		fmt.Fprintln(p.Stderr, "this is sooner than capabilities can end: some end with the old key")
	}
}
