// Command house keeps the tree in order: it runs every test of every module and
// counts them, holds the coverage of the core at 100 %, breaks checks on purpose
// to see their tests fail, fuzzes every decoder and prints docs/assurance/conformance.md.
// It is called by the Makefile, from anywhere inside the tree: go -C tools/house run . VERB.
//
// The automatic checks (the walls between packages, the
// conformance table, sizes and characters of source files) are tests of this
// package.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const usage = `usage: house VERB
  test [-both]     run the tests of every module, count them; with -both, all of the built program on both stores
  stores [FOLDER]  find the tests that need not run on PostgreSQL, and write testdata/sqlite.txt
  quick            run the fast tests of every package, and a scenario a binding
  cover            hold the packages of the core at full statement coverage
  mutants [-n N] [-seed N] [-file PART] FOLDER...
                       makes small random changes and says which no test notices
  mutate [-for=DURATION] [NAME]
                   remove the checks of testdata/checks.txt, one at a time
  fuzz [DURATION]  run every fuzz target (default 30s each)
  conformance      print docs/assurance/conformance.md; with -write, write it
  denials          print docs/reference/denials.md with an anchor in every row; with -write, write it
  pictures         say which pictures of the docs differ from their sources; with -write, draw them
  measure [-source] [BEFORE [AFTER]]
                   print what can be counted about one or two trees, as a table; the folders
                   are relative to the root
  vectors          put public vectors that are not in the tree to all that verifies
  modules          print the folder of every module
`

// errFailed says that the run found something and has already printed it.
var errFailed = errors.New("failed")

// house is one run of the program on one tree.
type house struct {
	root    string // folder of the main module
	stdout  io.Writer
	stderr  io.Writer
	program string // file of this program; "" where it is not known
	now     func() time.Time
	cache   string // folder of the build cache that removals read from; "" for the one that they fill
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "house:", err)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == layerVerb {
		return layer{args[1], args[2]}.serve(os.Stdin, stdout)
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	h := house{root: root, stdout: stdout, stderr: stderr, now: time.Now} //nolint:forbidigo // the clock of the program
	h.program, _ = os.Executable()                                        // without it removals fill the cache
	verb, rest := "", []string(nil)
	if len(args) > 0 {
		verb, rest = args[0], args[1:]
	}
	switch verb {
	case "test":
		return h.test(ctx, slices.Contains(rest, "-both"))
	case "stores":
		return h.stores(ctx, rest)
	case "quick":
		return h.quick(ctx)
	case "cover":
		return h.cover(ctx)
	case "mutate":
		return h.mutate(ctx, rest)
	case "mutants":
		return h.mutants(ctx, rest)
	case "fuzz":
		return h.fuzz(ctx, rest)
	case "conformance":
		return h.conformance(rest)
	case "denials":
		return h.denials(rest)
	case "pictures":
		return h.pictures(rest)
	case "measure":
		return h.measure(ctx, rest)
	case "vectors":
		return h.vectors(ctx)
	case "modules":
		return h.modules()
	}
	fmt.Fprint(stderr, usage)
	return errFailed
}

// findRoot walks up to the folder that holds tools.mod, which only the root of
// the tree has: nested modules have a go.mod as well.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "tools.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no tools.mod in %s or above: run it inside the tree", dir)
		}
	}
}

// inTree is the absolute path of a file or folder that the caller names, relative to the
// root: the go tool runs this program in its own folder.
func (h house) inTree(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(h.root, name)
}

// goCommand is the go tool with args, to run in dir, relative to the root.
func (h house) goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(h.root, dir)
	cmd.Stderr = h.stderr
	return cmd
}

func (h house) printf(format string, args ...any) {
	fmt.Fprintf(h.stdout, format, args...)
}

func (h house) modules() error {
	mods, err := findModules(h.root)
	if err != nil {
		return err
	}
	dirs := make([]string, 0, len(mods))
	for _, m := range mods {
		dirs = append(dirs, m.dir)
	}
	h.printf("%s\n", strings.Join(dirs, "\n"))
	return nil
}
