package reliability

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is a folder that can be full: a file system in memory, of its own.
type disk struct {
	path string
	how  string
}

// diskSize holds the keys of a gateway, and some hundred records.
const diskSize = "1m"

func newDisk(path string) (*disk, error) {
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size="+diskSize+",mode=0700"); err != nil {
		return nil, fmt.Errorf("a disk that can be full is a tmpfs, which only root can mount: %w", err)
	}
	return &disk{path, "its spool is on a tmpfs of " + diskSize + ", filled to the last byte"}, nil
}

// fill takes all that is free.
func (d *disk) fill() error {
	f, err := os.OpenFile(filepath.Join(d.path, "filler"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing of it is wanted
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// free gives it back.
func (d *disk) free() error { return os.Remove(filepath.Join(d.path, "filler")) }

func (d *disk) close() error { return unix.Unmount(d.path, unix.MNT_DETACH) }
