package reliability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/freeport"
)

// logName is the origin of the log of a node on a file, which a witness needs to know.
const logName = "trial.example/log"

// restoreOlder replaces everything that a witness has seen, keys and journal among it,
// with an older copy. The server must not start.
func restoreOlder(ctx context.Context, t *Town) (string, error) {
	n := t.nodes[0]
	without, err := os.ReadFile(n.file)
	if err != nil {
		return "", err
	}
	witness, line, err := t.startWitness(ctx)
	if err != nil {
		return "", err
	}
	with := strings.Replace(string(without), "evidence: {origin: "+logName+"}", line, 1)
	err = t.underWitness(ctx, n, with)
	err = errors.Join(err, n.process.stop(20*time.Second), os.WriteFile(n.file, without, 0o600), t.boot(ctx, n), witness.stop(20*time.Second)) //nolint:gosec // a file of the town
	return "with a witness the server does not start", err
}

func (t *Town) underWitness(ctx context.Context, n *node, configured string) error {
	older, newer := filepath.Join(t.Dir, "older"), filepath.Join(t.Dir, "newer")
	err := errors.Join(n.process.stop(20*time.Second), os.WriteFile(n.file, []byte(configured), 0o600), copyFolder(t.store(), older), t.boot(ctx, n)) //nolint:gosec // a file of the town
	if err != nil {
		return err
	}
	if !pause(ctx, calm) { // something is acknowledged, and the witness sees it
		return ctx.Err()
	}
	n.kill()
	err = errors.Join(os.Rename(t.store(), newer), os.Rename(older, t.store()), t.refuses(ctx, "everything is older", "the store is behind"))
	// Anything that was acknowledged is there again.
	return errors.Join(err, os.RemoveAll(t.store()), os.Rename(newer, t.store()), t.boot(ctx, n))
}

// startWitness starts a witness of the node's log, and returns the line of the node's
// configuration that names it.
func (t *Town) startWitness(ctx context.Context) (*process, string, error) {
	raw, err := t.fetch(ctx, http.MethodGet, "/v1/evidence/trust", nil)
	if err != nil {
		return nil, "", err
	}
	trust, err := evidence.ParseTrust(bytes.TrimSpace(raw))
	if err != nil {
		return nil, "", err
	}
	address, err := freeport.Lasting()
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp(t.Dir, "witness")
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "witness.yaml")
	text := fmt.Sprintf("name: trial.example/witness\nlisten: %s\nlogs:\n  - {origin: %q, keys: [%q]}\n", address, logName, trust.CheckpointKeys[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	key, err := t.run(ctx, t.Binary, "witness", "key", "-c", file)
	if err != nil {
		return nil, "", fmt.Errorf("witness key: %w\n%s", err, key)
	}
	p, err := startProcess(ctx, dir, "witness", nil, t.Binary, "witness", "-c", file)
	line := fmt.Sprintf("evidence: {origin: %s, witness_period: 100ms, witnesses: [{url: %q, key: %q}]}", logName, "http://"+address, strings.TrimSpace(key))
	return p, line, err
}

// copyFolder copies a folder into one that only its owner may read.
func copyFolder(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(name, 0o700) //nolint:gosec // a folder must be entered
		}
		return os.Chmod(name, 0o600) //nolint:gosec // a file of the town
	})
}
