package daemon

import "golang.org/x/sys/unix"

func peerOf(socket int) (int, error) {
	cred, err := unix.GetsockoptXucred(socket, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
