package guard

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

// startTime is how long a hook waits for the daemon that it starts, and answerTime for a decision.
const (
	startTime  = 5 * time.Second
	answerTime = 10 * time.Second
)

func newHook(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use: "hook CLIENT", Short: "Answer one hook of a coding agent, from standard input",
		Example: "  powerbox guard hook claude-code < event.json", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clients.Find(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			raw, err := io.ReadAll(p.Stdin)
			if err != nil {
				return err
			}
			out := answer(cmd.Context(), p, c, raw)
			cli.Document(p.Stderr, out.Stderr)
			cli.Document(p.Stdout, out.Stdout)
			if out.Exit != 0 {
				return cli.Exit(out.Exit, nil)
			}
			return nil
		},
	}
}

// answer asks the daemon, and starts it where it does not run. Without one nothing is allowed,
// reading included: no decision could be recorded.
func answer(ctx context.Context, p *cli.Program, c clients.Client, raw []byte) clients.Output {
	at, err := locate(p)
	if err != nil {
		return c.Refusal(raw, "Powerbox guard: "+err.Error())
	}
	request := daemon.Request{Do: "hook", Client: c.Name, Input: raw}
	response, err := ask(ctx, at, request)
	if err != nil && !reached(err) && p.Env(noStartVariable) == "" {
		if err = start(ctx, at); err == nil {
			response, err = ask(ctx, at, request)
		}
	}
	if err != nil || response.Output == nil {
		return c.Refusal(raw, fmt.Sprintf("Powerbox guard: nothing is allowed while the guard's daemon does not answer (%v). Start it with: powerbox guard daemon", err))
	}
	return *response.Output
}

func ask(ctx context.Context, at place, r daemon.Request) (daemon.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return daemon.Call(ctx, at.socket, r)
}

// reached reports whether an error came from a daemon that runs.
func reached(err error) bool {
	return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
}

// start starts the daemon and waits until it listens. Of several that are started at once,
// one stays.
func start(ctx context.Context, at place) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.Command(binary, "guard", "daemon", "--announce") //nolint:noctx,gosec // it outlives the hook, and is this very program
	detach(cmd)
	cmd.Dir = "/"
	log, err := os.OpenFile(filepath.Join(at.state, "daemon.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the daemon has its own
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		said <- err
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		err = ctx.Err()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for err != nil { // another hook's daemon has the lock, and listens soon
		if _, err = daemon.Call(ctx, at.socket, daemon.Request{Do: "questions"}); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the daemon did not start; see %s", log.Name())
		}
	}
	return cmd.Process.Release()
}

func newDaemon(p *cli.Program) *cobra.Command {
	var idle time.Duration
	var announce, stop bool
	cmd := &cobra.Command{
		Use: "daemon", Short: "Run the daemon that decides; hooks start it when they need it",
		Example: "  powerbox guard daemon", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			if stop {
				_, err := daemon.Call(cmd.Context(), at.socket, daemon.Request{Do: "stop"})
				if err != nil && !reached(err) {
					return errors.New("no daemon is running")
				}
				return err
			}
			ready := func() {
				if announce {
					cli.Printf(p.Stdout, "ready\n")
				}
			}
			return daemon.Run(cmd.Context(), daemon.Config{State: at.state, Home: at.home, Now: p.Now, Random: rand.Reader}, at.socket, idle, ready)
		},
	}
	cmd.Flags().DurationVar(&idle, "idle", 30*time.Minute, "end after this `time` without a call")
	cmd.Flags().BoolVar(&announce, "announce", false, "print a line when it listens")
	cmd.Flags().BoolVar(&stop, "stop", false, "end the daemon that runs")
	return cmd
}
