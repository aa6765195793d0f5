//go:build !linux

package pgtest

import (
	"errors"
	"os/exec"
)

// errSystem: elsewhere the kernel cannot end a server with the test.
var errSystem = errors.New("pgtest: clusters for tests run on Linux alone; run this test there")

func giveToOwner(string) error { return errSystem }
func asOwner(*exec.Cmd) error  { return errSystem }

func endWithUs(*exec.Cmd) {}
func pause([]int)         {}
func resumeAll([]int)     {}
func killAll([]int)       {}

func inMemory(string) bool { return false }
