package daemon

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/powerbox-project/powerbox/internal/guard/shell"
)

// Place is this machine, seen from a folder.
func Place(dir, home string) shell.Place {
	return shell.Place{Dir: dir, Home: home, Link: link, List: list}
}

// link reads a symbolic link. Other files and missing ones have no target.
func link(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink == 0:
		return "", nil
	}
	return os.Readlink(path)
}

func list(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read; nothing is lost
	return f.Readdirnames(-1)
}
