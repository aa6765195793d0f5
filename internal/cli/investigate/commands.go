// Package investigate has the commands that stop something, and those that find out what happened.
package investigate

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newCapability(p), newRevoke(p), newFreeze(p), newThaw(p), newExplain(p), newCan(p), newTrace(p), newReport(p), newUsage(p)}
}
