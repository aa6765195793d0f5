// Package scripts has the tests of the command line: each is a file of testdata, which
// runs the built program as an operator does.
package scripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain puts the program before all others on the path: that of E2E_PROGRAM, or one
// that it builds.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "powerbox-scripts")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program := filepath.Join(dir, "powerbox")
	var out []byte
	if built := os.Getenv("E2E_PROGRAM"); built != "" {
		err = os.Symlink(built, program)
	} else {
		out, err = exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/powerbox").CombinedOutput()
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestScripts runs the program as it is run from a shell. A script may begin
// with "exits N", which runs a command and compares its exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               scriptSetup(t, buildStock(t)),
		Cmds:                scriptCommands(),
	})
}

// exits runs "exits CODE COMMAND ARG...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strippedStatus(err.Error())
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// strippedStatus returns N of "exit status N".
func strippedStatus(text string) string {
	const before = "exit status "
	if len(text) > len(before) && text[:len(before)] == before {
		return text[len(before):]
	}
	return text
}
