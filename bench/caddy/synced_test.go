package main

import (
	"bytes"
	"errors"
	"sync"
	"testing"
)

// slow is a file whose first sync waits.
type slow struct {
	mu              sync.Mutex
	pending, synced bytes.Buffer
	syncs           int
	began, release  chan struct{}
	fails           error
}

func (f *slow) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending.Write(p)
}

func (f *slow) Sync() error {
	f.mu.Lock()
	f.syncs++
	first := f.syncs == 1
	f.mu.Unlock()
	if first {
		close(f.began)
		<-f.release
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.pending.WriteTo(&f.synced)
	return errors.Join(err, f.fails)
}

func (f *slow) Close() error { return nil }

func (f *slow) has(line string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Contains(f.synced.Bytes(), []byte(line))
}

// A line is on the disk when Write returns, and lines that wait for the disk share one sync.
func TestLinesAreSyncedInGroups(t *testing.T) {
	f := &slow{began: make(chan struct{}), release: make(chan struct{})}
	s := &groups{file: f}
	var all sync.WaitGroup
	writes := func(line string) {
		all.Go(func() {
			if n, err := s.Write([]byte(line)); err != nil || n != len(line) || !f.has(line) {
				t.Errorf("%q is not on the disk: %d, %v", line, n, err)
			}
		})
	}
	writes("a\n")
	<-f.began
	for n := range byte(20) {
		writes(string([]byte{'b' + n, '\n'}))
	}
	for queued := 0; queued < 40; {
		s.mu.Lock()
		if s.filled != nil {
			queued = s.filled.lines.Len()
		}
		s.mu.Unlock()
	}
	close(f.release)
	all.Wait()
	if f.syncs != 2 {
		t.Errorf("%d syncs of 1 line and 20 that waited; want 2", f.syncs)
	}
}

func TestFailedSyncIsAnError(t *testing.T) {
	f := &slow{began: make(chan struct{}), release: make(chan struct{}), fails: errors.New("the disk is full")}
	close(f.release)
	if _, err := (&groups{file: f}).Write([]byte("a\n")); !errors.Is(err, f.fails) {
		t.Errorf("%v", err)
	}
}
