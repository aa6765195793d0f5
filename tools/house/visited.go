package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measuredBuild counts what only the built program shows: its size, the packages that it
// links, and the functions that a call visits.
func (h house) measuredBuild(ctx context.Context, t *sourceTree) ([]measurement, error) {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	stripped := filepath.Join(dir, "powerbox")
	if _, err := goIn(ctx, t.root, "build", "-trimpath", "-ldflags", "-s -w", "-o", stripped, "./cmd/powerbox"); err != nil {
		return nil, err
	}
	info, err := os.Stat(stripped)
	if err != nil {
		return nil, err
	}
	linked, err := goIn(ctx, t.root, "list", "-deps", "./cmd/powerbox")
	if err != nil {
		return nil, err
	}
	funcs, files, err := visited(ctx, t, dir)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range funcs {
		total += n
	}
	return []measurement{
		{"size of the stripped binary (MB)", fmt.Sprintf("%.1f", float64(info.Size())/1e6)},
		{"packages that it links", strconv.Itoa(len(strings.Fields(linked)))},
		{"functions that a SendMessage visits", strconv.Itoa(total)},
		{"packages with most of them", largest(funcs, topShown)},
		{"files that a SendMessage visits", strconv.Itoa(files)},
	}, nil
}

// goIn runs the go tool in a folder, as a static binary is built, and returns what it prints.
func goIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), dir, err)
	}
	return string(out), nil
}

// A function is visited by a call if its blocks run at least once more for each of
// moreCalls calls. Work at the start and work by the clock does not grow so.
const (
	fewCalls  = 5
	moreCalls = 50
)

// visited counts the functions (by package) and the files of the tree that every
// SendMessage visits, with the configuration that init makes for the agent of examples/stock.
func visited(ctx context.Context, t *sourceTree, dir string) (funcs map[string]int, files int, err error) {
	program, agent := filepath.Join(dir, "covered"), filepath.Join(dir, "stock")
	if _, err := goIn(ctx, t.root, "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", program, "./cmd/powerbox"); err != nil {
		return nil, 0, err
	}
	if _, err := goIn(ctx, t.root, "build", "-o", agent, "./examples/stock"); err != nil {
		return nil, 0, err
	}
	few, err := profiled(ctx, t, dir, fewCalls)
	if err != nil {
		return nil, 0, err
	}
	many, err := profiled(ctx, t, dir, fewCalls+moreCalls)
	if err != nil {
		return nil, 0, err
	}
	funcs, files = t.grown(few, many)
	if files == 0 {
		return nil, 0, errors.New("the profile has no function that a call visits")
	}
	return funcs, files, nil
}

// grown counts the functions by package, and their files, with a block that ran at least moreCalls
// times more in the second profile.
func (t *sourceTree) grown(few, many map[coverBlock]int) (funcs map[string]int, files int) {
	funcs = make(map[string]int)
	lines := make(map[string][]int) // where such blocks begin, by file
	for block, n := range many {
		if n-few[block] >= moreCalls {
			lines[block.file] = append(lines[block.file], block.line)
		}
	}
	for folder, p := range t.packages {
		for file, all := range p.funcs {
			found := 0
			for _, fn := range all {
				if slices.ContainsFunc(lines[file], func(line int) bool { return fn.from <= line && line <= fn.to }) {
					found++
				}
			}
			if found > 0 {
				funcs[folder] += found
				files++
			}
		}
	}
	return funcs, files
}

// coverBlock is a block of statements of a profile, by its file and where it begins.
type coverBlock struct {
	file string // relative to the root
	line int
	span string
}

// parseCounts reads a profile of go tool covdata: FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT.
func parseCounts(module, profile string) (map[coverBlock]int, error) {
	counts := make(map[coverBlock]int)
	for line := range strings.Lines(profile) {
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("a line of the profile has %d fields, want 3: %q", len(f), line)
		}
		file, span, _ := strings.Cut(f[0], ":")
		number, _, _ := strings.Cut(span, ".")
		at, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("a line of the profile: %w", err)
		}
		count, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("a line of the profile: %w", err)
		}
		counts[coverBlock{strings.TrimPrefix(file, module+"/"), at, span}] += count
	}
	return counts, nil
}

// profiled runs agent and program in their own folder, sends calls, and returns how
// often each block ran.
func profiled(ctx context.Context, t *sourceTree, dir string, calls int) (map[coverBlock]int, error) {
	at := filepath.Join(dir, fmt.Sprint("run", calls))
	data := filepath.Join(at, "coverage")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	agentAt, serverAt, err := twoAddresses(ctx)
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), "GOCOVERDIR="+data, "POWERBOX_LISTEN="+serverAt, "POWERBOX_ISSUER_URL=http://"+serverAt)
	stopAgent, err := started(ctx, at, env, "http://"+agentAt+"/.well-known/agent-card.json", filepath.Join(dir, "stock"), "-listen", agentAt)
	if err != nil {
		return nil, err
	}
	defer stopAgent() //nolint:errcheck // it has nothing to write
	program := filepath.Join(dir, "covered")
	initial := exec.CommandContext(ctx, program, "init", "--agent", "http://"+agentAt, "--id", "notes")
	initial.Dir, initial.Env = at, env
	if out, err := initial.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("powerbox init: %w\n%s", err, out)
	}
	stop, err := started(ctx, at, env, "http://"+serverAt+"/readyz", program, "serve", "--dev")
	if err != nil {
		return nil, err
	}
	for n := range calls {
		if err = sendMessage(ctx, "http://"+serverAt+"/agents/notes", n); err != nil {
			break
		}
	}
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	text := filepath.Join(at, "profile")
	if _, err := goIn(ctx, t.root, "tool", "covdata", "textfmt", "-i", data, "-o", text); err != nil {
		return nil, err
	}
	profile, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	return parseCounts(t.module, string(profile))
}

// twoAddresses are free on the loopback interface now.
func twoAddresses(ctx context.Context) (first, second string, err error) {
	var taken [2]string
	for n := range taken {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		taken[n] = l.Addr().String()
	}
	return taken[0], taken[1], nil
}

// startTime bounds the start of a program.
const startTime = time.Minute

// started starts a program and waits until the URL answers with 200. The function that it
// returns ends the program and says how it ended.
func started(ctx context.Context, dir string, env []string, url, program string, args ...string) (stop func() error, err error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return cmd.Wait()
	}
	wait, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if status, _, err := fetched(wait, http.MethodGet, url, ""); err == nil && status == http.StatusOK {
			return stop, nil
		}
		select {
		case <-look.C:
		case <-wait.Done():
			_ = stop()
			return nil, fmt.Errorf("%s does not answer at %s:\n%s", filepath.Base(program), url, said.String())
		}
	}
}

// sendMessage sends a text to the agent through the gateway.
func sendMessage(ctx context.Context, url string, n int) error {
	const body = `{"jsonrpc": "2.0", "id": %d, "method": "SendMessage", "params": {"message": {"messageId": "m%d", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}}`
	status, answer, err := fetched(ctx, http.MethodPost, url, fmt.Sprintf(body, n+1, n+1))
	if err != nil {
		return err
	}
	if status != http.StatusOK || !strings.Contains(answer, "read: hello") {
		return fmt.Errorf("the agent did not answer the message: status %d, %s", status, answer)
	}
	return nil
}

func fetched(ctx context.Context, method, url, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
