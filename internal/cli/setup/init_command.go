package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/internal/app/remote"
	"github.com/powerbox-project/powerbox/internal/cli"
)

const (
	// commandEndpoint stands for the command where a URL is wanted.
	commandEndpoint = "http://command.invalid/mcp"
	// mcpBehind is the value of --mcp if the command follows it.
	mcpBehind = "-"
	// commandPort is where the gateway of the first command takes calls, and those of others at the
	// ports after it, unless the file is changed.
	commandPort = 8701
	// noUpstream is the upstream of an MCP server that is a command, which nothing calls.
	noUpstream = "http://127.0.0.1:1/mcp"
)

// server says which MCP server is meant: that of a URL, or the command behind --.
func (d *draft) server(args []string, dash int) error {
	switch {
	case d.mcp == mcpBehind && dash == 0 && len(args) > 0:
		d.command = args
	case d.mcp == mcpBehind && dash < 0 && len(args) == 1:
		d.mcp = args[0]
	case d.mcp == mcpBehind:
		return cli.Usage(errors.New("--mcp wants the URL of an MCP server, or its command: --mcp -- COMMAND ARGUMENTS"))
	case len(args) > 0:
		return cli.Usage(fmt.Errorf("%q is no flag; a command goes behind --mcp --", args[0]))
	}
	if len(d.env) > 0 && len(d.command) == 0 {
		return cli.Usage(errors.New("--mcp-env goes with a command: --mcp -- COMMAND ARGUMENTS"))
	}
	if d.agent == "" && d.mcp == "" {
		return cli.Usage(errors.New("want --agent URL of a running agent, --mcp URL of an MCP server, or --mcp -- COMMAND"))
	}
	return nil
}

// readCommand starts the command, asks it for its tools, and ends it. It is started as a
// gateway would, so what works here works there.
func (d *draft) readCommand(ctx context.Context, p *cli.Program) error {
	// The client may ask for a session after a request without one, while that process ends.
	o := remote.MCPOptions{Exec: true, Command: d.command, Env: d.env, Sessions: 2, Share: 2}
	if err := o.Check(); err != nil {
		return cli.Usage(err)
	}
	child, err := o.Child(remote.Process{Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Now: p.Now}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer child.Close()
	if _, err := exec.LookPath(d.command[0]); err != nil {
		return fmt.Errorf("the command of the MCP server cannot be started: %w", err)
	}
	tools, err := mcpToolsOf(ctx, child, commandEndpoint)
	if err != nil {
		return fmt.Errorf("%q does not answer as an MCP server on its standard input and output: %s\nstart it by hand to see what it says, and name the variables that it needs with --mcp-env", d.command[0], strings.ReplaceAll(err.Error(), commandEndpoint, "the command"))
	}
	return d.guessTools(tools, fmt.Sprintf("the MCP server that %q starts", d.command[0]))
}

// gateway is where the gateway of the command takes calls: at the first port that no agent of the
// configuration that is there has.
func (d *draft) gateway() string {
	for port := commandPort; ; port++ {
		if at := "http://127.0.0.1:" + strconv.Itoa(port); !slices.Contains(d.gateways, at) {
			return at
		}
	}
}

// printCommandDraft says what to do next about a server that a gateway starts.
func printCommandDraft(p *cli.Program, d draft) error {
	var env strings.Builder
	for _, name := range d.env {
		cli.Printf(&env, " --mcp-env %s", name)
	}
	words := make([]string, len(d.command))
	for n, word := range d.command {
		words[n] = shellWord(word)
	}
	server := d.base
	if server == "" {
		server = "http://127.0.0.1:8700"
	}
	cli.Printf(p.Stdout, "next:\n  powerbox config check%[1]s\n  powerbox %[8]s%[1]s\n"+
		"  powerbox gateway token --agent %[2]s%[1]s > %[2]s.token\n"+
		"  powerbox gateway enroll --server %[3]s --token-file %[2]s.token --state %[2]s-gateway\n"+
		"  powerbox gateway --state %[2]s-gateway --listen %[4]s --dev%[5]s --mcp-exec -- %[6]s\n"+
		"  point MCP clients at %[7]s/agents/%[2]s\n  powerbox report%[1]s\n",
		d.flag(), d.id, server, strings.TrimPrefix(d.gateway(), "http://"), env.String(), strings.Join(words, " "), d.gateway(), d.run())
	return nil
}

// shellWord is a word as a shell takes it.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=,+%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
