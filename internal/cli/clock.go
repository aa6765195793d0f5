//go:build !faults

package cli

import (
	"time"
)

// wallClock is the clock of this machine.
func wallClock(func(string) string) func() time.Time { return time.Now }
