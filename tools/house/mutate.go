package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const checksFile = "testdata/checks.txt"

// check is one entry of testdata/checks.txt: a check in the code, what it looks
// like removed, and the test that must notice.
type check struct {
	name   string // SEP-11 expired: begins with the requirements that it serves
	file   string
	find   string // occurs once in the file, or in the function
	with   string
	folder string // of the test
	test   string // TestName or TestName/subtest

	function string // folder and name of the function that has the text, instead of file
	within   string // that name, once file is known
}

// mutate removes the checks one at a time, in an overlay: the tree itself is
// never touched. With arguments it takes the entries whose name contains one.
func (h house) mutate(ctx context.Context, only []string) error {
	checks, err := h.checks()
	if err != nil {
		return err
	}
	within, only, err := timeFor(only)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !c.chosen(only) })
	if h.cache, err = h.warm(ctx, chosen); err != nil {
		return err
	}
	if within > 0 {
		return h.mutateWithin(ctx, chosen, within)
	}
	left := chosen
	if len(chosen) >= enough {
		if left, err = h.mutateCommon(ctx, chosen); err != nil {
			return err
		}
	}
	unnoticed := h.mutateAll(ctx, left)
	if len(only) == 0 {
		if err := h.printUnmutated(checks); err != nil {
			return err
		}
	}
	return h.printMutated(len(chosen), unnoticed)
}

// warm builds the unchanged tests, into the build cache, from which removals then only
// read, and returns where that is.
func (h house) warm(ctx context.Context, checks []check) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	build := []string{"list", "-export", "-deps", "-f", "{{/* nothing is said of it */}}"}
	all := map[string][][]string{}
	for _, c := range checks {
		all[c.folder] = [][]string{{"-test", "."}}
	}
	if all[endToEnd] != nil { // what its tests build
		all["."] = append(all["."], []string{"./cmd/powerbox", "./examples/bank"})
		all[endToEnd] = append(all[endToEnd], []string{"-modfile=stock.mod", "github.com/a2aproject/a2a-go/v2/cmd/a2a"})
	}
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		for _, more := range all[folder] {
			if err := h.goCommand(ctx, folder, slices.Concat(build, more)...).Run(); err != nil {
				return "", fmt.Errorf("%s does not build as it is: %w", folder, err)
			}
		}
	}
	return strings.TrimSpace(string(out)), nil
}

// timeFor reads -for=DURATION, which comes first.
func timeFor(args []string) (within time.Duration, rest []string, err error) {
	if len(args) == 0 {
		return 0, args, nil
	}
	text, ok := strings.CutPrefix(args[0], "-for=")
	if !ok {
		return 0, args, nil
	}
	within, err = time.ParseDuration(text)
	return within, args[1:], err
}

// mutateWithin removes as many checks as there is time for, in an order that every week
// has of its own: what one does not come to, others do, and what a run finds is found
// again by the next one. It says how many it did not come to.
func (h house) mutateWithin(ctx context.Context, checks []check, within time.Duration) error {
	seed := sha256.Sum256([]byte(h.gitWeek(ctx)))
	rand.New(rand.NewChaCha8(seed)).Shuffle(len(checks), func(i, j int) { checks[i], checks[j] = checks[j], checks[i] }) //nolint:gosec // an order of tests
	end, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var unnoticed []string
	ran := 0
	for ran < len(checks) && end.Err() == nil {
		next := checks[ran:min(ran+inTime, len(checks))]
		unnoticed = append(unnoticed, h.mutateAll(ctx, next)...)
		ran += len(next)
	}
	if ran < len(checks) {
		h.printf("%d checks not come to in %s: make mutate removes them all\n", len(checks)-ran, within)
	}
	return h.printMutated(ran, unnoticed)
}

// removalTime bounds the test of one removal. One that does not come to its end without
// the check has noticed that it is gone.
const removalTime = "5m"

// inTime is how many checks are removed between two looks at the clock.
const inTime = 8

// gitWeek is the week of the tree's commit, "" where git does not tell: all such trees
// have one order. The checkout may belong to another user.
func (h house) gitWeek(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "-C", h.root, "log", "-1", "--format=%cd", "--date=format:%G-%V").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// atOnce is how many checks are removed at a time: while one test waits for its
// server, the linker of another has something to do.
const atOnce = 2

