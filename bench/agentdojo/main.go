package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("agentdojo", start) }

var errUsage = fmt.Errorf("%w: go run ./agentdojo [flags] [FILE.json ...]", command.ErrUsage)

// start replays suites and prints what came out.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("agentdojo", stderr)
	data := flags.String("data", "../../shared/data/agentdojo", "`folder` with the suites, from bench beside a checkout of the data")
	binary := command.Powerbox(flags)
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
	dir, remove, err := command.Folder("", "agentdojo")
	if err != nil {
		return err
	}
	defer remove(&err)
	if *binary, err = built.Binary(ctx, *binary, dir); err != nil {
		return err
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
