// Command codingagents measures how long the guard of coding agents takes for a decision: the
// whole hook process with the daemon running, and the daemon alone. With -write it writes
// docs/assurance/coding-agents.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const page = "../docs/assurance/coding-agents.md"

const grant = "version: 1\nread: [.]\nedit: [internal]\nrun: [go test, git diff, grep, head, ls]\nagents:\n  reviewer: {read: [.], run: [git diff]}\n"

func main() {
	write := flag.Bool("write", false, "also write "+page)
	hooks := flag.Int("hooks", 300, "hook processes of each kind")
	calls := flag.Int("calls", 3000, "calls of the daemon of each kind")
	flag.Parse()
	if err := run(context.Background(), *write, *hooks, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "codingagents:", err)
		os.Exit(1)
	}
}

// stage is a folder with the program, a project and a running daemon.
type stage struct {
	dir, binary, project string
	env                  []string
}

func run(ctx context.Context, write bool, hooks, calls int) (err error) {
	dir, err := os.MkdirTemp("", "pb")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{dir: dir, binary: filepath.Join(dir, "powerbox"), project: filepath.Join(dir, "p")}
	s.env = append(os.Environ(), "HOME="+dir, "POWERBOX_GUARD_STATE="+filepath.Join(dir, "state"), "POWERBOX_GUARD_RUNTIME="+filepath.Join(dir, "run"))
	build := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", s.binary, "./cmd/powerbox") //nolint:gosec // the program under test
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(s.project, ".git"), 0o700); err != nil {
		return err
	}
	if _, err := s.run(ctx, grant, "guard", "grant", "-", "--yes"); err != nil {
		return err
	}
	defer func() { _, e := s.run(ctx, "", "guard", "daemon", "--stop"); err = errors.Join(err, e) }()
	rows, err := s.measure(ctx, hooks, calls)
	if err != nil {
		return err
	}
	text := report(rows, hooks, calls, time.Now())
	if write {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
	}
	_, err = fmt.Print(text)
	return err
}

func (s *stage) run(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...) //nolint:gosec // the program under test
	cmd.Dir, cmd.Env, cmd.Stdin = s.project, s.env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("powerbox %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// row holds the measurements of one kind.
type row struct {
	name  string
	times []time.Duration
}

func (s *stage) measure(ctx context.Context, hooks, calls int) ([]row, error) {
	allowed := s.hook("Bash", map[string]any{"command": "go test ./... 2>&1 | grep -n FAIL | head -5"})
	denied := s.hook("Bash", map[string]any{"command": "rm -rf /"})
	if out, err := s.run(ctx, allowed, "guard", "hook", "claude-code"); err != nil || !strings.Contains(out, `"allow"`) {
		return nil, fmt.Errorf("the first hook says %s: %w", out, err)
	}
	var rows []row
	for _, p := range []struct {
		name, stdin, want string
		args              []string
	}{
		{"start and end of the program (powerbox version)", "", "powerbox", []string{"version"}},
		{"hook process, pipeline of three commands, allowed", allowed, `"allow"`, []string{"guard", "hook", "claude-code"}},
		{"hook process, rm -rf, denied", denied, `"deny"`, []string{"guard", "hook", "claude-code"}},
	} {
		r, err := times(p.name, hooks, func() (string, error) { return s.run(ctx, p.stdin, p.args...) }, p.want)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	for _, p := range []struct{ name, input, want string }{
		{"daemon, pipeline of three commands, allowed", allowed, "allow"},
		{"daemon, edit, allowed", s.hook("Edit", map[string]any{"file_path": s.project + "/internal/x.go"}), "allow"},
		{"daemon, rm -rf, denied", denied, "deny"},
	} {
		r, err := times(p.name, calls, func() (string, error) { return s.call(ctx, p.input) }, p.want)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *stage) hook(tool string, input map[string]any) string {
	b, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": s.project, "tool_name": tool, "tool_use_id": "t", "tool_input": input})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// call asks the daemon as a hook does, on a connection of its own.
func (s *stage) call(ctx context.Context, input string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "run", "guard.sock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // the answer was read
	if err := json.NewEncoder(conn).Encode(map[string]any{"do": "hook", "client": "claude-code", "input": []byte(input)}); err != nil {
		return "", err
	}
	var answer struct {
		Output struct {
			Stdout string `json:"stdout"`
		} `json:"output"`
	}
	err = json.NewDecoder(conn).Decode(&answer)
	return answer.Output.Stdout, err
}

func times(name string, n int, do func() (string, error), want string) (row, error) {
	r := row{name: name}
	for range n {
		begin := time.Now()
		out, err := do()
		r.times = append(r.times, time.Since(begin))
		if err != nil || !strings.Contains(out, want) {
			return r, fmt.Errorf("%s: %s: %w", name, out, err)
		}
	}
	slices.Sort(r.times)
	return r, nil
}

func (r row) quantile(q float64) string {
	return fmt.Sprintf("%.2f ms", float64(r.times[min(int(q*float64(len(r.times))), len(r.times)-1)].Microseconds())/1000)
}

func report(rows []row, hooks, calls int, now time.Time) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Cost of guarding a coding agent\n\nAfter this page you know how long a tool call of a guarded coding agent waits ([how to guard one](../how-to/coding-agents.md)).\n\n")
	fmt.Fprintf(&b, "%s, %s, %d CPUs, by `go run ./codingagents -write` in `bench`. One caller at a time; %d hook processes and %d calls of the daemon of each kind. Other work ran on the machine.\n", now.UTC().Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), hooks, calls)
	fmt.Fprintf(&b, "Every decision is signed and synced to the disk before it is answered. The goal for the daemon is 5 ms. Most of a hook is the start of the program.\n\n")
	fmt.Fprintf(&b, "| what | median | p99 |\n| --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.name, r.quantile(0.5), r.quantile(0.99))
	}
	return b.String()
}
