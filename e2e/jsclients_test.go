package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// clients are processes of jsclient that wait for the next client. A start of one takes a quarter of a
// second of the processor, which a client in a process that runs already does not.
var clients struct {
	mu   sync.Mutex
	idle []*clientProcess
}

type clientProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	talk programtest.Log
}

// closeClients ends the processes that wait.
func closeClients() {
	clients.mu.Lock()
	defer clients.mu.Unlock()
	for _, p := range clients.idle {
		_ = p.in.Close()
		_ = p.cmd.Wait()
	}
	clients.idle = nil
}

// ofClients takes a process that waits, or starts one.
func ofClients(t *testing.T) *clientProcess {
	t.Helper()
	clients.mu.Lock()
	defer clients.mu.Unlock()
	if n := len(clients.idle); n > 0 {
		p := clients.idle[n-1]
		clients.idle = clients.idle[:n-1]
		return p
	}
	p := &clientProcess{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), nodeOfClients(t), filepath.Join("jsclient", "client.mjs"))}
	p.cmd.Stderr = &p.talk
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p
}

// javascript has a new client on the JavaScript SDK run commands, and returns the lines that it prints.
func javascript(t *testing.T, cardURL, bearer string, commands ...[]string) []string {
	t.Helper()
	env := map[string]string{"A2A_TOKEN": bearer}
	for _, name := range []string{"A2A_LEGACY", "A2A_METADATA", "A2A_HEADERS"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	p := ofClients(t)
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := json.NewEncoder(p.in).Encode(map[string]any{"url": cardURL, "env": env, "commands": commands})
	var printed []string
	for err == nil {
		var line string
		if line, err = p.out.ReadString('\n'); err != nil {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		if line == `{"ended": true}` {
			clients.mu.Lock()
			defer clients.mu.Unlock()
			clients.idle = append(clients.idle, p)
			return printed
		}
		if printed = append(printed, line); strings.HasPrefix(line, `{"failed":`) {
			break
		}
	}
	_ = p.in.Close()
	ended := p.cmd.Wait()
	t.Fatalf("the JavaScript client at %s: %v, %v\n%s\n%s", cardURL, err, ended, strings.Join(printed, "\n"), p.talk.String())
	return nil
}
