//go:build linux || darwin

package daemon

import (
	"errors"
	"io/fs"
	"net"
	"syscall"
)

// peer returns the user at the other end of a Unix socket, as the kernel knows it.
func peer(conn net.Conn) (int, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return -1, errors.New("no Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid := -1
	var inner error
	err = raw.Control(func(fd uintptr) { uid, inner = peerOf(int(fd)) })
	return uid, errors.Join(err, inner)
}

func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
