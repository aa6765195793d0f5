package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Follow has a cluster that has ended begin anew as the standby of another one, in its
// own folder: what it had is gone.
func (c *Cluster) Follow(primary *Cluster, name string, settings ...string) error {
	if err := os.RemoveAll(c.data()); err != nil {
		return err
	}
	from := fmt.Sprintf("host=%s user=%s application_name=%s", primary.folder, superuser, name)
	if err := c.run("pg_basebackup", "-D", c.data(), "-R", "-X", "stream", "-c", "fast", "-d", from); err != nil {
		return err
	}
	return c.Start(settings...)
}

// children are the processes that a process began. Those of PostgreSQL have sessions of
// their own, so that no group has them.
func children(of int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name stands in brackets, and may have anything in it.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(of) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
