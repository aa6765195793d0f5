package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// tally counts tests. A test with subtests counts as its subtests.
type tally struct{ passed, failed int }

func (t tally) and(o tally) tally { return tally{t.passed + o.passed, t.failed + o.failed} }

func (t tally) String() string { return fmt.Sprintf("%d passed, %d failed", t.passed, t.failed) }

// test runs the tests of every module. The last line counts them. A package that
// does not build counts as one failure, and so does a test that skips itself: what
// tests need is installed, not assumed. So does a test that docs/conformance.csv
// names as proof and that did not pass in this very run. With both, all tests of the built program
// run on both stores.
func (h house) test(ctx context.Context, both bool) error {
	mods, err := findModules(h.root)
	if err != nil {
		return err
	}
	h.stdout = &oneAtATime{to: h.stdout}
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := programs{dir: dir, both: both}
	if p.env, _, err = h.buildProgram(ctx, dir); err != nil {
		return err
	}
	temporary, remove, err := inMemory(filesInMemory, roomForTests)
	if err != nil {
		return err
	}
	defer remove()
	p.env = append(p.env, temporary...)
	ran := make([]tested, len(mods))
	at := func(lane func(module) bool) func() error {
		return func() error {
			for n, m := range mods {
				if !lane(m) {
					continue
				}
				var err error
				if ran[n], err = h.testOne(ctx, m, p); err != nil {
					return err
				}
			}
			return nil
		}
	}
	// The tests of the built program wait more than they use the processor, so the small
	// modules run beside them.
	main := func(m module) bool { return m.dir == "." }
	built := func(m module) bool { return m.dir == endToEnd }
	if err := at(main)(); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(at(built))
	group.Go(at(func(m module) bool { return !main(m) && !built(m) }))
	if err := group.Wait(); err != nil {
		return err
	}
	return h.concluded(mods, ran)
}

// concluded prints how many tests passed, and fails if one did not, or if one that proves a
// requirement did not run.
func (h house) concluded(mods []module, ran []tested) error {
	var total tally
	var lines []string
	passed := make(map[string]bool)
	for n, m := range mods {
		for store, t := range ran[n].tallies {
			lines = append(lines, fmt.Sprintf("%s%s: %s", m.path, []string{"", " on PostgreSQL"}[store], t))
			total = total.and(t)
		}
		maps.Copy(passed, ran[n].passed)
	}
	_, rows, err := readConformance(h.root)
	if err != nil {
		return err
	}
	for _, problem := range unproven(rows, passed) {
		h.printf("%s\n", problem)
		total.failed++
	}
	h.printf("\n%s\n%s\n", strings.Join(lines, "\n"), total)
	if total.failed > 0 {
		return errFailed
	}
	return nil
}

// tested is what came of the tests of a module.
type tested struct {
	tallies []tally         // of each store in e2e, else one
	passed  map[string]bool // as folder:TestName
}

// programs are those that tests of every module run.
type programs struct {
	dir string   // of all of them
	env []string // names the program and the temporary folder to tests

	both bool // run all tests of the built program on both stores
}

func (h house) testOne(ctx context.Context, m module, p programs) (t tested, err error) {
	t = tested{make([]tally, 1), make(map[string]bool)}
	if m.dir == endToEnd {
		t.tallies, err = h.testEndToEnd(ctx, m, p, t.passed)
	} else {
		t.tallies[0], err = h.testModule(ctx, m, p, t.passed)
	}
	return t, err
}

// run runs the tests of a module and follows them. What go test says of its end is failure. The main
// module runs alone, so more of its packages run at a time.
func (h house) run(ctx context.Context, dir, packages string, env ...string) (rec *recorder, failure, err error) {
	rec = newRecorder(h.stdout)
	args := []string{packages}
	if dir == "." {
		args = []string{"-p", strconv.Itoa(packagesAtOnce()), packages}
	}
	_, failure, err = h.follow(ctx, dir, rec, args, env...)
	return rec, failure, err
}

// follow runs go test in a folder with the arguments, and rec records it. It returns the
// processor time of all the processes, and what go test says of its end.
func (h house) follow(ctx context.Context, dir string, rec *recorder, args []string, env ...string) (cpu time.Duration, failure, err error) {
	cmd := h.testCommand(ctx, dir, args)
	cmd.Env = append(cmd.Environ(), env...)
	return followed(cmd, rec)
}

