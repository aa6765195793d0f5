package programtest

import (
	"bytes"
	"context"
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
	ctx := context.WithoutCancel(t.Context())                                                                // the server is asked to end, not killed
	cmd := exec.CommandContext(ctx, program, "serve", "-c", filepath.Join(folder, "powerbox.yaml"), "--dev") //nolint:gosec // our own program
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var failure error // once it has ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(endsWithin):
			_ = cmd.Process.Kill()
		}
	})
	deadline := time.After(readyWithin)
	tick := time.NewTicker(looksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			t.Fatalf("powerbox ended: %v\n%s", failure, log)
		case <-deadline:
			t.Fatalf("powerbox is not ready\n%s", log)
		case <-tick.C:
			if ready(ctx, url) {
				return cmd.Process
			}
		}
	}
}

func ready(ctx context.Context, url string) bool {
	// A connection that stays open would keep the server from ending at once.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	r, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}
