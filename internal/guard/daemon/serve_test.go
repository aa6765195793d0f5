package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

// listen runs a daemon of the town, and returns what ends it.
func listen(t *testing.T, w *town, at daemon.Socket, idle time.Duration) (stop func() error) {
	t.Helper()
	if err := w.d.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, w.config, at, idle, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() error { cancel(); return <-ended }
}

func socket(t *testing.T) daemon.Socket {
	t.Helper()
	dir, err := os.MkdirTemp("", "pb") //nolint:usetesting // that of the test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return daemon.Socket{Dir: filepath.Join(dir, "run"), UID: os.Getuid()}
}

// Only its user can open the socket, and the daemon answers only that user.
func TestSocketIsItsUsersAlone(t *testing.T) {
	w, at := newTown(t, townGrant), socket(t)
	stop := listen(t, w, at, time.Minute)
	info, err := os.Stat(at.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
	if _, err := daemon.Call(t.Context(), at, daemon.Request{Do: "questions"}); err != nil {
		t.Errorf("its user: %v", err)
	}
	stranger := at
	stranger.UID++ // as if another user listened there
	if _, err := daemon.Call(t.Context(), stranger, daemon.Request{Do: "questions"}); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a daemon of another user is asked: %v", err)
	}
	if err := daemon.Run(t.Context(), w.config, socket(t), time.Minute, func() {}); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a second daemon: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// The folder of the socket is its user's, and others cannot enter it.
func TestFolderOfTheSocketIsItsUsersAlone(t *testing.T) {
	w, at := newTown(t, townGrant), socket(t)
	if err := os.Mkdir(at.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other := at
	other.UID++
	if err := daemon.Run(t.Context(), w.config, other, time.Minute, func() {}); err == nil || !strings.Contains(err.Error(), "this user alone") {
		t.Errorf("a folder of another user is used: %v", err)
	}
	if err := os.Chmod(at.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Run(t.Context(), w.config, at, time.Minute, func() {}); err == nil {
		t.Error("a folder that others can enter is used")
	}
}

// An idle daemon ends. A killed one leaves a socket, which the next daemon replaces.
func TestIdleDaemonEnds(t *testing.T) {
	w, at := newTown(t, townGrant), socket(t)
	if err := os.Mkdir(at.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at.Path(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Run(t.Context(), w.config, at, time.Millisecond, func() {}); err != nil {
		t.Error(err)
	}
	w.open()
}

// A decision that cannot be recorded is a denial.
func TestDecisionWithoutEvidenceIsADenial(t *testing.T) {
	w := newTown(t, townGrant)
	w.want("before", w.bash("", "git diff"), "allow")
	if err := w.d.Close(); err != nil { // the journal cannot be written any more
		t.Fatal(err)
	}
	w.want("after", w.bash("", "git diff"), "deny")
	w.open()
}
