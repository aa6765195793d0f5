package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
)

// watcher is a running powerbox witness.
type watcher struct {
	t       *testing.T
	dir     string
	url     string
	key     evidence.WitnessKey
	process *exec.Cmd
	log     *programtest.Log
}

// newWatcher starts a witness of logs, each given by its keys.
func newWatcher(t *testing.T, name string, keys ...string) *watcher {
	t.Helper()
	v := &watcher{t: t, dir: t.TempDir()}
	address := "127.0.0.1:" + freePort(t)
	v.url = "http://" + address
	v.watch(name, address, keys...)
	key, err := evidence.ParseWitnessKey(strings.TrimSpace(v.must("witness", "key", "-c", v.file())))
	if err != nil {
		t.Fatal(err)
	}
	v.key = key
	v.boot()
	return v
}

func (v *watcher) file() string { return filepath.Join(v.dir, "witness.yaml") }

// watch writes the configuration.
func (v *watcher) watch(name, address string, keys ...string) {
	v.t.Helper()
	text := fmt.Sprintf("name: %s\nlisten: %s\nlogs:\n", name, address)
	for _, key := range keys {
		origin, _, _ := strings.Cut(key, "+")
		text += fmt.Sprintf("  - {origin: %q, keys: [%q]}\n", origin, key)
	}
	if err := os.WriteFile(v.file(), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

func (v *watcher) must(args ...string) string {
	v.t.Helper()
	out, talk, code := ran(v.t, args...)
	if code != 0 {
		v.t.Fatalf("powerbox %s: %d\n%s%s", strings.Join(args, " "), code, out, talk)
	}
	return out
}

// boot starts the witness and waits until it answers.
func (v *watcher) boot() {
	v.t.Helper()
	v.log = &programtest.Log{}
	process := exec.Command(binary, "witness", "-c", v.file())
	process.Stderr = v.log
	if err := process.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.process = process
	exited := make(chan error, 1)
	go func() { exited <- process.Wait() }()
	v.t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(15 * time.Second):
			_ = process.Process.Kill()
		}
	})
	eventually(v.t, 20*time.Second, func() string { return "the witness is not ready\n" + v.log.String() }, func() bool {
		response, err := http.Get(v.url + "/livez")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// cosigned is the checkpoint that the witness shows of a log, in a file.
func (v *watcher) cosigned(origin string) string {
	v.t.Helper()
	name := filepath.Join(v.t.TempDir(), "seen")
	data := (&town{t: v.t}).get(v.url + witness.CheckpointPath(origin))
	if err := os.WriteFile(name, data, 0o600); err != nil {
		v.t.Fatal(err)
	}
	return name
}

// ran runs the binary and returns what it said and its exit code.
func ran(t *testing.T, args ...string) (out, talk string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

const logName = "powerbox.example/log"

// watched is a town whose log has its own name, and no witness yet.
func watched(t *testing.T) *town {
	t.Helper()
	return start(t, options{extra: "defaults: {request_rate: 0}\nevidence: {origin: " + logName + "}\n"})
}

// logKey is the key of the town's log, as a witness is told it.
func (w *town) logKey() string {
	w.t.Helper()
	trust, err := evidence.ParseTrust(w.operator(http.MethodGet, "/v1/evidence/trust", nil))
	if err != nil {
		w.t.Fatal(err)
	}
	return trust.CheckpointKeys[0]
}

// under writes the witnesses into the configuration, in place of those before.
func (w *town) under(more string, watchers ...*watcher) {
	w.t.Helper()
	name := filepath.Join(w.dir, "powerbox.yaml")
	data, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(data), "evidence: {")
	_, rest, _ := strings.Cut(string(data[len(text):]), "\n")
	var list []string
	for _, v := range watchers {
		list = append(list, fmt.Sprintf("{url: %q, key: %q}", v.url, v.key))
	}
	line := fmt.Sprintf("evidence: {origin: %s, witness_period: 100ms, witnesses: [%s]%s}\n", logName, strings.Join(list, ", "), more)
	w.write("powerbox.yaml", text+line+rest)
}

// denied makes so many records.
func (w *town) denied(n int) {
	w.t.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range (n + 7) / 8 {
				w.post(w.agentURL("documents"), data("search_documents", nil), http.Header{"A2a-Version": {"1.0"}})
			}
		})
	}
	wg.Wait()
}

// shown is the checkpoint that everybody can see.
func (w *town) shown() evidence.Checkpoint {
	w.t.Helper()
	c, err := evidence.ReadCheckpoint(w.get(w.url + "/checkpoint"))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// covers waits until the shown checkpoint covers so many entries.
func (w *town) covers(size int64) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, func() string { return "nothing is cosigned\n" + w.log.String() }, func() bool { return w.shown().Size >= size })
}

// notServed starts the server, which must not serve, and returns what it says.
func (w *town) notServed(flags ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second) // a server that starts would stay
	defer cancel()
	talk, err := exec.CommandContext(ctx, binary, append([]string{"serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev"}, flags...)...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		w.t.Fatalf("serve ended with %v\n%s", err, talk)
	}
	return string(talk)
}

// copied copies what the server keeps.
func copied(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(to, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(name, 0o600)
		} else if err == nil {
			err = os.Chmod(name, 0o700)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// kept is the folder of the town's store and keys.
func (w *town) kept() string { return filepath.Join(w.dir, "powerbox-data") }

// exported writes bundle and trust to files.
func (w *town) exported() (bundle, trust string) {
	w.t.Helper()
	bundle, trust = filepath.Join(w.t.TempDir(), "bundle"), filepath.Join(w.t.TempDir(), "trust")
	w.run("evidence", "export", "--out", bundle)
	w.run("evidence", "trust", "--out", trust)
	return bundle, trust
}
