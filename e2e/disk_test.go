package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// heldDisk is the first argument of a test binary that runs a program whose syncs of files
// its parent answers.
const heldDisk = "held-disk"

// A disk is what a program under test waits for when it syncs a file. The kernel asks the
// test about every sync (seccomp_unotify), so that a test holds them for as long as it
// wants.
type disk struct {
	t       *testing.T
	program string // runs the built program on this disk

	mu      sync.Mutex
	held    bool
	waiting int // syncs that are held
}

// newDisk makes a disk for one program at a time.
func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{t: t, program: filepath.Join(dir, "powerbox")}
	t.Cleanup(func() {
		d.release()
		_ = l.Close()
	})
	script := fmt.Sprintf("#!/bin/sh\nexec %q %s %q %q \"$@\"\n", os.Args[0], heldDisk, socket, binary)
	if err := os.WriteFile(d.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			listener, err := receiveFile(c.(*net.UnixConn))
			_ = c.Close()
			if err != nil {
				t.Error(err)
				return
			}
			go d.answer(listener)
		}
	}()
	return d
}

// hold has every sync wait from now on.
func (d *disk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// release lets all syncs end.
func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = false
}

func (d *disk) isHeld(waiting int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = waiting
	return d.held
}

// hangs reports whether a sync waits.
func (d *disk) hangs() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting > 0
}

// notification and verdict are struct seccomp_notif and struct seccomp_notif_resp of the
// kernel, and the rest are its constants.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type verdict struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

const (
	ioctlReceive, ioctlSend = 0xc0502100, 0xc0182101
	continueSyscall         = 1
)

// answer answers the syncs of one program until it ends.
func (d *disk) answer(listener int) {
	defer func() { _ = unix.Close(listener) }()
	var waiting []uint64
	for {
		if !d.isHeld(len(waiting)) {
			for _, id := range waiting {
				v := verdict{id: id, flags: continueSyscall}
				_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlSend, uintptr(unsafe.Pointer(&v))) // the program may have gone
			}
			waiting = nil
		}
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 5); err != nil && err != unix.EINTR || n > 0 && poll[0].Revents&unix.POLLIN == 0 {
			return
		} else if n <= 0 {
			continue
		}
		var one notification
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlReceive, uintptr(unsafe.Pointer(&one))); e == 0 {
			waiting = append(waiting, one.id)
		}
	}
}

func receiveFile(c *net.UnixConn) (int, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(data, control)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("no file came: %w", err)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return files[0], nil
}

// superviseSync becomes a program whose syncs of files are answered at a socket.
func superviseSync(socket string, program []string) error {
	runtime.LockOSThread()
	c, err := (&net.Dialer{}).Dial("unix", socket)
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.SYS_FSYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	all := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&all)))
	if e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(int(listener)), nil); err != nil {
		return err
	}
	return syscall.Exec(program[0], program, os.Environ())
}
