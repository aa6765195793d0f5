package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// serveScript serves a new agent on @a2a-js/sdk on every binding until the context ends,
// and returns its URL.
func serveScript(ctx context.Context) (string, error) {
	at, err := freeport.Lasting()
	if err != nil {
		return "", err
	}
	grpc, err := freeport.Lasting()
	if err != nil {
		return "", err
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module; run this inside bench: %w", err)
	}
	cmd := exec.CommandContext(ctx, "node", "tck.mjs", at, grpc) //nolint:gosec // the words are ours
	cmd.Dir, cmd.Stderr = filepath.Join(strings.TrimSpace(string(module)), "differential", "agents"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
		_ = cmd.Wait() // it is ended with the context
	}()
	select {
	case err = <-ready:
	case <-time.After(patience):
		err = errors.New("it is not ready")
	}
	if err != nil {
		return "", fmt.Errorf("node tck.mjs; install its packages with npm ci in bench/differential/agents: %w", err)
	}
	return "http://" + at, nil
}
