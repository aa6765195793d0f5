//go:build !unix

package keeper

import "os/exec"

func alone(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
