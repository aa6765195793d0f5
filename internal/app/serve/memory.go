package serve

import (
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// memoryShare is how much of the memory that the system grants is Go's, in percent. The
// rest is for memory that Go does not count, such as buffers of SQLite's files.
const memoryShare = 90

// memoryLimit returns the memory that Go is to keep within, by the control group of the
// process: memory.max of version 2, memory.limit_in_bytes of version 1. Parents bound
// their children, so the smallest on the way up counts. 0 is no limit. Go does not look
// there unasked, and a process at its limit is killed, not slowed.
func memoryLimit(root fs.FS) int64 {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(own)) {
		// hierarchy-ID:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			least = min(least, limitUpwards(root, "sys/fs/cgroup", parts[2], "memory.max"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			least = min(least, limitUpwards(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	if least >= unlimitedMemory {
		return 0
	}
	return least / 100 * memoryShare
}

// unlimitedMemory is more than any machine has: version 1 says no limit by the largest
// number of pages.
const unlimitedMemory = 1 << 60

// limitUpwards returns the smallest limit from a group up to the root. In a container
// the path is often that of the host, and the files are at the root of the mount.
func limitUpwards(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for at := path.Join("/", group); ; at = path.Dir(at) {
		if data, err := fs.ReadFile(root, path.Join(mount, at, file)); err == nil {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64); err == nil && n > 0 {
				least = min(least, n) // "max" is no number and no limit
			}
		}
		if at == "/" {
			return least
		}
	}
}
