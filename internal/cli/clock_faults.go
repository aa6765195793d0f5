//go:build faults

package cli

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"
)

// clockFile is the variable that names the file of an offset, such as 3700s. It exists
// only in programs that are built for fault trials.
const clockFile = "POWERBOX_FAULT_CLOCK"

// wallClock is the clock of this machine, moved by what a file says now. No library can
// move it: a Go program asks the kernel's page for the time, not the C library.
func wallClock(env func(string) string) func() time.Time {
	path := env(clockFile)
	if path == "" {
		return time.Now
	}
	return func() time.Time {
		now := time.Now()
		text, err := os.ReadFile(path)
		if err != nil {
			return now // it is replaced at this moment, or the clock is not moved yet
		}
		by, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil {
			panic(fmt.Sprintf("%s=%s: %v", clockFile, path, err))
		}
		return jumped(now, by)
	}
}

// jumped returns a reading whose wall clock has moved by whole seconds, and whose monotonic
// clock has not, as after an administrator set the clock of a machine. The time package has no way
// to say that.
func jumped(now time.Time, by time.Duration) time.Time {
	moved := now
	wall := (*uint64)(unsafe.Pointer(&moved)) // monotonic flag (1 bit), seconds (33), nanoseconds (30)
	*wall += uint64(by/time.Second) << 30
	if moved.Unix()-now.Unix() != int64(by/time.Second) || moved.Sub(now) != 0 {
		panic("this version of Go has another form of time.Time")
	}
	return moved
}
