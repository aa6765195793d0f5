package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("tck", run) }

var errUsage = fmt.Errorf("%w: go run ./tck [flags] KIT", command.ErrUsage)

// trial holds the programs and addresses of one run.
type trial struct {
	kit, python, powerbox, attacher, agent, dir string
	talk                                        io.Writer
}

// run tries the agent directly and in every mode, and prints what differs.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("tck", stderr)
	t := trial{talk: stderr}
	flags.StringVar(&t.python, "python", "python3", "Python that has what the kit needs")
	flags.StringVar(&t.attacher, "attach", "", "the binary that has powerbox attach; that of -powerbox where empty")
	powerbox := command.Powerbox(flags)
	flags.StringVar(&t.agent, "agent", "go", "the agent: go, on a2a-go, or js, on @a2a-js/sdk, whose packages are in differential/agents")
	modes := flags.String("modes", "observe,require", "modes to try, of observe and require")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if t.kit = flags.Arg(0); flags.NArg() != 1 {
		return fmt.Errorf("%w: the kit is not part of this repository; name a checkout of github.com/a2aproject/a2a-tck, branch 1.0-dev", errUsage)
	}
	if _, err := os.Stat(filepath.Join(t.kit, "tests", "compatibility")); err != nil {
		return fmt.Errorf("%s is no checkout of the kit's branch 1.0-dev: %w", t.kit, err)
	}
	if t.agent != "go" && t.agent != "js" {
		return fmt.Errorf("%w: there is no agent %q; there are go and js", errUsage, t.agent)
	}
	dir, remove, err := command.Folder("", "tck")
	if err != nil {
		return err
	}
	defer remove(&err)
	t.dir = dir
	if t.powerbox, err = built.Binary(ctx, *powerbox, dir); err != nil {
		return err
	}
	if t.attacher == "" {
		t.attacher = t.powerbox
	}
	return t.all(ctx, strings.Split(*modes, ","), stdout)
}

// all tries everything. Every trial has its own agent, since the kit counts
// the tasks that an agent lists.
func (t *trial) all(ctx context.Context, modes []string, stdout io.Writer) error {
	direct, err := t.once(ctx, "direct", "")
	if err != nil {
		return err
	}
	again, err := t.once(ctx, "again", "")
	if err != nil {
		return err
	}
	noise := differences(direct, again)
	fmt.Fprintf(stdout, "directly: %s\n", direct.summary())
	for _, d := range noise {
		fmt.Fprintf(stdout, "  differs by itself: %s\n", d)
	}
	worse := 0
	for _, mode := range modes {
		through, err := t.once(ctx, mode, mode)
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		diff := without(differences(direct, through), noise)
		fmt.Fprintf(stdout, "%s: %s; %d differ\n", mode, through.summary(), len(diff))
		for _, d := range diff {
			fmt.Fprintf(stdout, "  %s\n", d)
			if !d.better() {
				worse++
			}
		}
	}
	if worse > 0 {
		return fmt.Errorf("%d tests come out worse through the gateway", worse)
	}
	return nil
}

// once runs the kit against a new agent, behind the gateway where a mode is
// named.
func (t *trial) once(ctx context.Context, name, mode string) (results, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serve := serveAgent
	if t.agent == "js" {
		serve = serveScript
	}
	url, err := serve(ctx)
	if err != nil {
		return nil, err
	}
	if mode != "" {
		g, err := t.guard(ctx, name, url, mode)
		if err != nil {
			return nil, err
		}
		defer g.end()
		url = g.url
	}
	return t.test(ctx, name, url)
}

// test runs the kit against the agent at a URL.
func (t *trial) test(ctx context.Context, name, url string) (results, error) {
	fmt.Fprintf(t.talk, "the kit tries %s (%s)\n", url, name)
	report := filepath.Join(t.dir, name+".xml")
	cmd := exec.CommandContext(ctx, t.python, "-m", "pytest", "tests/compatibility", "-q", "-p", "no:cacheprovider", "--tb=no", "--sut-host="+url, "--junitxml="+report) //nolint:gosec // as the operator asked
	cmd.Dir = t.kit
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	// Tests that fail are a result; anything else is none.
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("running the kit: %w\n%s", err, out)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	return parse(raw)
}
