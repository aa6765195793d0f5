package operate

import (
	"fmt"
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
	"checkpoint":         "verifiers pin it: under another key they would reject the log as a different one",
	"feed":               "remote gateways identify the server by it: begin a new server and enroll them there",
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
		Long: "Rotate creates a new issuing key for an agent at the running server. The key is published at once. It signs after a lead\n" +
			"time, so that verifiers with cached keys know it. Signatures of the old key are accepted until the grace period ends. By\n" +
			"default this is the lifetime of a capability, so that no capability ends early. If the key was stolen, use --grace 0s:\n" +
			"the old key and every chain under it end at once. The rotation is recorded, with the time of the new key.",
		Args: cobra.ExactArgs(1),
	}
	v := p.OperatorVerb(cmd)
	cli.AgentArgument(cmd)
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long signatures of the old key are accepted; default: issuer.maximum_lifetime plus the lead")
	cmd.Flags().DurationVar(&lead, "lead", 0, "how long the new key is published before it signs, at most the grace; default: 1m30s")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if why, fixed := fixedKeys[args[0]]; fixed {
			return cli.Usage(fmt.Errorf("the key %s is not rotated: %s", args[0], why))
		}
		var asked api.Rotation
		if cmd.Flags().Changed("grace") {
			asked.Grace = &grace
		}
		if cmd.Flags().Changed("lead") {
			asked.Lead = &lead
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/agents/"+url.PathEscape(args[0])+"/keys", asked), func(done api.Rotated) error {
			printRotated(p, done)
			return nil
		})
	}
	return cmd
}

func printRotated(p *cli.Program, done api.Rotated) {
	cli.Printf(p.Stdout, "%s signs with %s from %s\n", done.Agent, done.Key, done.Signs.UTC().Format(time.RFC3339))
	if done.Until == nil {
		cli.Printf(p.Stdout, "%s is gone: nothing that it signed is accepted any more\n", done.Before)
		return
	}
	cli.Printf(p.Stdout, "what %s signed is accepted until %s\n", done.Before, done.Until.UTC().Format(time.RFC3339))
	if done.Ends {
		cli.Printf(p.Stderr, "this is sooner than capabilities can end: some end with the old key\n")
	}
}
