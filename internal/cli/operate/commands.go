// Package operate has the commands of those who run a server: approvals, modes, people, grants, policies, keys, stores.
package operate

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newApproval(p), newMode(p), newPerson(p), newPolicy(p), newGrant(p), newRegistry(p), newConfig(p), newKeys(p), newStore(p), newMigrate(p), newLogin(p)}
}
