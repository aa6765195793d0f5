// Package capability has the commands of a caller: ask for a capability, narrow it, call with it.
package capability

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newRequest(p), newNarrow(p), newCall(p), newAttach(p), newToken(p)}
}
