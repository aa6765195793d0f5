package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// built returns the path of a program that is beside the one under test, and builds it if it
// is missing. The arguments are those of go build, and folder is where it runs. With
// E2E_PROGRAMS, all processes of these tests share one folder of programs, and the first that
// needs a program builds it.
func built(name, folder string, args ...string) (string, error) {
	path := filepath.Join(programs, name)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	made := path + ".new"
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", made}, args...)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return path, os.Rename(made, path)
}
