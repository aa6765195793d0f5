//go:build unix

package keeper

import (
	"os/exec"
	"syscall"
)

// alone has the program in a group of its own: what interrupts the server at a terminal
// must not end the signer before the last record is signed.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
