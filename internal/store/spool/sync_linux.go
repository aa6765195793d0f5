package spool

import (
	"os"
	"syscall"
)

// syncData makes the written bytes durable. The length of the file has not
// changed.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
