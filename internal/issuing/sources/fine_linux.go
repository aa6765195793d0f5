package sources

import (
	"syscall"
	"time"
)

// Fine sleeps in the kernel, whose timers have a resolution far below a millisecond.
func Fine(d time.Duration) {
	left := syscall.NsecToTimespec(int64(max(0, d)))
	for left.Sec > 0 || left.Nsec > 0 {
		if now := left; syscall.Nanosleep(&now, &left) != syscall.EINTR {
			return
		}
	}
}
