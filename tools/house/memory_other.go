//go:build !linux

package main

// filesInMemory is the folder whose files Linux keeps in memory.
const filesInMemory = ""

// freeIn is how many bytes files below a folder can still have. It is known on Linux alone.
func freeIn(string) uint64 { return 0 }
