package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// OutputFlag adds --output, which is text or json.
func OutputFlag(cmd *cobra.Command) *string {
	output := cmd.Flags().StringP("output", "o", "text", "text or json")
	Values(cmd, "output", "text", "json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *output != "text" && *output != "json" {
			return Usage(fmt.Errorf("--output is %q; want text or json", *output))
		}
		return nil
	}
	return output
}

// Required marks flags without which a command does not run.
func Required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("a flag that is not there is required: " + name)
		}
	}
}
