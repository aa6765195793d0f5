package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// The blocks of docs/tutorials/a2a-agent.md, docs/how-to/auditing.md,
// docs/how-to/incidents.md, docs/tutorials/worked-examples.md, docs/how-to/grants.md,
// docs/how-to/ci.md, docs/how-to/mcp.md, docs/how-to/coding-agents.md, docs/how-to/other-gateways.md and docs/how-to/runbook.md. "sh setup" is run in the
// repository, "sh background URL" keeps running and is ready when the URL answers; another one
// of the same URL stops it first. A text block after a block says lines that its output has,
// in any spacing; ... stands for anything.
var block = regexp.MustCompile("(?s)```(sh|text)([^\n]*)\n(.*?)```")

// reader does what the tutorial says.
type reader struct {
	*testing.T
	dir     string
	env     []string
	ports   *strings.Replacer
	running map[string]*background
	output  string
}

// background is a program that keeps running.
type background struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// TestTutorial runs the commands of docs/tutorials/a2a-agent.md.
func TestTutorial(t *testing.T) { follow(t, "../../docs/tutorials/a2a-agent.md", 20) }

// TestEXT26_EXT41_AuditorsGuide runs the commands of docs/how-to/auditing.md.
func TestEXT26_EXT41_AuditorsGuide(t *testing.T) { follow(t, "../../docs/how-to/auditing.md", 20) }

// TestEXT28_EXT32_IncidentRunbook runs the commands of docs/how-to/incidents.md.
func TestEXT28_EXT32_IncidentRunbook(t *testing.T) { follow(t, "../../docs/how-to/incidents.md", 20) }

// TestEXT31_WorkedExamples runs the commands of docs/tutorials/worked-examples.md.
func TestEXT31_WorkedExamples(t *testing.T) { follow(t, "../../docs/tutorials/worked-examples.md", 6) }

// TestSEP_TwelveGrants runs the recipes of docs/how-to/grants.md.
func TestSEP_TwelveGrants(t *testing.T) { follow(t, "../../docs/how-to/grants.md", 48) }

// TestGATE13_ChecksInCI runs the commands of docs/how-to/ci.md.
func TestGATE13_ChecksInCI(t *testing.T) { follow(t, "../../docs/how-to/ci.md", 12) }

// bin is where pages install programs. It is the same for all of them: a program that is there
// already is not linked again.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "powerbox-pages")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = filepath.Join(dir, "bin")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestEXT27_Runbook runs the commands of docs/how-to/runbook.md.
func TestEXT27_Runbook(t *testing.T) { follow(t, "../../docs/how-to/runbook.md", 20) }

// TestGATE9_ThePageOfMCPServers runs the commands of docs/how-to/mcp.md.
func TestGATE9_ThePageOfMCPServers(t *testing.T) { follow(t, "../../docs/how-to/mcp.md", 13) }

// TestThePageOfOtherGateways runs the commands of docs/how-to/other-gateways.md.
func TestThePageOfOtherGateways(t *testing.T) { follow(t, "../../docs/how-to/other-gateways.md", 9) }

// TestThePageOfCodingAgents runs the commands of docs/how-to/coding-agents.md.
func TestThePageOfCodingAgents(t *testing.T) { follow(t, "../../docs/how-to/coding-agents.md", 12) }

// follow runs the commands of a page, from the first to the last, and looks for
// what it promises.
func follow(t *testing.T, page string, least int) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	agent, server, gateway := freeport.Address(t), freeport.Address(t), freeport.Address(t)
	r := &reader{T: t, dir: t.TempDir(), running: map[string]*background{}}
	r.ports = strings.NewReplacer("127.0.0.1:9101", agent, "127.0.0.1:8700", server, "127.0.0.1:8701", gateway)
	// Programs are linked without debug information, which takes longer.
	r.env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w", "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"POWERBOX_LISTEN="+server, "POWERBOX_ISSUER_URL=http://"+server,
		"XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"), "XDG_RUNTIME_DIR="+shortDir(t))
	t.Cleanup(r.stopAll)
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < least {
		t.Fatalf("%d blocks in %s", len(blocks), page)
	}
	for _, b := range blocks {
		kind, info, body := b[1], strings.Fields(b[2]), r.ports.Replace(b[3])
		switch {
		case kind == "text":
			r.expect(body)
		case len(info) == 2 && info[0] == "background":
			r.background(r.ports.Replace(info[1]), body)
		case len(info) == 1 && info[0] == "setup":
			r.run("../..", body)
		default:
			r.run(r.dir, body)
		}
	}
}

// shortDir is a folder whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "pb") //nolint:usetesting // that of the test is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (r *reader) run(dir, script string) {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), "sh", "-e", "-c", script)
	cmd.Dir, cmd.Env = dir, r.env
	out, err := cmd.CombinedOutput()
	r.output = string(out)
	if err != nil {
		r.Fatalf("%v\n%s\n%s", err, script, out)
	}
}

func (r *reader) expect(text string) {
	r.Helper()
	output := strings.Join(strings.Fields(r.output), " ")
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.Join(strings.Fields(line), " "), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if !regexp.MustCompile(strings.Join(parts, ".*?")).MatchString(output) {
			r.Fatalf("the page promises %q; there is\n%s", strings.TrimSpace(line), r.output)
		}
	}
}

// background starts a program and waits until its URL answers.
func (r *reader) background(url, script string) {
	r.Helper()
	restarted := r.stop(url)
	begin := time.Now()
	var log bytes.Buffer
	cmd := exec.Command("sh", "-c", "exec "+script)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.Stdout = r.dir, r.env, &log, &log
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	p := &background{cmd: cmd, ended: make(chan struct{})}
	go func() { defer close(p.ended); _ = cmd.Wait() }()
	r.running[url] = p
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.stop(url) // which ends what it writes to the log
			r.Fatalf("%s does not answer\n%s", url, &log)
		case <-p.ended:
			r.Fatalf("what was to answer at %s has ended\n%s", url, &log)
		case now := <-tick.C:
			// A server that was started again believes no proofs of the seconds
			// in which it may have been running before.
			if restarted && now.Before(begin.Truncate(time.Second).Add(3*time.Second)) {
				continue
			}
			if answers(ctx, url) {
				return
			}
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (r *reader) stop(url string) bool {
	p, ok := r.running[url]
	if !ok {
		return false
	}
	delete(r.running, url)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	<-p.ended
	return true
}

func (r *reader) stopAll() {
	for url := range r.running {
		r.stop(url)
	}
}
