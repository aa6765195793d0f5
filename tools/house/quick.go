package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// tooSlow are the tests that quick leaves to make test: each takes seconds. A name
// stands for the test in every folder.
var tooSlow = []string{
	// They try every change of a file, or every small case.
	"TestATK72_BothVerifiersAgreeOnEveryMutation",
	"TestATK71_OutcomesOfTheDecisionsOwnChain",
	"TestEXT22_NothingIsTakenThatIsNotInItsOneForm",
	"TestEXT22_TwoImplementationsAgreeOnFlippedBits",
	"TestEXT22_AnySingleFlippedByteIsFound",
	"TestEXT24_TwoImplementationsAgreeOnTamperedSeries",
	"TestEXT24_InParallelTheReportOfASeriesIsTheSame",
	"TestATK51_RevokeIsAbsorbing",
	"TestAAPM1_Model",
	// They do what a page says, with the built program.
	"TestSEP_TwelveGrants",
	"TestEXT31_WorkedExamples",
	"TestTutorial",
	"TestEXT27_Runbook",
	"TestGATE13_ChecksInCI",
	"TestGATE9_ThePageOfMCPServers",
	"TestThePageOfCodingAgents",
	"TestThePageOfOtherGateways",
	"TestEXT28_EXT32_IncidentRunbook",
	"TestEXT26_EXT41_AuditorsGuide",
	// They build the tree again, or programs.
	"TestEndToEndTestsAreListed",
	"TestChecksCanBeRemoved",
	"TestMutateNotices",
	"TestLayer",
	"TestMCPsConformanceSuiteJudgesAProtectedServer",
	// They list the packages of every module.
	"TestWallsOfOtherModules",
	// They start other gateways, or attack a door in every way.
	"TestEveryDoorDecidesAlike",
	"TestCaddyAsksBeforeItForwards",
	"TestAttacksOnTheOAuthDoor",
	// They try every small case, or every way to leave something out.
	"TestATK41_MeetOfSmallConstraintsIsExact",
	"TestEXT33_AChainIsLookedForInTheWholeSeries",
	"TestEXT24_InParallelTheReportIsTheSame",
	"TestAThousandChildrenEscapeNothing",
	// They kill a process, many times.
	"TestEXT27_AKilledProcessLosesNoAcknowledgedRecord",
}

// leftOut are the folders of which quick runs nothing, with what they need.
var leftOut = map[string]string{
	"e2e":                     "starts the built program for every test",
	"internal/store/postgres": "starts clusters of PostgreSQL",
	"deploy":                  "builds and starts the program",
	"examples/patient":        "builds and starts the program",
	"examples/procurement":    "builds and starts the program",
	"examples/trade":          "builds and starts the program",
}

// scenarios are the tests of the built program that quick runs: one a binding.
var scenarios = []string{
	"TestGATE11_OneDecisionOnEveryBinding", // JSON-RPC, HTTP+JSON and gRPC
	"TestGATE9_ToolsOfAnMCPServer",         // MCP
	"TestAAPE1_Execution",                  // Agent Auth
}

// packagesAtOnce is how many packages quick tests at a time. Many tests wait for the disk
// or for a process, and leave the processor to others.
func packagesAtOnce() int { return 2 * runtime.GOMAXPROCS(0) }

// slowestShown is how many tests the end of a quick run names.
const slowestShown = 5

// quickBeside are packages of other modules whose tests quick runs, too. Those of
// e2e/scripts run with the built program.
var quickBeside = []struct{ module, packages string }{
	{"tools/house", "./..."},
	{"bench", "./internal/reliability"},
}

// quickRun is one run of go test, in the folder of a module.
type quickRun struct {
	module string
	args   []string
	env    []string // further environment
}

