// Package verify has the commands about evidence: read, export and verify it, and compare implementations with vectors.
package verify

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newEvidence(p), newTrust(p), newConformance(p)}
}
