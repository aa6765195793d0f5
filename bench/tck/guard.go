package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// guard is a powerbox in front of the agent, and, in require, an attach in front
// of that.
type guard struct {
	url       string
	processes []*exec.Cmd
}

// patience is how long a process may take to be ready.
const patience = 30 * time.Second

// session is the one that capabilities are asked for with.
const session = "tck-session"

// Of the card's two forms of what can be granted it leaves out the one that the
// schema of A2A, which the kit holds cards to, has no place for.
const serveConfiguration = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity: {dev: [{name: tester, token: ` + session + `}]}
agents:
  - {id: tck, upstream: "%[2]s", mode: %[3]s, required: [tck:use/talk], enforces: context, client_contexts: true, grpc: {listen: "%[4]s"}, push: {private: true}, card_legacy_member: false}
offers:
  tck: [{id: tck:use, description: Use the agent, operations: [talk]}]
skills:
  tck: [{skill: ` + skill + `, grant: tck:use, operation: talk}]
policies: [policies.cedar]
`

const attachConfiguration = `listen: %[1]s
key: holder.jwk
session_file: session
agents:
  - name: tck
    card: http://%[2]s/agents/tck
    grpc: %[3]s
    request: [{grants: [tck:use], purpose: try the agent, push: true, card: true}]
`

// guard starts what a mode needs.
func (t *trial) guard(ctx context.Context, name, agent, mode string) (*guard, error) {
	g := &guard{}
	if mode != "observe" && mode != "require" {
		return nil, errors.New("no such mode is tried; there are observe and require")
	}
	dir := filepath.Join(t.dir, name)
	var free [4]string
	for i := range free {
		var err error
		if free[i], err = freeport.Lasting(); err != nil {
			return nil, err
		}
	}
	at, grpc, beside, besideGRPC := free[0], free[1], free[2], free[3]
	files := map[string]string{
		"powerbox.yaml": fmt.Sprintf(serveConfiguration, at, agent, mode, grpc), "policies.cedar": "permit(principal, action, resource);\n",
		"attach.yaml": fmt.Sprintf(attachConfiguration, beside, at, besideGRPC), "session": session + "\n",
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	g.url = "http://" + at + "/agents/tck"
	if err := g.start(ctx, dir, "http://"+at+"/readyz", t.powerbox, "serve", "-c", "powerbox.yaml", "--dev"); err != nil || mode == "observe" {
		return g, err
	}
	if err := t.attach(ctx, g, dir, "http://"+beside+"/agents/tck"); err != nil {
		g.end()
		return nil, err
	}
	return g, nil
}

// attach puts powerbox attach in front.
func (t *trial) attach(ctx context.Context, g *guard, dir, url string) error {
	if out, err := exec.CommandContext(ctx, t.attacher, "attach", "--help").CombinedOutput(); err != nil { //nolint:gosec // the operator's binary
		return fmt.Errorf("this powerbox has no attach, without which the kit cannot show capabilities; leave the mode out with -modes observe: %w\n%s", err, out)
	}
	keys := exec.CommandContext(ctx, t.powerbox, "keys", "new", "holder.jwk") //nolint:gosec // the operator's binary
	keys.Dir = dir
	if out, err := keys.CombinedOutput(); err != nil {
		return fmt.Errorf("making a key: %w\n%s", err, out)
	}
	g.url = url
	return g.start(ctx, dir, url+"/.well-known/agent-card.json", t.attacher, "attach", "--config", "attach.yaml")
}

// start runs a command until a URL answers.
func (g *guard) start(ctx context.Context, dir, ready, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the operator's binary
	var log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	g.processes = append(g.processes, cmd)
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended: %w\n%s", args[0], err, log.Bytes())
		case <-deadline:
			return fmt.Errorf("%s is not ready after %v", args[0], patience)
		case <-tick.C:
			if answers(ctx, ready) {
				return nil
			}
		}
	}
}

func answers(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode == http.StatusOK
}

// end stops the processes.
func (g *guard) end() {
	for _, p := range g.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
}
