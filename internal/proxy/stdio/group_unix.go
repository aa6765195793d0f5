//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
)

// alone has a process, with what it starts, in its own group.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends a process that was started here, with its group. One that was waited
// for has no group any more that could be another party's: it is killed before.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
