package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "agentdojo:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

var errUsage = errors.New("usage: go run ./agentdojo [flags] [FILE.json ...]")

// start replays suites and prints what came out.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("agentdojo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	data := flags.String("data", "../../shared/data/agentdojo", "`folder` with the suites, from bench beside a checkout of the data")
	binary := flags.String("powerbox", "", "the powerbox binary; built from this checkout where empty")
	which := flags.String("runs", "grant,labels", "runs to make: grant has no labels of results, labels has them")
	other := flags.String("paraphrases", "", "`file` with paraphrases of prompts; only tasks that have one are replayed")
	pins := flags.Bool("pins", false, "also list what each task is granted, and why")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	var wanted []run
	for _, name := range strings.Split(*which, ",") {
		before := len(wanted)
		for _, r := range runs {
			if r.name == name {
				wanted = append(wanted, r)
			}
		}
		if len(wanted) == before {
			return fmt.Errorf("%w: there is no run %q; want grant or labels", errUsage, name)
		}
	}
	files, err := suiteFiles(*data, flags.Args())
	if err != nil {
		return err
	}
	suites := make([]*suite, 0, len(files))
	for _, f := range files {
		s, err := readSuite(f)
		if err != nil {
			return err
		}
		suites = append(suites, s)
	}
	if *other != "" {
		if suites, err = inOtherWords(suites, *other); err != nil {
			return err
		}
	}
	if *binary == "" {
		dir, err := os.MkdirTemp("", "powerbox-agentdojo")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if *binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	granted := io.Discard
	if *pins {
		granted = stdout
	}
	for _, s := range suites {
		if err := replaySuite(ctx, *binary, s, wanted, stdout, granted); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// replaySuite makes the runs over one suite, each behind its own gateway.
func replaySuite(ctx context.Context, binary string, s *suite, wanted []run, stdout, pins io.Writer) error {
	for _, r := range wanted {
		t, err := newTown(ctx, binary, s, r.labels)
		if err != nil {
			return err
		}
		got, err := t.replay(ctx, r, pins)
		if err = errors.Join(err, t.close()); err != nil {
			return fmt.Errorf("run %s: %w", r.name, err)
		}
		got.print(stdout, r.what)
	}
	return nil
}

// inOtherWords keeps the tasks that a file has paraphrases of.
func inOtherWords(suites []*suite, file string) ([]*suite, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []paraphrase
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range suites {
		s.paraphrased(all)
	}
	return suites, nil
}
