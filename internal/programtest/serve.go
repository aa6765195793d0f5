package programtest

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The times of a server under test. They only bound a failure.
const (
	readyWithin = 30 * time.Second
	endsWithin  = 15 * time.Second
	looksEvery  = 10 * time.Millisecond
)

// Log is what a program has written so far. It may be read while the program runs.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Serve runs powerbox serve with the powerbox.yaml of a folder, and returns when it is ready at a
// URL. The server ends with the test.
func Serve(t testing.TB, program, folder, url string) *os.Process {
	t.Helper()
	log := &Log{}
	cmd := exec.Command(program, "serve", "-c", filepath.Join(folder, "powerbox.yaml"), "--dev")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(endsWithin):
			_ = cmd.Process.Kill()
		}
	})
	deadline := time.After(readyWithin)
	tick := time.NewTicker(looksEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("powerbox ended: %v\n%s", err, log)
		case <-deadline:
			t.Fatalf("powerbox is not ready\n%s", log)
		case <-tick.C:
			if ready(url) {
				return cmd.Process
			}
		}
	}
}

func ready(url string) bool {
	// A connection that stays open would keep the server from ending at once.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	r, err := client.Get(url + "/readyz")
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}
