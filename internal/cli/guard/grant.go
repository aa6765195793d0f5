package guard

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
	"github.com/powerbox-project/powerbox/internal/guard/install"
	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

func newGrant(p *cli.Program) *cobra.Command {
	var project *string
	var yes, commands bool
	cmd := &cobra.Command{
		Use: "grant [FILE]", Short: "Give the sessions of a project a grant, or show it",
		Example: "  powerbox guard grant grant.yaml", Args: cobra.MaximumNArgs(1),
		Long: "A file in the project gives nothing before this command. Sessions that run keep what they began with.",
		RunE: func(_ *cobra.Command, args []string) error {
			if commands {
				cli.Document(p.Stdout, strings.Join(shell.Names(), "\n"))
				return nil
			}
			at, err := locate(p)
			if err != nil {
				return err
			}
			dir, err := absolute(*project)
			if err != nil {
				return err
			}
			grants := daemon.Grants{State: at.state}
			_, old, err := grants.Find(dir)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				cli.Document(p.Stdout, old)
				return nil
			}
			text, err := p.ReadFile(args[0])
			if err != nil {
				return err
			}
			s := scope{yes: yes}
			if ok, err := s.confirm(p, []install.Change{{Path: "grant of " + dir, Before: old, After: text}}); err != nil || !ok {
				return err
			}
			if err := grants.Give(dir, text); err != nil {
				return cli.Invalid(err)
			}
			cli.Printf(p.Stdout, "New sessions in %s have this grant.\n", dir)
			return nil
		},
	}
	project = projectFlag(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&commands, "commands", false, "list the commands that run can name by their name alone")
	return cmd
}
