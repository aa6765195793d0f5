//go:build !linux

package sources

import "time"

// Fine sleeps as well as the runtime can.
func Fine(d time.Duration) { time.Sleep(d) }
