//go:build unix

// Package filelock keeps a folder to one process.
package filelock

import (
	"fmt"
	"os"
	"syscall"
)

// Take takes an exclusive lock that ends with the process, so that two never
// write one file and a killed one leaves nothing behind. Closing the file gives
// it up.
func Take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is locked by another powerbox process; stop that process first", path)
	}
	return f, nil
}
