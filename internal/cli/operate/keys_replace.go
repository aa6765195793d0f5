package operate

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
)

// afterReplacing names the next steps after a key was replaced, by the name of
// the key without its end.
var afterReplacing = map[string]string{
	"evidence":           afterEvidence,
	"evidence-es256":     afterEvidence,
	"evidence-ml-dsa-87": afterEvidence,
	"checkpoint":         "Give the new checkpoint key to every witness and every verifier that pins the log: powerbox evidence trust. Checkpoints made before verify under the old key",
	"feed":               "Enrol every remote gateway again, and give relays and other readers of the feed the new key",
	"handles":            "Resource handles that were issued before are void: holders must request new ones",
	"pairwise":           "Users have other pseudonyms in new records. Run powerbox freeze to see what is frozen, and freeze users again whose freeze names a pseudonym",
	"oauth":              "Access tokens that the old key signed are no longer accepted: clients get new ones with their refresh tokens",
	"credentials":        "Persons must consent again to agents that are called with their accounts: URL/connect/AGENT",
	"approvals":          "Arguments that were kept sealed for approvals under the old key cannot be read any more",
}

const afterEvidence = "Records made before verify under the old key, which is closed on record. Give verifiers the new list of keys: powerbox evidence trust"

func newKeysReplace(p *cli.Program) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "replace KEY --reason TEXT",
		Short: "Replace a lost or exposed key while the server is stopped",
		Long: "Replace creates a new key in place of a key that is lost, damaged or exposed. Stop the server first. KEY is a name from\n" +
			"powerbox keys list, or the id of an agent. The record names both keys. Earlier evidence still verifies: the old key is\n" +
			"closed, and the new one enrolled. The command names everything else that is lost with the old key. An existing key file\n" +
			"is kept under another name. To replace the key of an agent that is not lost, use powerbox keys rotate.",
		Example: "  powerbox keys replace evidence --reason \"the disk lost it\"",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the record (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(reason) == "" {
			return cli.Usage(errors.New("--reason is missing: the record says why a key was replaced"))
		}
		c, err := p.LoadConfig(file)
		if err != nil {
			return err
		}
		name, err := replaceable(c, args[0])
		if err != nil {
			return cli.Usage(err)
		}
		r := &app.Replacement{File: name, Reason: reason}
		i, err := app.Assemble(cmd.Context(), app.Assembly{Config: c, Dev: true, Replaced: r, Now: p.Now, Log: slog.New(slog.NewJSONHandler(p.Stderr, nil))})
		if err != nil {
			return err
		}
		now := i.Ring.Used()[name]
		if err := i.Close(); err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%s is replaced: it was %s and is %s\n", name, orUnknown(r.Before), now)
		cli.Printf(p.Stderr, "%s.\n", afterwards(name))
		return nil
	}
	return cmd
}

func orUnknown(id string) string {
	if id == "" {
		return "not known by its id"
	}
	return id
}

// afterwards names the next steps after the key in a file was replaced.
func afterwards(file string) string {
	if agent, ok := strings.CutPrefix(strings.TrimSuffix(file, ".jwk"), "agent-"); ok {
		return "Capabilities of " + agent + " that the old key signed are no longer accepted: holders must request new ones"
	}
	return afterReplacing[strings.TrimSuffix(file, ".secret")]
}

// replaceable returns the file of a key that can be replaced.
func replaceable(c *config.Config, name string) (string, error) {
	agent := strings.TrimPrefix(name, "agent-")
	if slices.ContainsFunc(c.Agents, func(a config.Agent) bool { return a.ID == agent }) {
		return "agent-" + agent + ".jwk", nil
	}
	if _, ok := afterReplacing[name]; !ok {
		return "", fmt.Errorf("there is no key %q that can be replaced; want an agent's id, evidence, evidence-es256, evidence-ml-dsa-87, checkpoint, credentials, feed, oauth, handles, pairwise or approvals", name)
	}
	return name + ".secret", nil
}
