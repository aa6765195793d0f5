//go:build !unix

package guard

import "os/exec"

// detach does nothing: no daemon answers on this system.
func detach(*exec.Cmd) {}
