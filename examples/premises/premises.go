// Package premises is what the worked examples of the authorization extension
// stand on (docs/tutorials/worked-examples.md): Powerbox as the program that people run, in front
// of agents that know nothing of it; callers that pass scopes on offline and call
// through a2a-go's client; and an auditor with a folder and two verifiers.
//
// Everything is on loopback and in a folder that is gone afterwards.
package premises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main runs an example and exits. An interrupt ends its context.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Setting is what an example puts up.
type Setting struct {
	// Agents are those behind Powerbox, by the id that they have there. Required.
	Agents map[string]Agent
	// Configuration is powerbox.yaml below its agents: offers, skills, resources.
	// Required.
	Configuration string
	// Policies are in Cedar. Required: nothing is permitted without.
	Policies string
	// User is the name of the built-in user, whose session is [Premises.Session],
	// and Group the group that policies know the user by. Required.
	User, Group string
	// Callers are names of agents that call others by a key that Powerbox knows them
	// by: [Premises.Callers] has them. Optional.
	Callers []string
}

// Premises is a running server with the agents behind it.
type Premises struct {
	// Session is the access token of the user.
	Session string
	// HTTP is for callers.
	HTTP *http.Client
	// Callers are those of the setting, by name. They have no session.
	Callers map[string]*Caller

	url, dir, binary string
	agents           []*served
	server           *exec.Cmd
	exited           chan error
	log              bytes.Buffer // of the server; read after it has ended
}

// Open builds the program, starts the agents and a server in front of them, and
// returns when it is ready. Close it in any case where there is no error.
func Open(ctx context.Context, s Setting) (_ *Premises, err error) {
	p := &Premises{Session: "session-of-" + s.User, HTTP: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
	if p.dir, err = os.MkdirTemp("", "powerbox-example-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	p.binary = filepath.Join(p.dir, "powerbox")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", p.binary, "github.com/powerbox-project/powerbox/cmd/powerbox") //nolint:gosec // our own package, into our own folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building powerbox, which needs a folder of its module: %w\n%s", err, out)
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p.url = "http://" + listen
	p.Callers = map[string]*Caller{}
	for _, name := range s.Callers {
		if p.Callers[name], err = p.Caller(""); err != nil {
			return nil, err
		}
	}
	if err := p.furnish(ctx, s, listen); err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

// Agent is the public URL of an agent, which Powerbox answers at.
func (p *Premises) Agent(id string) string { return p.url + "/agents/" + id }

// furnish starts the agents and writes configuration and policies.
func (p *Premises) furnish(ctx context.Context, s Setting, listen string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "listen: %s\nissuer: {url: %q}\n", listen, p.url)
	fmt.Fprintf(&text, "identity:\n  dev: [{name: %s, token: %s, groups: [%s]}]\n  callers: [", s.User, p.Session, s.Group)
	for name, c := range p.Callers {
		fmt.Fprintf(&text, "{agent: %s, key: %s}, ", name, c.Key.Public().Thumbprint())
	}
	text.WriteString("]\n")
	text.WriteString("policies: [example.cedar]\nagents:\n")
	for id, a := range s.Agents {
		a.protects(p.Agent(id), id, p.HTTP)
		behind, err := a.serve(ctx)
		if err != nil {
			return fmt.Errorf("agent %s: %w", id, err)
		}
		p.agents = append(p.agents, behind)
		fmt.Fprintf(&text, "  - {id: %s, upstream: %q, mode: require%s}\n", id, behind.url, a.threshold())
	}
	text.WriteString(s.Configuration)
	return errors.Join(
		os.WriteFile(filepath.Join(p.dir, "powerbox.yaml"), []byte(text.String()), 0o600),
		os.WriteFile(filepath.Join(p.dir, "example.cedar"), []byte(s.Policies), 0o600))
}

// Serve starts an agent that stands behind no gateway, and returns its URL. It
// ends with the premises.
func (p *Premises) Serve(ctx context.Context, a Agent) (string, error) {
	s, err := a.serve(ctx)
	if err != nil {
		return "", fmt.Errorf("agent %s: %w", a.Name, err)
	}
	p.agents = append(p.agents, s)
	return s.url, nil
}

// freeAddress returns an address below the ports that the system hands out:
// another program could take one of those before ours does. The ports below this
// range are for e2e.
func freeAddress(ctx context.Context) (string, error) {
	const first, last = 24000, 32000
	for range 100 {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first))) //nolint:gosec // a port needs no secrecy
		if l, err := new(net.ListenConfig).Listen(ctx, "tcp", at); err == nil {
			return at, l.Close()
		}
	}
	return "", errors.New("no port from 24000 to 32000 is free on 127.0.0.1")
}

func (p *Premises) start(ctx context.Context) error {
	server := exec.Command(p.binary, "serve", "--dev", "-c", filepath.Join(p.dir, "powerbox.yaml")) //nolint:gosec,noctx // the binary built above; Close stops it in order
	server.Env, server.Stderr = environment(), &p.log
	if err := server.Start(); err != nil {
		return err
	}
	p.server, p.exited = server, make(chan error, 1)
	go func() { p.exited <- server.Wait() }()
	late := time.After(20 * time.Second)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case err := <-p.exited:
			p.server = nil
			return fmt.Errorf("powerbox serve ended: %w\n%s", err, p.log.String())
		case <-late:
			err := p.stop()
			return errors.Join(fmt.Errorf("powerbox serve is not ready after 20 s\n%s", p.log.String()), err)
		case <-again.C:
			if p.ready(ctx) {
				return nil
			}
		}
	}
}

// environment is the reader's, without settings of a server of the reader's own:
// they would go over the example's file.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(setting string) bool { return strings.HasPrefix(setting, "POWERBOX_") })
}

func (p *Premises) ready(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := p.HTTP.Do(r)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// stop ends the server, as its operator would.
func (p *Premises) stop() error {
	if p.server == nil {
		return nil
	}
	err := p.server.Process.Signal(syscall.SIGTERM)
	select {
	case ended := <-p.exited:
		err = errors.Join(err, ended)
	case <-time.After(15 * time.Second):
		err = errors.Join(err, errors.New("powerbox serve did not stop in 15 s"), p.server.Process.Kill(), <-p.exited)
	}
	p.server = nil
	return err
}

// Close stops server and agents and removes the folder.
func (p *Premises) Close() error {
	err := p.stop()
	p.HTTP.CloseIdleConnections()
	for _, a := range p.agents {
		err = errors.Join(err, a.close())
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
