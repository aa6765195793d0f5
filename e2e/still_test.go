package e2e

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// standStill stops a process that this one started, and returns when all of it stands still. A
// signal alone may come after the process has answered once more.
func standStill(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}
