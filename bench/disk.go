package main

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// bareDisk is the trial of a call that does nothing but wait for the disk.
const bareDisk = "two waits for the disk"

// diskTrial makes calls at the pace of [front.paceTrial]. Each call writes a record of 1 KiB, waits
// until it is on the disk, and does so a second time, as a governed call does for decision and
// outcome. Records that come while the disk is busy share the next sync.
func diskTrial(calls int, dir, ours string) trial {
	name := bareDisk + " at half load"
	return trial{name, func(into round, cell time.Duration) (err error) {
		n := max(connections, int(float64(calls)*cell.Seconds()/0.1)) / 2
		f, err := newGrouped(dir, 2*n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		latencies, err := pace(make([]struct{}, connections), n, into[ours+" per second"]/2, func(struct{}, int) error {
			return errors.Join(f.append(), f.append())
		})
		into[name+" p50 ms"] = quantile(latencies, 0.5)
		into[name+" p99 ms"] = quantile(latencies, 0.99)
		return err
	}}
}

// grouped is a file to which one write adds the records of all who wait. A write returns when it is
// on the disk.
type grouped struct {
	file    *os.File
	records chan chan error
	done    sync.WaitGroup
}

// recordSize is how long a record of [grouped] is.
const recordSize = 1 << 10

// newGrouped makes a file with room for n records, so that no write makes it longer.
func newGrouped(dir string, n int) (*grouped, error) {
	room, err := os.CreateTemp(dir, "bench")
	if err != nil {
		return nil, err
	}
	_, err = room.Write(make([]byte, n*recordSize))
	err = errors.Join(err, room.Sync(), room.Close())
	file, errOpen := os.OpenFile(room.Name(), os.O_WRONLY|syscall.O_DSYNC, 0)
	if err = errors.Join(err, errOpen); err != nil {
		return nil, errors.Join(err, os.Remove(room.Name()))
	}
	g := &grouped{file: file, records: make(chan chan error, connections)}
	g.done.Go(g.write)
	return g, nil
}

func (g *grouped) write() {
	block := make([]byte, connections*recordSize)
	for first := range g.records {
		waiting := []chan error{first}
		for len(g.records) > 0 {
			waiting = append(waiting, <-g.records)
		}
		_, err := g.file.Write(block[:len(waiting)*recordSize])
		for _, w := range waiting {
			w <- err
		}
	}
}

// append returns when its record is on the disk.
func (g *grouped) append() error {
	done := make(chan error, 1)
	g.records <- done
	return <-done
}

func (g *grouped) close() error {
	close(g.records)
	g.done.Wait()
	return errors.Join(g.file.Close(), os.Remove(g.file.Name()))
}
