//go:build unix

package sqlite

import (
	"fmt"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock that ends with the process, so that two
// servers never write one file and a killed one leaves nothing behind.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("sqlite: %s is locked: another powerbox uses this store; stop it first", path)
	}
	return f, nil
}
