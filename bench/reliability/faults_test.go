package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/reliability"
)

// TestATK88_Faults breaks one server on a file and one remote gateway in every way, once and
// under a small load: each answer is compared with the exported evidence.
func TestATK88_Faults(t *testing.T) {
	dir := t.TempDir()
	binary := build(t, dir, "-tags", "faults")
	w, err := reliability.NewTown(t.Context(), reliability.Config{
		Binary: binary, Dir: dir, Nodes: 1, Gateways: 1, Workers: 3, Lease: time.Second, Deadline: time.Second, File: true, Env: reliability.ClockEnv(dir),
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
	for _, trial := range reliability.Faults(3 * time.Second) {
		if !trial.Brief {
			continue
		}
		r, err := w.Play(t.Context(), trial, 1)
		t.Logf("%s: %+v %+v", trial.Name, r.Compared, r.Counts)
		if err != nil || !r.OK() || r.Compared.Answers == 0 || r.Compared.Refusals == 0 || r.Compared.Executed < r.Compared.Answers {
			t.Errorf("%s: %v, %d lost, %+v\n%v", trial.Name, err, r.Lost, r.Compared, r.Wrong)
		}
		if err != nil {
			for _, name := range []string{"node0.log", "gateway0.log"} {
				log, _ := os.ReadFile(filepath.Join(dir, name)) // it may not have begun
				t.Logf("%s:\n%s", name, log[max(0, len(log)-3000):])
			}
			return // the town is not whole
		}
	}
}
