package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// endToEnd is the folder and module with the tests of the program that is built and
// run, which pass on both stores.
const endToEnd = "e2e"

// endToEndParts is into how many parts the tests of the built program are divided. The
// parts run at a time, on both stores: they wait for servers, disks and clocks more than
// they use the processor.
const endToEndParts = 2

// testEndToEnd runs the tests of the built program on SQLite and on PostgreSQL, and
// returns what came of each. It adds what passed on SQLite to passed.
func (h house) testEndToEnd(ctx context.Context, m module, passed map[string]bool) ([]tally, error) {
	tests, beside, err := h.endToEndTests(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, _, err := h.buildProgram(ctx, dir)
	if err != nil {
		return nil, err
	}
	shared := &oneAtATime{to: h.stdout}
	stores := [][]string{program, append([]string{"E2E_STORE=postgres"}, program...)}
	recs := []*recorder{newRecorder(shared), newRecorder(shared)}
	failures := make([][]error, len(stores))
	var mu sync.Mutex
	var group errgroup.Group
	run := func(store int, args ...string) {
		group.Go(func() error {
			_, failure, err := h.follow(ctx, m.dir, recs[store], args, stores[store]...)
			mu.Lock()
			defer mu.Unlock()
			failures[store] = append(failures[store], failure)
			return err
		})
	}
	for _, part := range inParts(tests, endToEndParts) {
		for store := range stores {
			run(store, "-run", anyOf(part), ".")
		}
	}
	if len(beside) > 0 {
		run(0, beside...)
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	recs[0].addPassed(m, passed)
	tallies := make([]tally, len(stores))
	for store, rec := range recs {
		tallies[store] = rec.counted(errors.Join(failures[store]...))
	}
	return tallies, nil
}

// endToEndTests lists the tests of the folder itself, and the packages below it.
func (h house) endToEndTests(ctx context.Context) (tests, beside []string, err error) {
	listed, err := h.lines(ctx, endToEnd, "test", "-list", ".", ".")
	if err != nil {
		return nil, nil, err
	}
	tests = slices.DeleteFunc(listed, func(line string) bool {
		return strings.ContainsAny(line, " \t") || strings.HasPrefix(line, "Benchmark")
	})
	if len(tests) == 0 {
		return nil, nil, fmt.Errorf("%s: go test -list names no test", endToEnd)
	}
	packages, err := h.lines(ctx, endToEnd, "list", "./...")
	if err != nil {
		return nil, nil, err
	}
	return tests, packages[1:], nil // the first one is the folder's own
}

// lines runs the go tool in a folder and returns the lines that it prints.
func (h house) lines(ctx context.Context, dir string, args ...string) ([]string, error) {
	cmd := h.goCommand(ctx, dir, args...)
	cmd.Stdout = nil
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// inParts deals the tests out, one after the other: tests that stand in one file, and are
// of one kind, come into different parts.
func inParts(tests []string, parts int) [][]string {
	dealt := make([][]string, min(parts, len(tests)))
	for n, test := range tests {
		dealt[n%len(dealt)] = append(dealt[n%len(dealt)], test)
	}
	return dealt
}

// oneAtATime lets several recorders print to one writer.
type oneAtATime struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneAtATime) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
