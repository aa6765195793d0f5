package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The temporary files of tests are in memory if it has room for them, and the folder is removed.
func TestTemporaryFilesInMemory(t *testing.T) {
	memory, own := t.TempDir(), os.TempDir() //nolint:usetesting // that of this process
	env, remove, err := inMemory(memory, 1)
	if err != nil {
		t.Fatal(err)
	}
	made, _ := filepath.Glob(filepath.Join(memory, "*"))
	if len(made) != 1 || !slices.Contains(env, "TMPDIR="+made[0]) || !slices.Contains(env, "GOTMPDIR="+own) || !slices.Contains(env, locksOfTests+"="+own) {
		t.Fatalf("%v is named by %v", made, env)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v; PostgreSQL's user has to pass it", info.Mode(), err)
	}
	remove()
	env, remove, err = inMemory(memory, 1<<63)
	remove()
	left, _ := filepath.Glob(filepath.Join(memory, "*"))
	if err != nil || len(env) > 0 || len(left) > 0 {
		t.Errorf("without room: %v, %v, %v", env, left, err)
	}
}

func TestAvailableMemory(t *testing.T) {
	if got := available([]byte("MemFree:  1 kB\nMemAvailable:   3 kB\n")); got != 3<<10 {
		t.Errorf("%d bytes", got)
	}
	if got := available([]byte(strings.Repeat("x", 9))); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
}
