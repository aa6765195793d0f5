//go:build !linux

package spool

import "os"

// syncData makes the written bytes durable.
func syncData(f *os.File) error { return f.Sync() }
