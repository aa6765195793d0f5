package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// docsPage reads a page of the documentation.
func docsPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// console is one command of a page with what it says there.
type console struct {
	line    int
	command string
	exit    int // from a comment "# exit N" behind the command
	says    []string
}

// consoles reads the blocks of a page that are called console: lines that begin with
// "$ " are commands, the others what they say. A line "..." stands for some lines.
func consoles(page string) (all []console) {
	in := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```console"
		case !in:
		case strings.HasPrefix(line, "$ "):
			s := console{line: i + 1, command: strings.TrimPrefix(line, "$ ")}
			if command, exit, ok := strings.Cut(s.command, "  # exit "); ok {
				s.command = command
				_, _ = fmt.Sscan(exit, &s.exit)
			}
			all = append(all, s)
		case len(all) > 0:
			all[len(all)-1].says = append(all[len(all)-1].says, line)
		}
	}
	return all
}

// shell runs a command line in a folder, with the built program as powerbox.
func shell(t *testing.T, dir, command string, env ...string) (out string, exit int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+onPath(t)+":"+os.Getenv("PATH")), env...)
	data, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// onPath is a folder in which the built program is called powerbox.
func onPath(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "powerbox")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// play runs the sessions of a page in a folder, and wants what the page says.
func play(t *testing.T, id, page, dir string, env ...string) {
	t.Helper()
	all := consoles(page)
	if len(all) == 0 {
		t.Fatalf("%s the page has no session", id)
	}
	for _, s := range all {
		out, exit := shell(t, dir, s.command, env...)
		if exit != s.exit {
			t.Errorf("%s line %d: %s: exit %d; want %d\n%s", id, s.line, s.command, exit, s.exit, out)
		}
		if at, ok := saysLines(strings.Split(strings.TrimRight(out, "\n"), "\n"), s.says); !ok {
			t.Errorf("%s line %d: %s says\n%s\nwant %q", id, s.line, s.command, out, at)
		}
	}
}

// saysLines reports whether the lines are those of a page, and the first that is not
// there.
func saysLines(got, want []string) (missing string, ok bool) {
	some := false
	for _, line := range want {
		line = strings.TrimRight(line, " ")
		if line == "..." {
			some = true
			continue
		}
		for some && len(got) > 0 && strings.TrimRight(got[0], " ") != line {
			got = got[1:]
		}
		if len(got) == 0 {
			return line, line == "" && !some
		}
		if strings.TrimRight(got[0], " ") != line {
			return line, false
		}
		got, some = got[1:], false
	}
	if len(got) > 0 && !some && strings.Join(got, "") != "" {
		return "no more, and not " + got[0], false
	}
	return "", true
}

// TestGATE12_FleetOfTheDocs plays docs/how-to/graph.md on the fleet that its generator
// writes.
func TestGATE12_FleetOfTheDocs(t *testing.T) {
	asGiven(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./examples/fleet", dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the fleet: %v\n%s", err, out)
	}
	play(t, "GATE-12", docsPage(t, "how-to/graph.md"), dir)
}
