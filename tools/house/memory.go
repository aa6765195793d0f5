package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
)

// locksOfTests is the variable that names the folder of the locks of ports to tests.
const locksOfTests = "E2E_LOCKS"

// roomForTests is how many bytes of memory have to be free for the temporary files of all tests.
// They take less than a quarter.
const roomForTests = 4 << 30

// inMemory makes a folder below one in memory for the temporary files of tests, and returns the
// environment that names it. A server that starts writes ten files and waits for the disk with
// each, and its own work takes as long. The go tool and the locks of ports, which tests of other
// runs see, keep the folder that they have. Without room the environment is empty.
func inMemory(memory string, room uint64) (env []string, remove func(), err error) {
	status, _ := os.ReadFile("/proc/meminfo")
	if min(freeIn(memory), available(status)) < room {
		return nil, func() {}, nil
	}
	dir, err := os.MkdirTemp(memory, "powerbox-tests")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL runs as another user
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	own := os.TempDir()
	return []string{"TMPDIR=" + dir, "GOTMPDIR=" + own, locksOfTests + "=" + own}, func() { _ = os.RemoveAll(dir) }, nil
}

// available is how many bytes programs can still have, by the text of /proc/meminfo; 0 without it.
func available(meminfo []byte) uint64 {
	lines := bufio.NewScanner(bytes.NewReader(meminfo))
	for lines.Scan() {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 0
}
