package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// round is what one round measured, by name. Times are nanoseconds of process
// CPU an operation unless the name says otherwise.
type round map[string]float64

// trial is one contestant for some rows.
type trial struct {
	name string
	// measure runs the contestant for about as long as a cell and puts what
	// it found into the round.
	measure func(into round, cell time.Duration) error
}

// job is an operation that is repeated.
type job struct {
	run func() error
	// fresh prepares the next batch of operations, unmeasured; nil where there
	// is nothing to prepare.
	fresh func() error
	batch int // operations between two calls of fresh; required with it
}

// cpuTrial measures a job in process CPU time.
func cpuTrial(name string, j job) trial {
	return trial{name, func(into round, cell time.Duration) error {
		ns, err := j.cpu(cell)
		into[name] = ns
		return err
	}}
}

// repeat is a job without preparation.
func repeat(run func() error) job { return job{run: run} }

// cpu returns the nanoseconds of process CPU that one operation takes.
func (j job) cpu(cell time.Duration) (float64, error) {
	batch, total, n := max(j.batch, 1), time.Duration(0), 0
	for total < cell {
		if j.fresh != nil {
			if err := j.fresh(); err != nil {
				return 0, err
			}
		}
		spent, err := j.once(batch)
		if err != nil {
			return 0, err
		}
		if j.fresh == nil && spent < cell/16 {
			batch *= 2 // so that reading the clock does not count
		}
		total, n = total+spent, n+batch
	}
	return float64(total) / float64(n), nil
}

func (j job) once(batch int) (time.Duration, error) {
	start, err := processCPU()
	if err != nil {
		return 0, err
	}
	for range batch {
		if err := j.run(); err != nil {
			return 0, err
		}
	}
	end, err := processCPU()
	return end - start, err
}

// processCPU is the user and system time of the process so far.
func processCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// play runs every trial once per round, one after the other, so that whatever
// else the machine does falls on all of them.
func play(trials []trial, rounds int, cell time.Duration, progress func(string)) ([]round, error) {
	var all []round
	for n := range rounds {
		this := round{}
		for _, t := range trials {
			progress(fmt.Sprintf("round %d of %d: %s", n+1, rounds, t.name))
			runtime.GC() // no row pays for another row's garbage
			if err := t.measure(this, cell); err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
		}
		all = append(all, this)
	}
	return all, nil
}

// quantile returns the q-th quantile, linear between the two nearest values.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	place := q * float64(len(sorted)-1)
	low := int(place)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (place-float64(low))*(sorted[high]-sorted[low])
}
