//go:build !linux

package stdio

import "os/exec"

// exited reports that the end of a process is not told without waiting for it: here it
// is noticed by the end of its output.
func exited(*exec.Cmd) bool { return false }
