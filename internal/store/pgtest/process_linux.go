package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// credential is whom the server runs as: PostgreSQL refuses root. nil is the caller.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the caller is no error
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("pgtest: PostgreSQL does not run as root, and there is no user postgres to run it: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, errGroup)
}

// asOwner has a program of PostgreSQL run as its user, in its own group.
func asOwner(cmd *exec.Cmd) error {
	owner, err := credential()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Setpgid: true}
	return err
}

// giveToOwner gives a folder to PostgreSQL's user.
func giveToOwner(folder string) error {
	owner, err := credential()
	if err != nil || owner == nil {
		return err
	}
	return os.Chown(folder, int(owner.Uid), int(owner.Gid))
}

// endWithUs has the kernel end a program when this process ends.
func endWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT }

func pause(pids []int)     { tell(pids, syscall.SIGSTOP) }
func resumeAll(pids []int) { tell(pids, syscall.SIGCONT) }
func killAll(pids []int)   { tell(pids, syscall.SIGKILL) }

func tell(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// inMemory reports whether the files of a folder are in memory.
func inMemory(folder string) bool {
	const tmpfs = 0x01021994 // statfs(2)
	var s syscall.Statfs_t
	return syscall.Statfs(folder, &s) == nil && s.Type == tmpfs
}
