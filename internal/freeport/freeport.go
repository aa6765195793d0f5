// Package freeport finds addresses for programs that listen where they are told to,
// and are told before they run: those that tests and measurements start.
//
// A port that was listened on and given up is taken by the next of thousands of
// connections and listeners of tests beside it, as often as not before the program has
// begun. So these are below those that the system gives out on its own, and
// each is one process's for as long as it wants it.
package freeport

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/internal/filelock"
)

// The ports that are given, from the first to before the last. Those of e2e
// and of examples/premises begin behind them.
const first, last = 10000, 15000

// Address is one on loopback without a listener. Until the test ends no one else
// is given it.
func Address(t testing.TB) string {
	t.Helper()
	address, lock, err := take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return address
}

// Lasting is an address as [Address] gives it, for as long as this process lives.
func Lasting() (string, error) {
	address, lock, err := take()
	if err != nil {
		return "", err
	}
	lasting.mu.Lock()
	defer lasting.mu.Unlock()
	lasting.locks = append(lasting.locks, lock)
	return address, nil
}

// lasting are locks that are never released: an unreferenced file would be closed.
var lasting struct {
	mu    sync.Mutex
	locks []*os.File
}

// take finds a port. The lock is a file of its number, which other processes see and
// which ends with this one. E2E_LOCKS names the folder for them if the tests have a folder for
// temporary files of their own.
func take() (address string, lock *os.File, err error) {
	folder := filepath.Join(cmp.Or(os.Getenv("E2E_LOCKS"), os.TempDir()), "powerbox-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil { //nolint:gosec // who runs the tests names it
		return "", nil, fmt.Errorf("freeport: %w", err)
	}
	for range 10 * (last - first) {
		port := strconv.Itoa(first + rand.IntN(last-first)) //nolint:gosec // nothing secret
		if lock, err = filelock.Take(filepath.Join(folder, port)); err != nil {
			continue
		}
		address = net.JoinHostPort("127.0.0.1", port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil { //nolint:noctx // at once
			return address, lock, l.Close()
		}
		_ = lock.Close() // a program outside of the tests has the port
	}
	return "", nil, fmt.Errorf("freeport: no port from %d to %d is free: %w", first, last-1, err)
}