// testCommand is go test in a folder. It takes no result from the cache, which knows nothing
// of the program that tests build and run. make check vets all of it.
func (h house) testCommand(ctx context.Context, dir string, args []string) *exec.Cmd {
	return h.goCommand(ctx, dir, slices.Concat([]string{"test", "-json", "-count=1", "-vet=off", "-timeout", testTime}, args)...)
}

// followed runs a command that prints what go test -json does, and rec records it.
func followed(cmd *exec.Cmd, rec *recorder) (cpu time.Duration, failure, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	err = rec.read(out)
	failure = cmd.Wait()
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), failure, err
}

// counted counts the tests that ran, and a failure of go test of which no test tells.
func (r *recorder) counted(failure error) tally {
	t := r.tally()
	if failure != nil && t.failed == 0 {
		fmt.Fprintf(r.out, "go test: %v\n", failure)
		t.failed = 1
	}
	return t
}

// testModule adds what passed to passed, as folder:TestName.
func (h house) testModule(ctx context.Context, m module, p programs, passed map[string]bool) (tally, error) {
	rec, failure, err := h.run(ctx, m.dir, "./...", p.env...)
	if err != nil {
		return tally{}, err
	}
	rec.addPassed(m, passed)
	return rec.counted(failure), nil
}

// addPassed adds what passed to passed, as folder:TestName.
func (r *recorder) addPassed(m module, passed map[string]bool) {
	for key, action := range r.results {
		if action == "pass" && key.test != "" {
			passed[m.folder(key.pkg)+":"+key.test] = true
		}
	}
}

// unproven lists the tests that rows name and that did not pass.
func unproven(rows []row, passed map[string]bool) []string {
	var missing []string
	for _, r := range rows {
		for _, test := range r.tests {
			if !passed[test] {
				missing = append(missing, fmt.Sprintf("%s: %s names %s, which did not run and pass", conformanceFile, r.id, test))
			}
		}
	}
	return missing
}

// testTime bounds the tests of one package. Those of e2e start hundreds
// of servers, one after the other.
const testTime = "40m"

// testEvent is one line of go test -json, see go doc test2json.
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

type testName struct{ pkg, test string } // test is "" for the package itself

// recorder follows go test -json, of several runs at a time, and prints what fails.
type recorder struct {
	mu      sync.Mutex
	out     io.Writer
	output  map[testName][]string
	results map[testName]string
	elapsed map[testName]float64 // seconds
	parents map[testName]bool
	ended   func(testName) // told of every test and package that ended; nil for nothing
}

func newRecorder(out io.Writer) *recorder {
	return &recorder{
		out: out, output: make(map[testName][]string), results: make(map[testName]string),
		elapsed: make(map[testName]float64), parents: make(map[testName]bool),
	}
}

func (r *recorder) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *recorder) line(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e testEvent
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.out, "%s", line) // not an event: the go tool says something else
		return
	}
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "run":
		for parent := e.Test; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndex(parent, "/")]
			r.parents[testName{e.Package, parent}] = true
		}
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "pass", "fail", "skip":
		r.elapsed[name] = e.Elapsed
		r.end(name, e.Action)
	}
}

func (r *recorder) end(name testName, action string) {
	r.results[name] = action
	if action == "fail" || (action == "skip" && name.test != "") {
		fmt.Fprintf(r.out, "%s %s\n%s", name.pkg, name.test, strings.Join(r.output[name], ""))
	}
	delete(r.output, name)
	if r.ended != nil {
		r.ended(name)
	}
}

// tally counts leaves; a parent or a package counts when it failed though nothing
// below it did.
func (r *recorder) tally() tally {
	var t tally
	failedBelow := make(map[testName]bool)
	names := slices.SortedFunc(maps.Keys(r.results), deepestFirst)
	for _, name := range names {
		action := r.results[name]
		failed := action == "fail" || (action == "skip" && name.test != "")
		switch {
		case failed && !failedBelow[name]:
			t.failed++
		case action == "pass" && name.test != "" && !r.parents[name]:
			t.passed++
		}
		if failed {
			for at := name; at.test != ""; {
				at = at.parent()
				failedBelow[at] = true
			}
		}
	}
	return t
}

func deepestFirst(a, b testName) int {
	depth := func(n testName) int {
		if n.test == "" {
			return -1
		}
		return strings.Count(n.test, "/")
	}
	return depth(b) - depth(a)
}

// parent is the enclosing test, or the package.
func (n testName) parent() testName {
	if i := strings.LastIndex(n.test, "/"); i >= 0 {
		return testName{n.pkg, n.test[:i]}
	}
	return testName{n.pkg, ""}
}
