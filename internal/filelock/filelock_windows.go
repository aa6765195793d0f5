package filelock

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Take takes an exclusive lock that ends with the process, as on other systems.
func Take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{}); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is locked by another powerbox process; stop that process first", path)
	}
	return f, nil
}
