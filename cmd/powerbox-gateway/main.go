// Command powerbox-gateway is the part of powerbox that runs beside agents: remote gateways,
// attach, relays, witnesses, and the commands of a caller. It has no store, no policies and no
// console, which are in powerbox.
package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/capability"
	"github.com/powerbox-project/powerbox/internal/cli/nodes"
)

func main() { cli.Main(newRoot) }

// newRoot returns the tree of commands. They are the commands of powerbox, from the same packages.
func newRoot(p *cli.Program) *cobra.Command {
	return cli.Complete(&cobra.Command{
		Use:   "powerbox-gateway",
		Short: "Gateways and proxies of Powerbox, without the server",
		Long: "This program has the commands of powerbox that run beside agents. Their flags and files are the same.\n" +
			"The server that issues capabilities and keeps records is powerbox serve.\n\n" + cli.ExitCodes,
		Example: "  powerbox-gateway gateway enroll --server https://powerbox.example.org --token-file token\n" +
			"  powerbox-gateway gateway --listen 0.0.0.0:8701 --upstream http://127.0.0.1:9001\n" +
			"  powerbox-gateway attach --config attach.yaml",
	}, []cli.Group{
		{ID: "nodes", Title: "Many machines", Commands: append(nodes.Commands(p), newServe(), cli.NewVersion(p))},
		{ID: "capability", Title: "Use a capability", Commands: capability.Commands(p)},
	})
}

// errServer is the answer to a configuration of a server.
var errServer = errors.New("powerbox-gateway has no store and no policies, and cannot run the server of a configuration. " +
	"Run powerbox serve; a gateway here is enrolled at that server: powerbox-gateway gateway enroll")

// newServe refuses the configuration of a server by name, for an operator who has the wrong program.
func newServe() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		Short: "Refuse to run a server, which is powerbox serve",
		RunE:  func(*cobra.Command, []string) error { return cli.Usage(errServer) },
	}
}
