package serve

import (
	"os"
	"runtime"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times the live heap before it is collected,
// unless GOGC is set. The live heap is small, some tens of MB with a full memo, and
// collecting is a fifth of the time of a call otherwise.
const gcPercent = 400

// diskThreads are how many goroutines wait for the disk at once, in the calls of the
// system: the writer for its journal, and the copiers of records and of the log. Go
// takes a processor from a waiting thread only after a while, and until then the
// processor is idle: with two processors, half of all.
const diskThreads = 2

// Tune sets Go's defaults for a process that serves calls, where GOGC, GOMEMLIMIT and
// GOMAXPROCS say nothing. A limit of the CPU time, as of a container, is kept: the
// kernel stops a process with more threads than the limit for the rest of a period.
func Tune(env func(string) string) (restore func()) {
	var undo []func()
	if env("GOGC") == "" {
		old := debug.SetGCPercent(gcPercent)
		undo = append(undo, func() { debug.SetGCPercent(old) })
	}
	if limited := runtime.GOMAXPROCS(0) < runtime.NumCPU(); env("GOMAXPROCS") == "" && !limited {
		runtime.GOMAXPROCS(runtime.NumCPU() + diskThreads)
		undo = append(undo, runtime.SetDefaultGOMAXPROCS)
	}
	undo = append(undo, LimitMemory(env))
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

// LimitMemory has Go keep within the memory of the control group, where GOMEMLIMIT
// says nothing.
func LimitMemory(env func(string) string) (restore func()) {
	limit := memoryLimit(os.DirFS("/"))
	if env("GOMEMLIMIT") != "" || limit == 0 {
		return func() {}
	}
	old := debug.SetMemoryLimit(limit)
	return func() { debug.SetMemoryLimit(old) }
}
