// Package filemode says whether the mode of a file lets other users of the machine at it.
package filemode

import (
	"fmt"
	"io/fs"
	"runtime"
)

// Others returns the bits of a mode that give group and others something. On Windows it
// returns none: files there have access lists and no modes, and a file in a person's
// profile is that person's.
func Others(mode fs.FileMode) fs.FileMode { return others(runtime.GOOS, mode) }

func others(system string, mode fs.FileMode) fs.FileMode {
	if system == "windows" {
		return 0
	}
	return mode.Perm() & 0o077
}

// Keeps refuses a system where modes cannot keep a server's keys from other users.
func Keeps(what string) error { return keeps(runtime.GOOS, what) }

func keeps(system, what string) error {
	if system == "windows" {
		return fmt.Errorf("%s does not run on Windows, which has no file modes to protect its keys. Run it on Linux or macOS, in a container, or in WSL 2. "+
			"Commands for holders and operators, such as attach, call and revoke, run on Windows", what)
	}
	return nil
}
