package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// endToEnd is the folder and module with the tests of the program that is built and
// run, which pass on both stores.
const endToEnd = "e2e"

// The tests of the built program are divided into parts. As many run at a time as endToEndPartsAtOnce
// says: they wait for servers, disks and clocks more than they use the processor. The others begin as
// those end, so that the processors are busy until the last ones.
const (
	endToEndPartsOnSQLite   = 6
	endToEndPartsOnPostgres = 2
	endToEndPartsAtOnce     = 4
)

// testEndToEnd runs the tests of the built program on SQLite and on PostgreSQL, and
// returns what came of each. Tests that choose their stores, or that need no run on PostgreSQL, are in
// the first run alone. It adds what passed on SQLite to passed.
func (h house) testEndToEnd(ctx context.Context, m module, p programs, passed map[string]bool) ([]tally, error) {
	env := append(slices.Clone(p.env), programsOfTests+"="+p.dir)
	file, err := h.buildTests(ctx, p.dir)
	if err != nil {
		return nil, err
	}
	tests, beside, err := h.endToEndTests(ctx, file, env)
	if err != nil {
		return nil, err
	}
	stores := [][]string{env, append([]string{"E2E_STORE=postgres"}, env...)}
	recs := []*recorder{newRecorder(h.stdout), newRecorder(h.stdout)}
	failures := make([][]error, len(stores))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(endToEndPartsAtOnce)
	run := func(store int, cmd *exec.Cmd) {
		group.Go(func() error {
			cmd.Env = append(cmd.Environ(), stores[store]...)
			_, failure, err := followed(cmd, recs[store])
			mu.Lock()
			defer mu.Unlock()
			failures[store] = append(failures[store], failure)
			return err
		})
	}
	choosing, err := choosingTests(filepath.Join(h.root, endToEnd))
	if err != nil {
		return nil, err
	}
	listed, err := h.onSQLite()
	if err != nil {
		return nil, err
	}
	given := slices.DeleteFunc(slices.Clone(tests), func(test string) bool { return choosing[test] || listed[test] && !p.both })
	for _, on := range []struct {
		store, parts int
		tests        []string
	}{{1, endToEndPartsOnPostgres, given}, {0, endToEndPartsOnSQLite, tests}} {
		for _, part := range inParts(on.tests, on.parts) {
			run(on.store, h.goCommand(ctx, m.dir, "tool", "test2json", "-t", "-p", m.path, file,
				"-test.v=test2json", "-test.count=1", "-test.paniconexit0", "-test.timeout="+testTime, "-test.run="+anyOf(part)))
		}
	}
	if len(beside) > 0 {
		run(0, h.testCommand(ctx, m.dir, beside))
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

// choosingTests finds the tests of a folder that choose their stores, so that they do the same in
// both runs: their first statement is aboutTheFile(t) or asGiven(t), or their only one
// onStores(t, test).
func choosingTests(dir string) (map[string]bool, error) {
	out := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || len(f.Body.List) == 0 {
				continue
			}
			called := calledFirst(f.Body)
			out[f.Name.Name] = called == "aboutTheFile" || called == "asGiven" || called == "onStores" && len(f.Body.List) == 1
		}
	}
	return out, nil
}

// calledFirst is the function of the package that a body calls in its first statement.
func calledFirst(body *ast.BlockStmt) string {
	statement, _ := body.List[0].(*ast.ExprStmt)
	if statement == nil {
		return ""
	}
	call, _ := statement.X.(*ast.CallExpr)
	if call == nil {
		return ""
	}
	name, _ := call.Fun.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// programsOfTests is the variable that names the folder of further programs to the tests in
// e2e. Without it each process of tests builds what it needs.
const programsOfTests = "E2E_PROGRAMS"

// buildTests links the tests of the built program into a folder, once for all runs of them.
func (h house) buildTests(ctx context.Context, dir string) (file string, err error) {
	file = filepath.Join(dir, "e2e.test")
	if err := h.goCommand(ctx, endToEnd, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", file, ".").Run(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w", endToEnd, err)
	}
	return file, nil
}

// endToEndTests lists the tests of a built file, and the packages below their folder.
func (h house) endToEndTests(ctx context.Context, file string, env []string) (tests, beside []string, err error) {
	list := exec.CommandContext(ctx, file, "-test.list=.")
	list.Dir, list.Stderr = filepath.Join(h.root, endToEnd), h.stderr
	list.Env = append(list.Environ(), env...)
	out, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: listing its tests: %w", endToEnd, err)
	}
	tests = slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool {
		return strings.ContainsAny(line, " \t") || strings.HasPrefix(line, "Benchmark")
	})
	if len(tests) == 0 {
		return nil, nil, fmt.Errorf("%s: no test is listed", endToEnd)
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
