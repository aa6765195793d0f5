package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"powerbox": main})
}

// TestScripts runs the program as it is run from a shell. A script may begin
// with "exits N", which runs a command and compares its exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
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
