// Package programtest gives the built program to tests that start it.
package programtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable names the environment variable with the path of a program that is built already.
// make test sets it, so that it links the program once for all modules.
const Variable = "E2E_PROGRAM"

// Main finds the program, has the tests run it, and returns the exit code for TestMain. It
// builds the program from the main module in root, unless [Variable] names one. The program
// that it built lasts as long as the tests.
func Main(root string, tests func(program string) (code int)) (code int) {
	if program := os.Getenv(Variable); program != "" {
		return tests(program)
	}
	return build(root, tests, os.Stderr)
}

func build(root string, tests func(program string) int, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "powerbox-program")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "powerbox")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", program, "./cmd/powerbox") //nolint:gosec // our own tree
	cmd.Dir = root                                                                                                     // the main module, whose dependencies are not those of the tests
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	return tests(program)
}
