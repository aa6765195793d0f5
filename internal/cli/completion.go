package cli

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
)

// Values lets the shell complete a flag with one of a fixed set of values.
func Values(cmd *cobra.Command, flag string, values ...string) {
	complete(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// AgentFlag lets the shell complete a flag with the ids of the agents in the configuration.
func AgentFlag(cmd *cobra.Command, flag string) {
	complete(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return agentIDs(cmd), cobra.ShellCompDirectiveNoFileComp
	})
}

// AgentArgument lets the shell complete the first argument with the ids of the agents in the
// configuration, and each later one with the values for its place.
func AgentArgument(cmd *cobra.Command, later ...[]string) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var values []string
		switch n := len(args); {
		case n == 0:
			values = agentIDs(cmd)
		case n <= len(later):
			values = later[n-1]
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func complete(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic("the values of a flag cannot be completed: " + err.Error())
	}
}

// agentIDs reads the configuration that --config names. It returns nothing on an error, because a
// shell has no place for a message there.
func agentIDs(cmd *cobra.Command) []string {
	file := DefaultConfig
	if f := cmd.Flag("config"); f != nil {
		file = f.Value.String()
	}
	c, err := config.Load(file, os.ReadFile, os.Environ())
	if err != nil {
		return nil
	}
	var ids []string
	for _, a := range c.Agents {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}
