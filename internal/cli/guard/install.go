package guard

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
	"github.com/powerbox-project/powerbox/internal/guard/install"
)

// scope are the flags that say whose settings are meant.
type scope struct {
	project *string
	user    bool
	yes     bool
}

func addScope(cmd *cobra.Command) *scope {
	s := &scope{project: projectFlag(cmd)}
	cmd.Flags().BoolVar(&s.user, "user", false, "the user's settings instead of the project's")
	return s
}

// paths are the settings of a scope.
func (s *scope) paths(at place) (clients.Paths, error) {
	project, err := absolute(*s.project)
	if err != nil {
		return clients.Paths{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return clients.Paths{}, err
	}
	return clients.Paths{Project: project, Home: at.home, User: s.user, Binary: binary}, nil
}

// client finds a coding agent, and where its settings are.
func (s *scope) client(p *cli.Program, name string) (at place, c clients.Client, paths clients.Paths, err error) {
	if at, err = locate(p); err != nil {
		return at, c, paths, err
	}
	if c, err = clients.Find(name); err != nil {
		return at, c, paths, cli.Usage(err)
	}
	paths, err = s.paths(at)
	return at, c, paths, err
}

func book(at place) install.Book { return install.Book{Dir: filepath.Join(at.state, "installed")} }

// settingsVerb completes a verb that changes the settings of a coding agent.
func settingsVerb(p *cli.Program, cmd *cobra.Command, run func(s *scope, at place, c clients.Client, paths clients.Paths) error) *cobra.Command {
	cmd.Use += " " + strings.Join(clientNames(), "|")
	cmd.Args, cmd.ValidArgs = cobra.ExactArgs(1), clientNames()
	s := addScope(cmd)
	cmd.Flags().BoolVar(&s.yes, "yes", false, "do not ask")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		at, c, paths, err := s.client(p, args[0])
		if err != nil {
			return err
		}
		return run(s, at, c, paths)
	}
	return cmd
}

func newInstall(p *cli.Program) *cobra.Command {
	return settingsVerb(p, &cobra.Command{
		Use: "install", Short: "Write the guard's hooks into the settings of a coding agent", Example: "  powerbox guard install claude-code",
		Long: "Install shows what it would write, asks, and writes it. What a file has stays as it is, comments and order\n" +
			"included. Uninstall takes it out again.",
	}, func(s *scope, at place, c clients.Client, paths clients.Paths) error {
		if _, ok, err := book(at).Find(c.Name, paths); err != nil || ok {
			if ok {
				err = fmt.Errorf("the guard is installed there already. Run powerbox guard uninstall %s first", c.Name)
			}
			return err
		}
		changes, err := install.Plan(c, paths)
		if err != nil {
			return err
		}
		if ok, err := s.confirm(p, changes); err != nil || !ok {
			return err
		}
		if err := book(at).Install(c.Name, paths, changes); err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%s is guarded. Sessions that run already must be started again.\n", c.Title)
		if _, text, err := (daemon.Grants{State: at.state}).Find(paths.Project); err == nil && !strings.Contains(string(text), "run:") {
			cli.Printf(p.Stdout, "The grant of this project runs no command. Give one with powerbox guard grant FILE.\n")
		}
		return nil
	})
}

// confirm shows changes and asks.
func (s *scope) confirm(p *cli.Program, changes []install.Change) (bool, error) {
	for _, ch := range changes {
		cli.Document(p.Stdout, diff.Diff(ch.Path, ch.Before, ch.Path, ch.After))
	}
	if s.yes {
		return true, nil
	}
	cli.Printf(p.Stderr, "Write this? [y/N] ")
	line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return false, errors.New("nothing was written. Answer y, or use --yes")
	}
	return true, nil
}

func newUninstall(p *cli.Program) *cobra.Command {
	return settingsVerb(p, &cobra.Command{
		Use: "uninstall", Short: "Take the guard's hooks out of the settings again", Example: "  powerbox guard uninstall claude-code",
	}, func(s *scope, at place, c clients.Client, paths clients.Paths) error {
		record, ok, err := book(at).Find(c.Name, paths)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the guard is not installed for %s there. See powerbox guard status", c.Title)
		}
		changes, err := record.Undo(c)
		if err != nil {
			return err
		}
		if ok, err := s.confirm(p, changes); err != nil || !ok {
			return err
		}
		if err := book(at).Uninstall(record, changes); err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%s is not guarded any more.\n", c.Title)
		return nil
	})
}

func newStatus(p *cli.Program) *cobra.Command {
	var project *string
	cmd := &cobra.Command{
		Use: "status", Short: "Show which coding agents are guarded, the grant and the daemon",
		Example: "  powerbox guard status", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			dir, err := absolute(*project)
			if err != nil {
				return err
			}
			for _, c := range clients.All() {
				for _, user := range []bool{false, true} {
					r, ok, err := book(at).Find(c.Name, clients.Paths{Project: dir, Home: at.home, User: user})
					if err != nil {
						return err
					}
					if !ok {
						continue
					}
					state := "guarded"
					if gone := r.Missing(c); len(gone) > 0 {
						state = "NOT guarded: entries are gone from " + strings.Join(gone, ", ") + ". Run powerbox guard uninstall " + c.Name + ", then install again"
					}
					cli.Printf(p.Stdout, "%-12s %-8s %s\n", c.Name, map[bool]string{false: "project", true: "user"}[user], state)
				}
			}
			owner, _, err := (daemon.Grants{State: at.state}).Find(dir)
			if err != nil {
				return err
			}
			cli.Printf(p.Stdout, "grant of %s: see powerbox guard grant\n", owner)
			if _, err := daemon.Call(cmd.Context(), at.socket, daemon.Request{Do: "questions"}); err != nil {
				cli.Printf(p.Stdout, "daemon: not running; the next hook starts it, or powerbox guard daemon\n")
				return nil
			}
			cli.Printf(p.Stdout, "daemon: running\n")
			return nil
		},
	}
	project = projectFlag(cmd)
	return cmd
}
