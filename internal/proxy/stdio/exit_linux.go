package stdio

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// exited returns when a process has ended, and leaves it to be waited for: its id, and
// that of its group, are not another party's before that.
func exited(cmd *exec.Cmd) bool {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil // otherwise it was waited for
		}
	}
}
