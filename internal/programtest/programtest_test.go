package programtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is built already is run as it is: nothing is built.
func TestANamedProgramIsNotBuilt(t *testing.T) {
	t.Setenv(Variable, "/a/program")
	got := ""
	code := Main(t.TempDir(), func(program string) int { got = program; return 7 })
	if code != 7 || got != "/a/program" {
		t.Errorf("exit %d with %q", code, got)
	}
}

// The program is built in the root that is given, and removed after the tests. A tree that
// does not build fails before any test runs.
func TestAProgramIsBuiltAndRemoved(t *testing.T) {
	root := t.TempDir()
	var said bytes.Buffer
	if code := build(root, func(string) int { return 0 }, &said); code != 1 || !strings.HasPrefix(said.String(), "building the program: ") {
		t.Errorf("exit %d: %s", code, &said)
	}
	for name, text := range map[string]string{"go.mod": "module example.com/m\n", "cmd/powerbox/main.go": "package main\n\nfunc main() {}\n"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said.Reset()
	var at string
	code := build(root, func(program string) int {
		at = program
		if info, err := os.Stat(program); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%v %v", info, err)
		}
		return 3
	}, &said)
	if code != 3 || said.Len() > 0 {
		t.Errorf("exit %d: %s", code, &said)
	}
	if _, err := os.Stat(at); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", at, err)
	}
}
