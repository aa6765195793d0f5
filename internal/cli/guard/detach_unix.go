//go:build unix

package guard

import (
	"os/exec"
	"syscall"
)

// detach has the daemon outlive the terminal of the hook that starts it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
