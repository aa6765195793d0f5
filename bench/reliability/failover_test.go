package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/reliability"
	"github.com/powerbox-project/powerbox/internal/programtest"
)

// TestEXT15_EXT16_EXT27_ThroughFailover breaks two nodes on a primary with a synchronous
// standby, and a remote gateway, under load, once in each way. Afterwards acknowledged records
// are there, revoked capabilities are refused everywhere, others are allowed, and the log
// continues from its old state. docs/assurance/reliability.md has the results of ten runs
// each, and more.
func TestEXT15_EXT16_EXT27_ThroughFailover(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	w, err := reliability.NewTown(ctx, reliability.Config{
		Binary: build(t, dir), Dir: dir, Nodes: 2, Gateways: 1, Workers: 4, Lease: 2 * time.Second,
		Now: time.Now, Random: rand.Reader, Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, trial := range reliability.Trials(2 * time.Second) {
		if !trial.Brief {
			continue
		}
		r, err := w.Play(ctx, trial, 1)
		if err != nil || !r.OK() || r.Counts.Allowed == 0 || r.Counts.Denied == 0 || r.Counts.Issued == 0 {
			t.Errorf("EXT-27 %s: %v, %d lost, %+v\n%v", trial.Name, err, r.Lost, r.Counts, r.Wrong)
		}
		if err != nil {
			return // the town is not whole
		}
	}
	answered, each, _, err := w.Revocations(ctx, 20, 3)
	if err != nil || len(answered) != 3 || len(each) != 60 {
		t.Errorf("EXT-16 3 revocations to 20 followers: %d answers, %d times known, %v", len(answered), len(each), err)
	}
}

// build builds the program into a folder, with more flags for go build. Without them it is the one
// that make test has built.
func build(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	if program := os.Getenv(programtest.Variable); program != "" && len(flags) == 0 {
		return program
	}
	binary := filepath.Join(dir, "powerbox")
	if err := built.Build(t.Context(), "../..", binary, flags...); err != nil {
		t.Fatal(err)
	}
	return binary
}
