package opa

import (
	"bytes"
	"errors"
	"sync"
	"testing"
)

// slow is a disk whose first sync waits.
type slow struct {
	mu              sync.Mutex
	pending, synced bytes.Buffer
	syncs           int
	began, release  chan struct{}
	fails           error
}

func (d *slow) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pending.Write(p)
}

func (d *slow) Sync() error {
	d.mu.Lock()
	d.syncs++
	first := d.syncs == 1
	d.mu.Unlock()
	if first {
		close(d.began)
		<-d.release
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.pending.WriteTo(&d.synced)
	return errors.Join(err, d.fails)
}

func (d *slow) has(line string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Contains(d.synced.Bytes(), []byte(line))
}

// A line is on the disk when append returns, and lines that wait for the disk share one sync.
func TestDecisionsAreSyncedInGroups(t *testing.T) {
	d := &slow{began: make(chan struct{}), release: make(chan struct{})}
	s := &syncing{file: d}
	appends := func(line string, all *sync.WaitGroup) {
		all.Go(func() {
			if err := s.append([]byte(line)); err != nil || !d.has(line) {
				t.Errorf("%q is not on the disk: %v", line, err)
			}
		})
	}
	var all sync.WaitGroup
	appends("a\n", &all)
	<-d.began
	for n := range byte(20) {
		appends(string([]byte{'b' + n, '\n'}), &all)
	}
	for queued := 0; queued < 40; {
		s.mu.Lock()
		if s.group != nil {
			queued = s.group.lines.Len()
		}
		s.mu.Unlock()
	}
	close(d.release)
	all.Wait()
	if d.syncs != 2 {
		t.Errorf("%d syncs of 1 line and 20 that waited; want 2", d.syncs)
	}
}

func TestFailedSyncIsAnError(t *testing.T) {
	d := &slow{began: make(chan struct{}), release: make(chan struct{}), fails: errors.New("the disk is full")}
	close(d.release)
	if err := (&syncing{file: d}).append([]byte("a\n")); !errors.Is(err, d.fails) {
		t.Errorf("%v", err)
	}
}
