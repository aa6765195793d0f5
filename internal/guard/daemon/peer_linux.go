package daemon

import "golang.org/x/sys/unix"

func peerOf(socket int) (int, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
