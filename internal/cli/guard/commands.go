// Package guard has the commands that guard coding agents: installing hooks, granting,
// answering questions, and reading what sessions did.
package guard

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	cmd := &cobra.Command{
		Use: "guard", Short: "Guard coding agents: their tool calls are decided before they run",
		Long: "A coding agent such as Claude Code calls a hook before it runs a command, edits a file or reaches the\n" +
			"network. The guard decides each call by a grant that you gave for the project, gives sub-agents narrower\n" +
			"leases, and records every decision. See docs/how-to/coding-agents.md.",
		Example: "  powerbox guard grant guard.yaml        give the sessions of this project what the file says\n" +
			"  powerbox guard install claude-code     write the hooks into .claude/settings.json\n" +
			"  powerbox guard report                  what sessions did",
	}
	cmd.AddCommand(newGrant(p), newInstall(p), newUninstall(p), newStatus(p), newQuestions(p), newAnswer(p), newReport(p), newAdvise(p), newLog(p), newDaemon(p), newHook(p), newMCP(p))
	return []*cobra.Command{cmd}
}

// The variables that move the guard's folders, for tests and unusual machines.
const (
	stateVariable   = "POWERBOX_GUARD_STATE"
	runtimeVariable = "POWERBOX_GUARD_RUNTIME"
	noStartVariable = "POWERBOX_GUARD_NO_START" // a hook does not start the daemon
)

// place is where the guard keeps what it has, for this user.
type place struct {
	state  string
	home   string
	socket daemon.Socket
}

func locate(p *cli.Program) (place, error) {
	var at place
	home, err := os.UserHomeDir()
	if h := p.Env("HOME"); h != "" {
		home, err = h, nil
	}
	if err != nil {
		return at, err
	}
	at.home = home
	at.state = p.Env(stateVariable)
	if at.state == "" {
		base := p.Env("XDG_STATE_HOME")
		if base == "" {
			base = filepath.Join(home, ".local", "state")
		}
		at.state = filepath.Join(base, "powerbox", "guard")
	}
	if err := os.MkdirAll(at.state, 0o700); err != nil {
		return at, err
	}
	if at.state, err = filepath.EvalSymlinks(at.state); err != nil {
		return at, err
	}
	at.socket = daemon.Socket{UID: os.Getuid(), Dir: p.Env(runtimeVariable)}
	switch base := p.Env("XDG_RUNTIME_DIR"); {
	case at.socket.Dir != "":
	case base != "":
		at.socket.Dir = filepath.Join(base, "powerbox-guard")
	default:
		at.socket.Dir = filepath.Join(os.TempDir(), fmt.Sprintf("powerbox-guard-%d", at.socket.UID))
	}
	return at, nil
}

// projectFlag adds --project, which is the folder where the command runs by default.
func projectFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("project", ".", "the project's `folder`")
}

func absolute(folder string) (string, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// clientNames are the clients, for completion and help.
func clientNames() []string {
	var out []string
	for _, c := range clients.All() {
		out = append(out, c.Name)
	}
	return out
}
