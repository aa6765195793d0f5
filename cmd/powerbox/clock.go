//go:build !faults

package main

import (
	"time"
)

// wallClock is the clock of this machine.
func wallClock(func(string) string) func() time.Time { return time.Now }
