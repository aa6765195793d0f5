package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sqliteFile lists the tests of the built program that make test runs on SQLite alone, although
// they start servers whose store they do not choose. A test that is not listed runs on both stores.
const sqliteFile = "testdata/sqlite.txt"

const sqliteHead = `# Tests of the built program that make test runs on SQLite alone. go -C tools/house run . stores
# makes this list. Each statement of the packages of stores that one of these tests runs on
# PostgreSQL is run there by at least %d tests that are not listed, or by all that run it.
# make test STORES=both runs every test on both stores.
`

// storeRuns is how many tests run each statement of the packages of stores on PostgreSQL.
const storeRuns = 3

// coverOfTests is the variable that names the folder in which servers leave what they
// covered, in a folder for each test.
const coverOfTests = "E2E_COVER"

// onSQLite are the tests that sqliteFile lists.
func (h house) onSQLite() (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(h.root, sqliteFile))
	if err != nil {
		return nil, err
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			listed[name] = true
		}
	}
	return listed, nil
}

// stores sees what each test of the built program covers of the packages of stores, and writes
// sqliteFile. It runs the tests on PostgreSQL for that, unless a folder has what they covered.
func (h house) stores(ctx context.Context, args []string) error {
	dir, err := os.MkdirTemp("", "stores")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cover := filepath.Join(dir, "cover")
	if len(args) > 0 {
		cover = h.inTree(args[0])
	} else if err := h.coverStores(ctx, dir, cover); err != nil {
		return err
	}
	covered, err := h.coveredIn(ctx, cover)
	if err != nil {
		return err
	}
	left := leftOnSQLite(covered)
	text := fmt.Sprintf(sqliteHead, storeRuns) + "\n" + strings.Join(left, "\n") + "\n"
	h.printf("%d of %d tests need not run on PostgreSQL\n", len(left), len(covered))
	return os.WriteFile(filepath.Join(h.root, sqliteFile), []byte(text), 0o644)
}

// coverStores runs every test of the built program on PostgreSQL, which takes about ten minutes of
// processor time. It forgets what a failed test covered: a test fails here if its programs run
// without the environment, and say that they keep nothing.
func (h house) coverStores(ctx context.Context, dir, cover string) error {
	program := filepath.Join(dir, "powerbox")
	// Without cmd/powerbox the program would write nothing.
	build := h.goCommand(ctx, ".", "build", "-cover", "-coverpkg=./internal/store/...,./cmd/powerbox", "-o", program, "./cmd/powerbox")
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the program: %w", err)
	}
	tests := h.testCommand(ctx, endToEnd, []string{"."})
	tests.Env = append(tests.Environ(), "E2E_STORE=postgres", programOfTests+"="+program, programsOfTests+"="+dir, coverOfTests+"="+cover, "GOCOVERDIR="+dir)
	rec := newRecorder(h.stdout)
	if _, _, err := followed(tests, rec); err != nil {
		return err
	}
	for name, action := range rec.results {
		if action == "fail" && name.test != "" && !strings.Contains(name.test, "/") {
			if err := os.RemoveAll(filepath.Join(cover, name.test)); err != nil {
				return err
			}
		}
	}
	return nil
}

// coveredIn reads which statements of the packages of stores each test covered. A test of which nothing
// was kept, since its servers were killed, is not there.
func (h house) coveredIn(ctx context.Context, dir string) (map[string][]string, error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	covered := make(map[string][]string)
	for _, f := range folders {
		text := filepath.Join(dir, f.Name()+".txt")
		if err := h.goCommand(ctx, ".", "tool", "covdata", "textfmt", "-i="+filepath.Join(dir, f.Name()), "-o="+text).Run(); err != nil {
			return nil, fmt.Errorf("reading what %s covered: %w", f.Name(), err)
		}
		profile, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		if blocks := storeBlocks(profile); len(blocks) > 0 {
			covered[f.Name()] = blocks
		}
	}
	return covered, nil
}

// storeBlocks are the blocks of a profile that were run, in the packages of stores. Those of
// SQLite run in the other run of the tests.
func storeBlocks(profile []byte) []string {
	var blocks []string
	for line := range bytes.Lines(profile) {
		at := strings.Fields(string(line))
		if len(at) == 3 && at[2] != "0" && strings.Contains(at[0], "/internal/store/") && !strings.Contains(at[0], "/internal/store/sqlite/") {
			blocks = append(blocks, at[0])
		}
	}
	return blocks
}

// suddenly are words in the names of tests about the moment in which something happens. Coverage
// does not show moments, so these run on both stores.
var suddenly = []string{"Kill", "Crash", "Restart", "Restored", "Node", "Late", "Race", "Bulk", "AtOnce", "Many", "Flood", "Queue", "Lost", "Disk", "Once", "Twice", "Absorbing", "Concurrent"}

// leftOnSQLite lists the tests without which each block is still run by storeRuns tests, or by
// all that run it.
func leftOnSQLite(covered map[string][]string) []string {
	lacking := make(map[string]int) // runs that a block needs
	var left []string
	for name, blocks := range covered {
		left = append(left, name)
		for _, block := range blocks {
			lacking[block] = min(lacking[block]+1, storeRuns)
		}
	}
	slices.Sort(left)
	take := func(at int) {
		for _, block := range covered[left[at]] {
			lacking[block]--
		}
		left = slices.Delete(left, at, at+1)
	}
	for at := len(left) - 1; at >= 0; at-- {
		if slices.ContainsFunc(suddenly, func(word string) bool { return strings.Contains(left[at], word) }) {
			take(at)
		}
	}
	for {
		best, most := 0, 0
		for at, name := range left {
			n := 0
			for _, block := range covered[name] {
				if lacking[block] > 0 {
					n++
				}
			}
			if n > most {
				best, most = at, n
			}
		}
		if most == 0 {
			return left
		}
		take(best)
	}
}