// mutateAll removes the checks and returns the names of those that no test
// noticed, in their order.
func (h house) mutateAll(ctx context.Context, checks []check) []string {
	lines, noticed := make([]string, len(checks)), make([]bool, len(checks))
	var group errgroup.Group
	group.SetLimit(atOnce)
	var mu sync.Mutex
	printed := 0
	for n, c := range checks {
		group.Go(func() error {
			line, caught := h.mutateLine(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			lines[n], noticed[n] = line, caught
			for ; printed < len(lines) && lines[printed] != ""; printed++ {
				h.printf("%s\n", lines[printed])
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	var unnoticed []string
	for n, c := range checks {
		if !noticed[n] {
			unnoticed = append(unnoticed, c.name)
		}
	}
	return unnoticed
}

// mutateLine removes one check and says what came of it.
func (h house) mutateLine(ctx context.Context, c check) (line string, caught bool) {
	caught, err := h.mutateOne(ctx, c)
	switch {
	case err != nil:
		return fmt.Sprintf("BAD       %s: %v", c.name, err), false
	case !caught:
		return fmt.Sprintf("SURVIVED  %s: %s passes without it", c.name, c.test), false
	default:
		return fmt.Sprintf("caught    %s: %s:%s fails", c.name, c.folder, c.test), true
	}
}

// printMutated ends the run. It repeats the unnoticed removals, since the line of
// it is far up in the log of a long run.
func (h house) printMutated(ran int, unnoticed []string) error {
	for _, name := range unnoticed {
		h.printf("not noticed: %s\n", name)
	}
	h.printf("%d checks removed, %d noticed by their tests\n", ran, ran-len(unnoticed))
	if len(unnoticed) > 0 {
		return errFailed
	}
	return nil
}

// printUnmutated names the done requirements that no entry serves.
func (h house) printUnmutated(checks []check) error {
	_, rows, err := readConformance(h.root)
	if err != nil {
		return err
	}
	served := make(map[string]bool)
	for _, c := range checks {
		for word := range strings.FieldsSeq(c.name) {
			served[strings.Trim(word, ",:")] = true
		}
	}
	for _, r := range rows {
		if r.status == "done" && !served[r.id] {
			h.printf("unserved  %s is done and has no entry in %s\n", r.id, checksFile)
		}
	}
	return nil
}

func (c check) chosen(only []string) bool {
	for _, part := range only {
		if strings.Contains(c.name, part) {
			return true
		}
	}
	return len(only) == 0
}

// mutateOne reports whether the check's test fails without the check. An error
// says that the entry itself is wrong.
func (h house) mutateOne(ctx context.Context, c check) (bool, error) {
	target := filepath.Join(h.root, filepath.FromSlash(c.file))
	src, err := os.ReadFile(target)
	if err != nil {
		return false, err
	}
	mutant, err := c.apply(string(src))
	if err != nil {
		return false, err
	}
	output, exit, err := h.overlaid(ctx, target, mutant, c.folder, "-run", runPattern(c.test), ".")
	if err != nil {
		return false, err
	}
	return c.verdict(output, exit)
}

// overlaid runs tests in a folder as if the file had the mutant's text, and returns their output
// and how they ended. It changes neither the tree nor the build cache.
func (h house) overlaid(ctx context.Context, file, mutant, folder string, args ...string) (output string, exit, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	replaced, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replaced, []byte(mutant), 0o600); err != nil {
		return "", nil, err
	}
	spec, err := json.Marshal(map[string]map[string]string{"Replace": {file: replaced}})
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(overlay, spec, 0o600); err != nil {
		return "", nil, err
	}
	var out, stderr bytes.Buffer
	cmd := h.goCommand(ctx, folder, append([]string{"test", "-json", "-count=1", "-vet=off", "-timeout", removalTime}, args...)...)
	// By the environment, so that a test which builds the program builds the
	// mutant as well.
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	cmd.Env = append(cmd.Env, layer{h.cache, filepath.Join(dir, "cache")}.environment(h.program)...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	exit = cmd.Run()
	return out.String() + stderr.String(), exit, nil
}

// verdict reads the run of the mutant: its test must have run, and failed.
func (c check) verdict(output string, exit error) (bool, error) {
	var talk strings.Builder
	rec := newRecorder(&talk)
	if err := rec.read(strings.NewReader(output)); err != nil {
		return false, err
	}
	for name, action := range rec.results {
		if name.test == c.test {
			return action == "fail", nil
		}
	}
	for name := range rec.output {
		if name.test == c.test { // a panic or a time limit ends the run without a result
			return exit != nil, nil
		}
	}
	return false, fmt.Errorf("%s did not run in %s:\n%s", c.test, c.folder, talk.String())
}

// runPattern matches exactly the named test or subtest, see go help testflag.
func runPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// parseChecks reads entries of "key: value" lines. An entry begins with check;
// the others are file or func, find, with and test (folder and name). A value that needs
// several lines follows its key in lines that begin with a bar, taken as they
// are. Lines that begin with # are comments.
func parseChecks(text string) ([]check, error) {
	var checks []check
	var into *string
	var keys map[string]bool // of the entry
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if more, ok := strings.CutPrefix(line, "|"); ok && into != nil {
			*into += more + "\n"
			continue
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d: want key: value", number)
		}
		value = strings.TrimSpace(value)
		if key == "check" {
			checks, keys = append(checks, check{}), make(map[string]bool)
		}
		if len(checks) == 0 {
			return nil, fmt.Errorf("line %d: an entry begins with check: NAME", number)
		}
		if keys[key] {
			return nil, fmt.Errorf("line %d: the entry has %s: twice; the first one would not count", number, key)
		}
		keys[key] = true
		var err error
		if into, err = checks[len(checks)-1].set(key, value); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	for _, c := range checks {
		if c.name == "" || (c.file == "") == (c.function == "") || c.find == "" || c.folder == "" || c.test == "" || c.find == c.with {
			return nil, fmt.Errorf("check %q needs file or func (one of them), find, with (other than find) and test", c.name)
		}
	}
	return checks, nil
}

// set stores the value and returns where its further lines go.
func (c *check) set(key, value string) (*string, error) {
	switch key {
	case "check":
		c.name = value
	case "file":
		c.file = value
	case "func":
		c.function = value
	case "find":
		c.find = value
		return &c.find, nil
	case "with":
		c.with = value
		return &c.with, nil
	case "test":
		var ok bool
		if c.folder, c.test, ok = strings.Cut(value, " "); !ok {
			return nil, errors.New("test: want the folder, a space and the test's name")
		}
	default:
		return nil, fmt.Errorf("unknown key %q: check, file, func, find, with, test", key)
	}
	return nil, nil
}
