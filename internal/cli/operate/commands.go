// Package operate has the commands of those who run a server: approvals, modes, people, grants, policies, keys, stores.
package operate

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// OldNames are commands by the names that they had before, which help does not list.
func OldNames(p *cli.Program) []*cobra.Command {
	old := []*cobra.Command{newConfigDiff(p), newConfigApply(p)}
	for _, c := range old {
		c.Hidden = true
		c.Deprecated = "use powerbox config " + c.Name()
	}
	return old
}

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newApproval(p), newMode(p), newPerson(p), newPolicy(p), newGrant(p), newRegistry(p), newConfig(p), newKeys(p), newStore(p), newMigrate(p), newLogin(p), newLogout(p), newWhoAmI(p)}
}