// quick runs the fast tests of every package of the main module and of those beside it,
// and a scenario a binding through the built program. It prints a line for each package,
// and how long all of it took.
func (h house) quick(ctx context.Context) error {
	begun := h.now()
	mods, err := findModules(h.root)
	if err != nil {
		return err
	}
	packages, err := h.quickPackages(ctx, mods[0])
	if err != nil {
		return err
	}
	rec := newRecorder(h.stdout)
	rec.ended = func(name testName) {
		if line := rec.packageLine(mods[0], name.pkg); name.test == "" && line != "" {
			h.printf("%s\n", line)
		}
	}
	fast := []string{"-p", strconv.Itoa(packagesAtOnce()), "-skip", anyOf(tooSlow)}
	own := []quickRun{{".", slices.Concat(fast, packages), nil}}
	for _, b := range quickBeside {
		own = append(own, quickRun{b.module, slices.Concat(fast, []string{b.packages}), nil})
	}
	dir, err := os.MkdirTemp("", "quick")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var cpu [3]time.Duration
	var failures [2]error
	var group errgroup.Group
	group.Go(func() (err error) {
		cpu[0], failures[0], err = h.followAll(ctx, rec, own)
		return err
	})
	group.Go(func() (err error) {
		var env []string
		if env, cpu[1], err = h.buildProgram(ctx, dir); err != nil {
			return err
		}
		cpu[2], failures[1], err = h.followAll(ctx, rec, []quickRun{
			{endToEnd, slices.Concat(fast, []string{"./scripts"}), env},
			{endToEnd, []string{"-run", anyOf(scenarios), "."}, env},
		})
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	total := rec.counted(errors.Join(failures[:]...))
	h.printQuick(mods, rec)
	h.printf("%s in %.0f s (%.0f s of processor time)\n", total, h.now().Sub(begun).Seconds(), (cpu[0] + cpu[1] + cpu[2]).Seconds())
	if total.failed > 0 {
		return errFailed
	}
	return nil
}

// buildProgram builds the program into a folder, once for all tests that run it, and returns
// the environment that names it to them. It leaves out what debuggers read, as a release does.
func (h house) buildProgram(ctx context.Context, dir string) (env []string, cpu time.Duration, err error) {
	program := filepath.Join(dir, "powerbox")
	cmd := h.goCommand(ctx, ".", "build", "-ldflags=-s -w", "-o", program, "./cmd/powerbox")
	if err := cmd.Run(); err != nil {
		return nil, 0, fmt.Errorf("building the program: %w", err)
	}
	return []string{programOfTests + "=" + program}, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// programOfTests is the variable that names the program to tests of every module. Without it
// each package of tests that runs the program builds one.
const programOfTests = "E2E_PROGRAM"

// followAll follows several runs at a time, and returns the processor time of all of them.
func (h house) followAll(ctx context.Context, rec *recorder, runs []quickRun) (cpu time.Duration, failure, err error) {
	took, failed := make([]time.Duration, len(runs)), make([]error, len(runs))
	var group errgroup.Group
	for n, r := range runs {
		group.Go(func() (err error) {
			took[n], failed[n], err = h.follow(ctx, r.module, rec, r.args, r.env...)
			return err
		})
	}
	err = group.Wait()
	for _, t := range took {
		cpu += t
	}
	return cpu, errors.Join(failed...), err
}

// printQuick names the slowest tests, all that did not run, and the tests that failed.
func (h house) printQuick(mods []module, rec *recorder) {
	for _, name := range rec.slowest(slowestShown) {
		h.printf("slow: %5.1f s  %s %s\n", rec.elapsed[name], mods[0].folder(name.pkg), name.test)
	}
	for _, folder := range slices.Sorted(maps.Keys(leftOut)) {
		h.printf("left to make test: %s, which %s\n", folder, leftOut[folder])
	}
	for _, m := range mods[1:] {
		if m.dir != endToEnd && m.dir != "tools/house" {
			h.printf("left to make test: %s, which is a module of its own\n", m.dir)
		}
	}
	h.printf("left to make test: %d slow tests, listed in tools/house/quick.go\n", len(tooSlow))
	for _, name := range rec.failed() {
		h.printf("failed: %s %s\n", mods[0].folder(name.pkg), name.test)
	}
}

// quickPackages lists the import paths of the module's packages without those left out.
func (h house) quickPackages(ctx context.Context, m module) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "./...")
	cmd.Dir, cmd.Stderr = h.root, h.stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool {
		return leftOut[m.folder(pkg)] != ""
	}), nil
}

// anyOf matches each of the names and nothing else, see go help testflag.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// packageLine says how the tests of a package ended, how long they took and how many they
// are. It is empty for a package of which none ran, unless that is a failure.
func (r *recorder) packageLine(m module, pkg string) string {
	word := "ok  "
	if r.results[testName{pkg, ""}] == "fail" {
		word = "FAIL"
	}
	tests := 0
	for name := range r.results {
		if name.pkg == pkg && name.test != "" && !r.parents[name] {
			tests++
		}
	}
	if tests == 0 && word == "ok  " {
		return ""
	}
	return fmt.Sprintf("%s %6.1f s %5d tests  %s", word, r.elapsed[testName{pkg, ""}], tests, path.Clean(m.folder(pkg)))
}

// slowest returns at most n tests, the slowest first. Subtests count as their test.
func (r *recorder) slowest(n int) []testName {
	tests := slices.DeleteFunc(slices.Collect(maps.Keys(r.elapsed)), func(name testName) bool {
		return name.test == "" || strings.Contains(name.test, "/")
	})
	slices.SortFunc(tests, func(a, b testName) int {
		return cmp.Or(cmp.Compare(r.elapsed[b], r.elapsed[a]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return tests[:min(n, len(tests))]
}

// failed lists what failed, without the tests and packages that failed only since one
// within them did.
func (r *recorder) failed() []testName {
	within := make(map[testName]bool)
	var found []testName
	for _, name := range slices.SortedFunc(maps.Keys(r.results), deepestFirst) {
		if action := r.results[name]; action != "fail" && (action != "skip" || name.test == "") {
			continue
		}
		if !within[name] {
			found = append(found, name)
		}
		for at := name; at.test != ""; {
			at = at.parent()
			within[at] = true
		}
	}
	slices.SortFunc(found, func(a, b testName) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return found
}
